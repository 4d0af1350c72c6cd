package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/onnx"
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
			if err := leads(c.Args().First(), wanted["model"]); err != nil {
				return err
			}
			in, err := wrap.Inspect(c.Args().First(), readHead(c))
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
	var f facts
	f.add("model", in.Model.Path)
	f.add("sha256", in.Model.SHA256)
	producer := in.Model.Producer
	if producer == "" {
		producer = "unknown"
	}
	f.add("producer", fmt.Sprintf("%s, operator set %d", producer, in.Model.Opset))
	f.add("inputs", tensors(in.Model.Inputs))
	f.add("outputs", tensors(in.Model.Outputs))
	if h := in.Head; h != nil {
		bias := "no bias"
		if h.Bias {
			bias = "bias"
		}
		f.add("head", fmt.Sprintf("%s %s: %s features, %s, %s, %s",
			h.Op, h.Node, count(h.FeatureDim), classes(h.LogitDim, calibrate.Link(h.Link)), bias, h.Link))
		f.add("features", h.Features)
		f.add("logits", h.Logits)
		if h.Approximation != "" {
			f.add("approximation", string(h.Approximation))
		}
		if len(h.Tail) > 0 {
			f.add("tail", strings.Join(h.Tail, ", "))
		}
	}
	b.WriteString(f.text())
	if len(in.Evidence) > 0 {
		b.WriteString("\nevidence\n")
		for _, line := range in.Evidence {
			b.WriteString(wrapText("  - ", printable(line)))
		}
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// tensors lists a model's inputs or outputs, as in "image [N,1,28,28] float32".
func tensors(values []onnx.ValueInfo) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.Name + " " + v.String()
	}
	return strings.Join(list, ", ")
}
