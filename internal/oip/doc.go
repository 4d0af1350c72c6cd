// Package oip reads and writes the messages of the Open Inference Protocol, version 2, which clients of KServe and
// Triton speak. It does no networking: requests come as the bytes of a body ([ReadRequest]) or as gRPC messages
// ([RequestFromProto]), are parsed into tensors and checked against a model's inputs ([Metadata.Check]); a [Response]
// goes the way back.
//
//	body or message ──▶ Request ──▶ Metadata.Check ──▶ (inference) ──▶ Response ──▶ body or message
//
// In a body, tensors are lists in JSON or, with the extension for binary tensors, bytes after the JSON, whose length
// is in a header ([Header]). In gRPC they are raw bytes or typed fields; responses are raw.
//
// Everything is bounded by [Limits] before memory is allocated for it. Errors are [Error]s, whose [Status] maps to
// codes of HTTP and gRPC.
//
// Sources: the protocol (https://github.com/kserve/open-inference-protocol) and Triton's extensions for
// binary tensors, classification, parameters, model repository, configuration and statistics
// (https://github.com/triton-inference-server/server, docs/protocol).
package oip
