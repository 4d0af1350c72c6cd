// Package layer describes the last layer of a classifier: its shape and its link, the function that turns
// logits into probabilities. The packages that read graphs and those that compute share these types.
//
// To add a link: its name here; its derivatives and log-probabilities in calibrate/link.go, after a formula
// in package meanfield; how a graph shows it, in package onnx/head; and its nodes in package onnx/fuse.
package layer

import (
	"fmt"
	"slices"
	"strings"
)

// Link is the function that turns logits into probabilities.
type Link string

const (
	// Softmax is for K ≥ 2 mutually exclusive classes.
	Softmax Link = "softmax"
	// Sigmoid with one logit is for two classes, with probabilities [1-p, p]; with K ≥ 2 logits it is for
	// multi-label classification.
	Sigmoid Link = "sigmoid"
	// OneVsRest is for K ≥ 2 mutually exclusive classes with a sigmoid each. The K probabilities are
	// normalised to sum to 1.
	OneVsRest Link = "one-vs-rest"
)

// All lists the links.
var All = []Link{Softmax, Sigmoid, OneVsRest}

// Validate reports a link that is not in [All].
func (l Link) Validate() error {
	if slices.Contains(All, l) {
		return nil
	}
	return fmt.Errorf("link %q, want %s", string(l), Names())
}

// Separate reports whether every logit was trained by a binary likelihood of its own. The second derivatives
// between the weights of two logits are then zero, and mf0 divides each logit by its own T_k only.
func (l Link) Separate() bool { return l != Softmax }

// Names lists the links for messages.
func Names() string {
	names := make([]string, len(All))
	for i, l := range All {
		names[i] = string(l)
	}
	last := len(names) - 1
	return strings.Join(names[:last], ", ") + " or " + names[last]
}
