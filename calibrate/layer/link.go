// Package link names the functions that turn logits into probabilities. Whatever depends on them
// anywhere, from the graph of a model to a served prediction, takes the names from here.
//
// To add one: its name here; its derivatives and log-probabilities in the table of package calibrate,
// after a formula in package meanfield; what shows it in a graph, in package onnx/head; and its nodes in
// package onnx/fuse.
package layer

import (
	"fmt"
	"slices"
	"strings"
)

// Link is the function that turns logits into probabilities.
type Link string

const (
	// Softmax is for K ≥ 2 classes that exclude each other.
	Softmax Link = "softmax"
	// Sigmoid, with one logit, is for two classes, of probabilities [1-p, p]; with
	// K ≥ 2 for labels that may hold at once: multi-label.
	Sigmoid Link = "sigmoid"
	// OneVsRest is for K ≥ 2 classes that exclude each other, each with a sigmoid of
	// its own; these are normalised to sum 1.
	OneVsRest Link = "one-vs-rest"
)

// All lists the links.
var All = []Link{Softmax, Sigmoid, OneVsRest}

// Validate reports a link that is none of [All].
func (l Link) Validate() error {
	if slices.Contains(All, l) {
		return nil
	}
	return fmt.Errorf("link %q, want %s", string(l), Names())
}

// Names lists the links in words.
func Names() string {
	names := make([]string, len(All))
	for i, l := range All {
		names[i] = string(l)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
