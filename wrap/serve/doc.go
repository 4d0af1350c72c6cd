// Package serve answers requests for predictions over HTTP and gRPC: by the Open Inference Protocol, which
// clients of Triton and KServe speak, and for people by POST /v1/predict.
//
//	server, err := serve.New(ctx, serve.Config{
//		Bundles: []serve.Bundle{{Name: "digits", Dir: "digits-bundle"}}, HTTP: "127.0.0.1:8000",
//	})
//	…
//	err = server.Run(ctx) // until ctx ends, and all requests are answered
//
// The way of a request: its body is read within the limits (body.go), package oip makes tensors of it
// (rest.go, rpc.go), the model holds them against what it takes and has its engine run them, together with
// those of other requests (infer.go, package engine), and predictions and decisions follow (package wrap).
//
// Everything that a request takes in memory is bounded before it is taken: its body, what that unpacks to,
// the pixels of an image, its results. Together the requests under way have Config.InFlight, and messages of
// gRPC that are not whole half of it (package inbound).
//
// # Models
//
// A model is a bundle under a name. Loading it anew opens the bundle a second time, and only when that is
// ready to answer do requests go there; the one before serves those that it has, and is then closed.
//
// # gRPC
//
// Importing this package registers the protocol's messages, inference.*, with package protobuf. A program
// cannot do so twice: it cannot import other generated code of the protocol beside this.
package serve
