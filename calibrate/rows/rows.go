// Package rows holds the features and logits that a network computes for examples, with their labels. All examples
// pass in this form from a network, a file or a store to the mathematics of package calibrate.
package rows

import (
	"fmt"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/layer"
)

// Batch is N examples of a source in ascending positions. Matrices are row-major; what is unknown is nil.
type Batch struct {
	N         int
	Positions []int     // [N] in the source, ascending
	Features  []float32 // [N,d]
	Logits    []float32 // [N,K]
	Labels    []int     // [N], -1 for an example without one
	Targets   []uint8   // [N,K], each 0 or 1, instead of labels for a multi-label head
	Readings  []Reading // [N], of a network that reads text
	Steps     []int     // [N], which step of its example each is, where they are all steps of examples; else nil
	Names     []string  // [N], for messages
	From      string    // the source's name, for examples without names
}

// A Reading is the text that a network read in an example, and the right one, nil if it is not known; or the tags that
// it gave to the steps, "" for steps that do not count, and the right ones, "" for steps without one.
type Reading struct {
	Text     string   `json:"text,omitempty"`
	Want     *string  `json:"want,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	WantTags []string `json:"want_tags,omitempty"`
}

// Answer returns the text, or the tags separated by blanks, and what is right, "" if it is not known. "-" is for steps
// that do not count or have no tag.
func (r *Reading) Answer() (given, right string) {
	if r.Tags != nil {
		return joined(r.Tags), joined(r.WantTags)
	}
	if r.Want != nil {
		right = *r.Want
	}
	return r.Text, right
}

func joined(tags []string) string {
	tags = slices.Clone(tags)
	for i, t := range tags {
		if t == "" {
			tags[i] = "-"
		}
	}
	return strings.Join(tags, " ")
}

// Label returns whether the text, or every tag, is right, 1 or 0, and -1 if that is not known. Blanks before and after
// a text do not count.
func (r *Reading) Label() int {
	switch {
	case r.WantTags != nil:
		for i, tag := range r.WantTags {
			if tag != "" && r.Tags[i] != "" && tag != r.Tags[i] {
				return 1 - layer.Right
			}
		}
		return layer.Right
	case r.Want == nil:
		return -1
	case strings.TrimSpace(r.Text) == strings.TrimSpace(*r.Want):
		return layer.Right
	}
	return 1 - layer.Right
}

// Reading returns the reading of example i, or nil without one.
func (b *Batch) Reading(i int) *Reading {
	if b.Readings == nil {
		return nil
	}
	return &b.Readings[i]
}

// Row returns the features and the logits of example i.
func (b *Batch) Row(i int) (features, logits []float32) {
	return row(b.Features, i, b.N), row(b.Logits, i, b.N)
}

// Label returns the label of example i, or -1 without one.
func (b *Batch) Label(i int) int {
	if b.Labels == nil {
		return -1
	}
	return b.Labels[i]
}

// Target returns the targets of example i, or nil without any.
func (b *Batch) Target(i int) []uint8 { return row(b.Targets, i, b.N) }

// Name returns the name of example i for messages.
func (b *Batch) Name(i int) string {
	switch {
	case b.Names != nil:
		return b.Names[i]
	case b.From != "":
		return fmt.Sprintf("%s[%d]", b.From, b.Positions[i])
	}
	return fmt.Sprintf("example %d", i)
}

// Append adds the examples of another batch with the same fields.
func (b *Batch) Append(o *Batch) {
	b.N += o.N
	b.From = o.From
	b.Positions = append(b.Positions, o.Positions...)
	b.Features = append(b.Features, o.Features...)
	b.Logits = append(b.Logits, o.Logits...)
	b.Labels = append(b.Labels, o.Labels...)
	b.Targets = append(b.Targets, o.Targets...)
	b.Readings = append(b.Readings, o.Readings...)
	b.Steps = append(b.Steps, o.Steps...)
	b.Names = append(b.Names, o.Names...)
}

// Slice returns the examples [from,to). They share memory with b.
func (b *Batch) Slice(from, to int) *Batch {
	return &Batch{
		N:         to - from,
		Positions: part(b.Positions, from, to, b.N),
		Features:  part(b.Features, from, to, b.N),
		Logits:    part(b.Logits, from, to, b.N),
		Labels:    part(b.Labels, from, to, b.N),
		Targets:   part(b.Targets, from, to, b.N),
		Readings:  part(b.Readings, from, to, b.N),
		Steps:     part(b.Steps, from, to, b.N),
		Names:     part(b.Names, from, to, b.N),
		From:      b.From,
	}
}

// Pick returns a copy of the given examples, in that order.
func (b *Batch) Pick(which []int) *Batch {
	out := &Batch{From: b.From}
	for _, i := range which {
		out.Append(b.Slice(i, i+1))
	}
	return out
}

func row[T any](x []T, i, n int) []T { return part(x, i, i+1, n) }

// part returns the rows [from,to) of x [n,…], or nil for nil.
func part[T any](x []T, from, to, n int) []T {
	if x == nil || n == 0 {
		return nil
	}
	width := len(x) / n
	return x[from*width : to*width : to*width]
}
