// Package onnx reads and writes ONNX model files: values in, values out. It runs nothing and needs
// no runtime.
//
//   - [Open] scans a file and checks it. Large weights stay where they are, remembered by their
//     place in the file, so that a model takes little memory however large it is. [Parse] does the
//     same with a model in memory. Calls of the model's own functions are replaced by what they do:
//     inside a call of the node NAME, tensor t becomes NAME/t.
//   - [Model.Runnable] gives the graph for ONNX Runtime, with large weights referred to in place;
//     [Model.Bytes] gives it in one piece, and [Model.Files] what to write, above 2 GiB with the
//     weights in a second file.
//
// Package onnx/head finds the classification head of a model and cuts the model there, onnx/fuse
// appends the mean-field head, and onnx/layers knows the dense layers below the head and what a
// network draws at random.
//
// A [Model] is immutable: every step gives a new one, which shares what it has in common with the
// old.
//
// # Untrusted files
//
// A model may come from anywhere. Before anything is allocated, sizes are compared with the file's,
// products of dimensions are checked for overflow, and the number and depth of messages is bounded.
// External data must lie in the folder in which the model file really is, after symbolic links;
// absolute paths, "..", links that lead out, files with several hard links, and anything but
// regular files are refused.
package onnx
