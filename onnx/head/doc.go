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
//
// To know one more operator behind the linear layer is a row of the table in steps.go, whose
// functions are in classes.go (where the classes lie) and probabilities.go; one more operator that
// is linear is a case in linear.go.
package head
