package main

import (
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/pretrained"
	"github.com/mfgs/mfgs/internal/text"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/calibration"
	"github.com/urfave/cli/v2"
)

func (p *program) inspect() *cli.Command {
	return &cli.Command{
		Name:      "inspect",
		Usage:     "find a model's last layer, and check that mfgs supports it",
		UsageText: "mfgs inspect MODEL",
		Description: `Finds the linear layer that computes the logits, without running the model. Also looks for preprocessing
and class names next to the model, and prints the calibrate command to run next. MODEL is an ONNX file, or a
folder written by save_pretrained or Optimum. If no supported layer is found, the exit status is 1, and the
error says what to try.`,
		Flags: slices.Concat([]cli.Flag{jsonFlag()}, flagsOf(headSettings())),
		Action: func(c *cli.Context) error {
			if c.NArg() != 1 {
				return usagef(c.Command.Name, "want one model, got %d arguments", c.NArg())
			}
			if err := checkPath(c.Args().First(), pathKinds["model"]); err != nil {
				return err
			}
			bar := p.progress()
			bar.work(wrap.Progress{Stage: "reading"})
			in, err := inspectModel(c)
			bar.done()
			if err != nil {
				return err
			}
			if c.Bool("json") {
				err = writeJSON(p.stdout, in)
			} else {
				err = writeInspection(p.stdout, in)
			}
			if err == nil && !in.Supported {
				err = fmt.Errorf("%s: %s", in.Model.Path, in.Reason)
			}
			return err
		},
	}
}

// An inspection is what was found in a model file, and in the files beside it.
type inspection struct {
	*wrap.Inspection
	Preprocessing *pretrained.Suggestion `json:"preprocessing"` // null if the model takes no images
	Classes       string                 `json:"classes"`       // file with the class names, "" for none
	Next          string                 `json:"next"`          // command to run next, "" for none
	next          []string               // the words of Next
	beside        *pretrained.Folder
}

// inspectModel reads the model that is the argument of inspect, and the files beside it.
func inspectModel(c *cli.Context) (*inspection, error) {
	arg := c.Args().First()
	folder, err := modelFolder(arg)
	if err != nil {
		return nil, err
	}
	path := arg
	if folder != nil {
		path = folder.Model
	}
	var of calibration.Config
	if err := readSettings(c, &of); err != nil {
		return nil, err
	}
	found, err := wrap.Inspect(path, of.Head)
	if err != nil {
		return nil, err
	}
	in := &inspection{Inspection: found, beside: folder}
	if folder == nil {
		in.beside = pretrained.Beside(path)
	}
	m, err := onnx.Open(path)
	if err != nil {
		return nil, err
	}
	next := []string{"mfgs", "calibrate", "--model", arg}
	for _, f := range flagsOf(headSettings()) {
		if name := f.Names()[0]; c.IsSet(name) {
			next = append(next, "--"+name, c.String(name))
		}
	}
	s, images := pretrained.Suggest(pretrained.Targets(m), in.beside)
	if images {
		in.Preprocessing = &s
		if folder == nil || s.Guess {
			next = append(next, "--preprocess", s.Preprocess)
		}
	}
	if h := found.Head; h != nil && len(in.beside.Classes) == h.Classes() {
		in.Classes = in.beside.ClassesFile
		if folder == nil {
			next = append(next, "--classes", in.Classes)
		}
	}
	if h := found.Head; h != nil && h.Kind == head.CTC && h.MetadataAlphabet() == nil {
		next = append(next, "--alphabet", "ALPHABET")
	}
	if found.Output != nil {
		next = append(next, "--head", string(head.None))
	} else if h := found.Head; h == nil || !h.Nonlinear || h.Features > 0 {
		next = append(next, "--train", "TRAIN")
	}
	next = append(next, "--val", "VAL")
	if images && (found.Head == nil || found.Head.Kind != head.CTC) {
		next = append(next, "--ood", "auto")
	}
	if found.Supported || found.Output != nil {
		in.next = append(next, "--out", bundleName(path)+".mfgs")
		in.Next = pretrained.Command(in.next...)
	}
	return in, nil
}

// bundleName suggests a name for the bundle of a model: that of its file or, if that is model, of its folder.
func bundleName(path string) string {
	name := strings.TrimSuffix(filepath.Base(path), filepath.Ext(path))
	abs, err := filepath.Abs(path)
	for name == "model" && err == nil && filepath.Dir(abs) != abs {
		abs = filepath.Dir(abs)
		if base := filepath.Base(abs); base != "onnx" && base != string(filepath.Separator) {
			return base
		}
	}
	return name
}

// writeInspection writes the head that was found and the evidence for it.
func writeInspection(w io.Writer, in *inspection) error {
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
		if h.Kind.Decodes() {
			what := map[head.Kind]string{head.CTC: "text by CTC", head.Tags: "a tag for each step"}[h.Kind]
			f.add("head", fmt.Sprintf("%s %s: %s", h.Op, h.Node, what))
		} else if h.Nonlinear {
			f.add("head", fmt.Sprintf("%s %s: %s, %s, %s", h.Op, h.Node, kindLine(h.Kind), classes(h.Logits, h.Link), h.Link))
		} else {
			f.add("head", fmt.Sprintf("%s %s: %s features, %s, %s, %s%s",
				h.Op, h.Node, text.Count(h.Features), classes(h.Logits, h.Link), bias, h.Link, eachStep(h.Steps)))
		}
		if h.FeaturesTensor != "" {
			f.add("features", h.FeaturesTensor)
		}
		f.add("logits", h.LogitsTensor)
		if h.Approximation != "" {
			f.add("approximation", string(h.Approximation))
		}
		if len(h.Tail) > 0 {
			f.add("tail", strings.Join(h.Tail, ", "))
		}
	}
	if s := in.Preprocessing; s != nil {
		certainty := ""
		if s.Guess {
			certainty = "a guess: "
		}
		f.add("preprocessing", fmt.Sprintf("%s (%s%s)", s.Preprocess, certainty, s.Reason))
	}
	if in.Classes != "" {
		f.add("class names", in.Classes)
	}
	if in.beside.Tokenizer != "" {
		f.add("tokenizer", in.beside.Tokenizer+" is not used: give texts as token ids, named like the model's inputs")
	}
	b.WriteString(f.text())
	if len(in.Evidence) > 0 {
		b.WriteString("\nevidence\n")
		for _, line := range in.Evidence {
			b.WriteString(wrapText("  - ", printable(line)))
		}
	}
	if o := in.Output; o != nil {
		b.WriteString("\n" + wrapText("", fmt.Sprintf("There is no linear last layer, and so no posterior. The output %s [N,%d] can be calibrated as it is: with temperature scaling, smoothing and matrix scaling, thresholds, prediction sets, drift and reports, but without mf0, logit variances and leverage, and with an OOD score from its probabilities alone.",
			printable(o.LogitsTensor), o.Logits)))
	}
	if in.Steps != nil {
		b.WriteString("\n" + wrapText("", ofSteps(in.Steps)))
	}
	if in.States != "" {
		b.WriteString("\n" + wrapText("", ofStates(in.States)))
	}
	if in.Next != "" {
		data := "VAL"
		if slices.Contains(in.next, "TRAIN") {
			data = "TRAIN and VAL"
		}
		if slices.Contains(in.next, "ALPHABET") {
			data = "ALPHABET and VAL"
		}
		fmt.Fprintf(&b, "\nnext, with your data for %s\n%s", data, commandLines(in.next))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// commandLines writes a command with its flags, continued on further lines if it is long.
func commandLines(words []string) string {
	var b strings.Builder
	line := "  "
	for len(words) > 0 {
		n := 1
		for n < len(words) && !strings.HasPrefix(words[n], "--") {
			n++
		}
		piece := printable(pretrained.Command(words[:n]...))
		words = words[n:]
		if strings.TrimSpace(line) != "" && utf8.RuneCountInString(line+piece) > textWidth-2 {
			b.WriteString(line + "\\\n")
			line = "    "
		}
		line += piece + " "
	}
	return b.String() + strings.TrimRight(line, " ") + "\n"
}

// tensors lists inputs or outputs, as in "image [N,1,28,28] float32".
func tensors(values []onnx.ValueInfo) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.Name + " " + v.String()
	}
	return strings.Join(list, ", ")
}

// ofSteps says what can be made of an output with numbers for each step.
func ofSteps(h *head.Head) string {
	format := "The output %s may be that of a model that reads text by CTC, with numbers for each symbol at each step of a line. If so, calibrate the probability that a text is right, with --head %s; --alphabet names the symbols unless the model does."
	if h.Kind == head.Tags {
		format = "The output %s may be that of a tagger, with numbers for each tag at each step of a sequence. If so, calibrate the probability that all tags of a sequence are right, with --head %s; --classes names the tags."
	}
	return fmt.Sprintf(format, printable(h.LogitsTensor), h.Kind)
}

// ofStates says what inputs and outputs look like.
func ofStates(states string) string {
	return fmt.Sprintf("The model looks as if it ran over a stream, one step at a time, with a state that it passes on. If so, calibrate it on whole sequences with --state %s: an example is then a sequence of steps with a label for each, and its state begins at zero.", printable(states))
}
