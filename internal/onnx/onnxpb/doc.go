// Package onnxpb holds the protocol buffer messages of the ONNX model format, as far as mfgs uses
// them, with what all who read or make them need: names of nodes, attributes, element types.
package onnxpb

// Generated with protoc 3.21.12 and
// go install google.golang.org/protobuf/cmd/protoc-gen-go@v1.36.12
//
//go:generate protoc --go_out=. --go_opt=paths=source_relative mfgs_onnx.proto
