package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/wrap"
	"github.com/urfave/cli/v2"
)

func (p *program) inspect() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "show a model's last layer, and whether mfgs can work with it",
		UsageText: "mfgs inspect MODEL",
		Description: `Looks for the linear layer that makes the logits, without running the model. Where
none is recognised the exit code is 1, and the reason tells what may help.`,
		Flags: slices.Concat([]cli.Flag{jsonFlag()}, headOptions()),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(c.Command.Name, "want one model file, got %d arguments", c.NArg())
			}
			in, err := wrap.Inspect(c.Args().First(), head(c))
			if err != nil {
				return err
			}
			if c.Bool("json") {
				err = writeJSON(p.stdout, in)
			} else {
				err = writeInspection(p.stdout, in)
			}
			if err == nil && !in.Supported {
				err = fmt.Errorf("%s: %s", c.Args().First(), in.Reason)
			}
			return err
		},
	}
}

// writeInspection writes the finding and what it rests on.
func writeInspection(w io.Writer, in *wrap.Inspection) error {
	var b strings.Builder
	facts := table{align: "ll"}
	facts.row("model", in.Model.Path)
	facts.row("sha256", in.Model.SHA256)
	producer := in.Model.Producer
	if producer == "" {
		producer = "unknown"
	}
	facts.row("producer", fmt.Sprintf("%s, operator set %d", producer, in.Model.Opset))
	facts.row("inputs", strings.Join(in.Model.Inputs, ", "))
	facts.row("outputs", strings.Join(in.Model.Outputs, ", "))
	if h := in.Head; h != nil {
		bias := "no bias"
		if h.Bias {
			bias = "bias"
		}
		facts.row("head", fmt.Sprintf("%s %s: %s features, %s classes, %s, %s", h.Op, h.Node, count(h.FeatureDim), count(h.Classes), bias, h.Link))
		facts.row("features", h.Features)
		facts.row("logits", h.Logits)
		if len(h.Tail) > 0 {
			facts.row("tail", strings.Join(h.Tail, ", "))
		}
	}
	_ = facts.write(&b)
	if len(in.Evidence) > 0 {
		b.WriteString("\nevidence\n")
		for _, line := range in.Evidence {
			b.WriteString(wrapText("  - ", line))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}
