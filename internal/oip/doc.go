// Package oip reads and writes the messages of the Open Inference Protocol, version 2: what clients of
// KServe and Triton send and expect. It knows no network: requests come as bytes of a body
// ([ReadRequest]) or as messages of gRPC ([RequestFromProto]), become tensors and are held against what a
// model takes ([Metadata.Check]); a [Response] goes the way back.
//
//	body or message ──▶ Request ──▶ Metadata.Check ──▶ (inference) ──▶ Response ──▶ body or message
//
// In a body, tensors are lists in JSON or, with the extension for binary tensors, bytes behind the
// JSON, whose length a header says ([Header]). In gRPC they are raw bytes or typed fields; responses are raw.
//
// Everything is bounded by [Limits] before anything is allocated for it. What is wrong is an [Error],
// whose [Status] says what HTTP and gRPC call it.
//
// Sources: the protocol (https://github.com/kserve/open-inference-protocol) and Triton's extensions for
// binary tensors, classification, parameters, model repository, configuration and statistics
// (https://github.com/triton-inference-server/server, docs/protocol).
package oip
