// Package inference holds the messages and the service of the Open Inference Protocol over gRPC, as
// protoc makes them of inference.proto. Package oip turns them into values of Go and back.
package inference

// Generated with protoc 3.21.12 and
// go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
// go install google.golang.org/grpc/cmd/protoc-gen-go-grpc@v1.6.2
//
//go:generate protoc --go_out=paths=source_relative:. --go-grpc_out=paths=source_relative:. inference.proto
