// Package head finds the classification head of an ONNX model, the last linear layer with logits =
// φ·Wᵀ + b, and cuts the model there.
//
//  1. [Find] goes back from an output, past what only reshapes or makes probabilities, to the
//     operator that is linear in exactly one tensor that depends on the input. What it does not
//     recognise it refuses with an [*UnsupportedError].
//  2. [Cut] gives a model whose outputs are φ and the logits, [OnlyLogits] one with the logits
//     alone.
//  3. [WithOutputs] and [Head.Gives] are for proof: what the model itself makes of the logits, to
//     be compared with what the head says.
package head
