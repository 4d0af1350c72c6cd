package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
)

// markdown renders paper.md.
func (r *report) markdown() []byte {
	var b bytes.Buffer
	b.WriteString("# The paper's experiments, made again\n\nThis report makes the tables and figures of Lu, Ie and Sha's paper again with mfgs, tries its " +
		"claims one by one, and adds what a user wants to know beside them. Every number is in [paper.json](paper.json), network by network, in fractions and " +
		"nats, with the code that measured it; [how figures, intervals and verdicts are made](#how-it-was-measured) stands below the findings.\n\n")
	if len(r.claims) > 0 {
		b.WriteString("## What the paper says, and what came out\n\n" + r.listClaims())
		b.WriteString("## Findings\n\n" + r.findings())
	}
	b.WriteString("## How it was measured\n\n" + r.preamble())
	for _, s := range r.sections {
		fmt.Fprintf(&b, "## %s\n\n%s", s.part.title, s.text.String())
	}
	if len(r.claims) > 0 {
		b.WriteString("## Every comparison\n\n" + r.listComparisons())
	}
	b.WriteString("## Making it again\n\n")
	command := "go run -buildvcs=true . report --data DIR"
	if !r.all {
		command += " --only " + strings.Join(r.names(), ",")
	}
	fmt.Fprintf(&b, "In the folder `cmd/mfgs-paper` of a clone:\n\n    %s\n\n", command)
	b.WriteString("No network is trained; the scripts that trained them stand beside them in `models`. With `--scratch DIR` a run that was stopped " +
		"goes on from the parts that are made. ")
	t := numberTable("part", "seconds")
	var total float64
	for _, s := range r.sections {
		t.row(s.Name, fmt.Sprintf("%.0f", s.Seconds))
		total += s.Seconds
	}
	t.row("all", fmt.Sprintf("%.0f", total))
	fmt.Fprintf(&b, "Seconds that each part took, what several share counted where it was first needed; %s on %s:\n\n%s", r.code, r.machine, t)
	return b.Bytes()
}

// render renders the text and pictures of all sections.
func (r *report) render() {
	for _, s := range r.sections {
		s.text.Reset()
		s.pictures = slices.Clone(s.Measured)
		s.part.write(s)
	}
}

func (r *report) names() []string {
	var names []string
	for _, s := range r.sections {
		names = append(names, s.Name)
	}
	return names
}
