// Package fuse appends the mean-field head to a model, as standard ONNX operators: [Append].
package fuse
