// Package serve answers requests for predictions over HTTP and gRPC: by the Open Inference Protocol, which
// clients of Triton and KServe speak, and for people by POST /v1/predict.
//
//	server, err := serve.New(ctx, serve.Config{
//		Bundles: []serve.Bundle{{Name: "digits", Dir: "digits-bundle"}}, HTTP: "127.0.0.1:8000",
//	})
//	…
//	err = server.Run(ctx) // until ctx ends, and all requests are answered
//
// The path of a request: its body is read within the limits (body.go; codec.go for gRPC), package oip parses it into
// tensors (rest.go, rpc.go), the model checks them against its metadata, and its engine runs them together with those
// of other requests (infer.go, package engine). The session's outputs are the answer; package wrap makes predictions of
// them for metrics, and computes decisions. POST /v1/predict (predict.go) reads an image or a JSON object (inputs.go),
// runs in the same way, and answers with the predictions.
//
// All memory of a request is reserved before it is allocated: its body, unpacked, the pixels of an image, its results.
// All requests under way share Config.InFlight; incomplete gRPC messages have half of it (package inbound).
//
// # Models
//
// A model is a bundle under a name. Reloading it opens the bundle again as a new revision. New requests go there once
// it is ready; the revision before answers the requests that it has, and is then closed.
//
// # gRPC
//
// Importing this package registers the protocol's messages, inference.*, with package protobuf. A program can register
// them only once: it cannot import other generated code of the protocol as well.
package serve
