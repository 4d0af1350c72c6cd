package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/export"
	"github.com/urfave/cli/v2"
)

func (p *program) export() *cli.Command {
	return &cli.Command{
		Name:  "export",
		Usage: "write the network and its calibration as one ONNX model",
		UsageText: `mfgs export --bundle DIR --out FILE.onnx
mfgs export --bundle DIR --triton REPOSITORY [--name NAME]`,
		Description: `The model computes what predict computes, wherever ONNX Runtime runs: in Python, JavaScript, C# or
Triton. Its inputs are those of the network, so the caller does the preprocessing. Its outputs are those of
the network, and probabilities, logits, logit_variance, ood_score, ood_percentile, ood_pvalue and leverage. If
the bundle has abstention or prediction sets, abstain and prediction_set are outputs too. Above 2 GiB the weights are in
FILE.onnx.data next to the model. If the network was calibrated with --state, each example is a whole stream, and its
state begins at zero.

--triton writes version 1 of the model REPOSITORY/NAME, with its config.pbtxt and its class names, if any.`,
		Flags: []cli.Flag{
			bundleFlag(),
			modelFlag(),
			choiceFlag("method", dataFlags, "`NAME` method for the probabilities: "+alternatives(export.Methods())+", which is for models with few classes [the bundle's]", "", export.Methods()),
			choiceFlag("precision", dataFlags, "`NAME` what the outputs are computed in: "+alternatives(export.Precisions())+", which is for runtimes without float64, loops and branches, as on phones and GPUs [float64]", "float64", export.Precisions()),
			&cli.StringFlag{Name: "outputs", Category: dataFlags, Usage: "`A,B,C` outputs that the model has, such as probabilities,abstain: what only others need takes no time or space [all]"},
			&cli.StringFlag{Name: "out", Category: outputFlags, Usage: "`FILE.onnx` model to write"},
			&cli.BoolFlag{Name: "probe", Category: outputFlags, Usage: "also write FILE.probe.json, which checks a deployment: the validation inputs that the bundle keeps, and what the model must give for them"},
			&cli.StringFlag{Name: "triton", Category: outputFlags, Usage: "`REPOSITORY` Triton model repository to add the model to"},
			&cli.StringFlag{Name: "name", Category: outputFlags, Usage: "`NAME` model name in the repository [name of the bundle]"},
			&cli.IntFlag{Name: "max-batch", Category: outputFlags,
				Usage: fmt.Sprintf("`N` largest batch of Triton [%d]", export.DefaultMaxBatch)},
			&cli.BoolFlag{Name: "force", Category: outputFlags, Usage: "replace FILE.onnx, or an earlier export in REPOSITORY/NAME"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			if err := checkExport(c); err != nil {
				return err
			}
			outputs := parseNames(c.String("outputs"))
			if c.IsSet("outputs") && outputs == nil {
				outputs = []string{} // of which the error lists those there are
			}
			bar := p.progress()
			bar.work(wrap.Progress{Stage: "opening"})
			report, err := export.Write(c.Context, c.String("bundle"), export.Options{
				Out: c.String("out"), Triton: c.String("triton"), Name: c.String("name"), MaxBatch: c.Int("max-batch"),
				Model: c.String("model"), Method: c.String("method"), Precision: c.String("precision"),
				Outputs: outputs, Probe: c.Bool("probe"), Force: c.Bool("force"),
				Progress: bar.work,
			})
			bar.done()
			if err != nil {
				return exportAdvice(c, err)
			}
			p.warn(report.Warnings...)
			if c.Bool("json") {
				return writeJSON(p.stdout, report)
			}
			return writeExport(p.stdout, report)
		},
	}
}

// exportAdvice adds to an error of an export the flag that avoids it.
func exportAdvice(c *cli.Context, err error) error {
	flag, another := "--out "+c.String("out"), "choose another --out"
	if triton := c.String("triton"); triton != "" {
		flag, another = "--triton "+triton, "choose another --name, or remove it yourself"
	}
	advice := ""
	switch {
	case errors.As(err, new(*export.NotReplacedError)):
		advice = another
	case errors.As(err, new(*export.NoFolderError)):
		advice = fmt.Sprintf("create the folder for %s, or choose another", flag)
	case errors.Is(err, export.ErrNoName):
		advice = "give one with --name"
	case errors.Is(err, fs.ErrExist) && c.String("triton") != "":
		advice = "use --force to replace it, or --name to add another"
	case errors.Is(err, fs.ErrExist):
		advice = "use --force to replace it"
	default:
		return err
	}
	return fmt.Errorf("%w: %s", err, advice)
}

// checkExport refuses contradictory and missing flags.
func checkExport(c *cli.Context) error {
	if err := noArguments(c); err != nil {
		return err
	}
	if err := required(c, "bundle"); err != nil {
		return err
	}
	fail := func(format string, args ...any) error { return usagef(c.Command.Name, format, args...) }
	out, triton := c.String("out"), c.String("triton")
	switch {
	case out == "" && triton == "":
		return fail("missing --out or --triton")
	case out != "" && triton != "":
		return fail("--out and --triton contradict each other")
	case out != "" && !strings.HasSuffix(out, ".onnx"):
		return fail("--out %s: want a file name that ends with .onnx", out)
	}
	if c.Bool("probe") && out == "" {
		return fail("--probe needs --out")
	}
	for _, name := range []string{"name", "max-batch"} {
		if c.IsSet(name) && triton == "" {
			return fail("--%s needs --triton", name)
		}
	}
	if n := c.Int("max-batch"); c.IsSet("max-batch") && (n < 1 || n > bundle.MaxBatch) {
		return fail("--max-batch %d: want 1 to %d", n, bundle.MaxBatch)
	}
	if name := c.String("name"); name != "" {
		if err := export.CheckTritonName(name); err != nil {
			return fail("--name: %v", err)
		}
	}
	return checkPaths(c, "bundle", "model")
}

// writeExport lists what was written, and shows how to run it.
func writeExport(w io.Writer, r *export.Report) error {
	var b strings.Builder
	var f facts
	f.add("bundle", r.Bundle)
	for i, file := range r.Files {
		term := "written"
		if i > 0 {
			term = ""
		}
		f.add(term, fmt.Sprintf("%s, %s", file.Path, size(file.Size)))
	}
	f.add("operator set", fmt.Sprintf("%d", r.Opset))
	f.add("method", r.Method)
	if r.Triton != nil {
		batch := "as in each request"
		if r.Triton.MaxBatch > 0 {
			batch = fmt.Sprintf("at most %d examples, from several requests", r.Triton.MaxBatch)
		}
		f.add("batch", batch)
	}
	lines := func(term string, values []onnx.ValueInfo) {
		for i, v := range values {
			if i > 0 {
				term = ""
			}
			f.add(term, v.Name+" "+v.String())
		}
	}
	lines("inputs", r.Inputs)
	lines("outputs", r.Outputs.Infos())
	lines("own outputs", slices.DeleteFunc(slices.Clone(r.OwnOutputs), func(v onnx.ValueInfo) bool {
		return slices.ContainsFunc(r.Outputs, func(o fuse.Output) bool { return o.Name == v.Name })
	}))
	if r.State != "" {
		f.add("state", "begins at zero, and stays inside: each example is a whole stream")
	}
	b.WriteString(f.text())
	if r.Triton != nil {
		fmt.Fprintf(&b, "\nnext, serve it:\n\n    tritonserver --model-repository=%s\n", shellWord(absolute(r.Triton.Repository)))
	} else {
		b.WriteString("\nnext, run it in Python:\n\n" + pythonLines(r))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// absolute makes a path absolute, as Triton needs it, if the working directory is known.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

var plainWord = regexp.MustCompile(`^[\pL\pN_./:\\-]+$`)

// shellWord quotes a word that a shell would split or expand.
func shellWord(s string) string {
	if plainWord.MatchString(s) {
		return s
	}
	if printable(s) != s {
		return "$'" + printable(strings.NewReplacer(`\`, `\\`, "'", `\'`).Replace(s)) + "'"
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// pythonLines returns Python code that runs an exported model on its inputs, x.
func pythonLines(r *export.Report) string {
	feeds := make([]string, len(r.Inputs))
	for i, in := range r.Inputs {
		feeds[i] = pythonString(in.Name) + ": x"
		if len(r.Inputs) > 1 {
			feeds[i] += strconv.Itoa(i + 1)
		}
	}
	var names, others []string
	for _, o := range r.Outputs {
		if o.Key != "logits" && o.Key != "logit_variance" {
			names = append(names, pythonString(o.Name))
		}
	}
	for _, o := range append(r.Outputs.Infos(), r.OwnOutputs...) {
		others = append(others, pythonString(o.Name))
	}
	if len(names) == 0 {
		names = others
	}
	return fmt.Sprintf(`    import onnxruntime
    session = onnxruntime.InferenceSession(%s)
%s%s    results = dict(zip(names, session.run(names, inputs)))
`, pythonString(r.File), wrapText("    names = [", strings.Join(names, ", ")+"]"),
		wrapText("    inputs = {", strings.Join(feeds, ", ")+"}"))
}

// pythonString quotes a string as JSON does, which is valid Python, and control characters as Go does.
func pythonString(s string) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(s); err != nil {
		panic(err) // a string has JSON
	}
	return printable(strings.TrimSpace(b.String()))
}

// size formats a number of bytes for people.
func size(n int64) string {
	const unit = 1000
	if n < unit {
		return fmt.Sprintf("%d bytes", n)
	}
	v, units := float64(n)/unit, []string{"KB", "MB", "GB"}
	for v >= unit && len(units) > 1 {
		v, units = v/unit, units[1:]
	}
	return fmt.Sprintf("%.1f %s", v, units[0])
}
