// Package head finds the classification head of an ONNX model, the last linear layer with logits =
// φ·Wᵀ + b, and cuts the model there.
//
//  1. [Find] walks back from an output to the operator that is linear in exactly one tensor that
//     depends on the input, past operators that only reshape or compute probabilities. Anything else
//     is refused with an [*UnsupportedError].
//  2. [Cut] returns a model whose outputs are φ and the logits, [OnlyLogits] one with the logits
//     alone.
//  3. [WithOutputs] and [Head.Gives] verify a head: they give what the model itself computes from
//     the logits, and what the head says it should be.
//
// The search has two passes. Backward (trace.go), reach collects a hop for every operator between an
// output and the linear layer (linear.go). Forward (pass.go), the trail (flow.go) starts at that
// layer and passes each hop again: it follows the axis of the classes, folds scales and biases into
// the weights (an affine, affine.go), and records what happens to the probabilities.
//
// To support another operator after the linear layer, add a row to the table in steps.go; its
// functions are in classes.go (the axis of the classes), constants.go and probabilities.go. Another
// linear operator is a case in linear.go.
package head
