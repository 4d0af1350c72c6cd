// Package onnx reads ONNX model files, finds the classification head, and cuts the model in front of it. It knows files
// only: it runs nothing and needs no runtime.
//
//  1. [Open] scans a file and checks it. Large weights stay where they are, remembered by their place in the file, so
//     that a model takes little memory however large it is. [Parse] does the same with a model in memory. Calls of the
//     model's own functions are replaced by what they do: inside a call of the node NAME, tensor t becomes NAME/t.
//  2. [FindHead] finds the last linear layer, logits = φ·Wᵀ + b, by going back from the output: past what only reshapes
//     or makes probabilities, to the operator that is linear in exactly one tensor that depends on the input. What it
//     does not recognise it refuses with an [*UnsupportedError].
//  3. [Cut] gives a model whose outputs are φ and the logits. [DenseTail] finds the dense layers below the head as well, and
//     [CutTail] cuts in front of those.
//  4. [Model.Runnable] gives the graph for ONNX Runtime, with large weights referred to in place; [Model.Bytes] gives it in
//     one piece, and [Model.Files] what to write, above 2 GiB with the weights in a second file.
//
// [Stochastic] switches Dropout nodes on, [Random] tells which nodes of a network draw random numbers, and [Seeded] gives them
// seeds, so that a new session repeats what another one gave.
//
// A [Model] is immutable: every step gives a new one, which shares what it has in common with the old.
//
// # Untrusted files
//
// A model may come from anywhere. Before anything is allocated, sizes are compared with the file's, products of dimensions
// are checked for overflow, and the number and depth of messages is bounded. External data must lie in the folder in
// which the model file really is, after symbolic links; absolute paths, "..", links that lead out, files with several hard
// links, and anything but regular files are refused.
package onnx
