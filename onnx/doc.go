// Package onnx reads and writes ONNX model files. It runs nothing and needs no runtime.
//
//   - [Open] scans a file and checks it. Large weights stay in the file, so that a model of any size
//     takes little memory. [Parse] does the same for a model in memory. Calls of the model's own
//     functions are expanded: inside a call of the node NAME, tensor t becomes NAME/t.
//   - [Model.Runnable] returns the graph for ONNX Runtime, which refers to large weights in place;
//     [Model.Bytes] returns it in one piece, and [Model.Files] what to write: above 2 GiB with the
//     weights in a second file.
//
// Package onnx/head finds the classification head of a model and cuts the model there; onnx/fuse
// appends the mean-field head.
//
// A [Model] is immutable: every step returns a new one, which shares memory with the old.
//
// # Untrusted files
//
// Models need not be trusted. Before anything is allocated, sizes are compared with the file's, products
// of dimensions are checked for overflow, and the number and depth of messages are bounded. External
// data must be in the folder that contains the model file, after resolving symbolic links; absolute
// paths, "..", links that lead out, files with several hard links, and anything but regular files are
// refused.
package onnx
