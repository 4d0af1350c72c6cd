package pretrained

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// A Suggestion is a value of --preprocess for a model.
type Suggestion struct {
	Preprocess string `json:"preprocess"` // "" if none is needed
	Reason     string `json:"reason"`
	Guess      bool   `json:"guess"` // from the model's input alone
}

// Targets returns a model's inputs as preprocessing has them.
func Targets(m *onnx.Model) []preprocess.Target {
	var list []preprocess.Target
	for _, in := range m.Inputs() {
		t := preprocess.Target{Name: in.Name, Type: in.Type}
		for _, d := range in.Shape {
			t.Shape = append(t.Shape, d.Value)
		}
		list = append(list, t)
	}
	return list
}

// Suggest returns the preprocessing of a model with these inputs: what is stored beside it, else what most models
// with such inputs use. beside may be nil. ok is false if the model does not take images.
func Suggest(inputs []preprocess.Target, beside *Folder) (s Suggestion, ok bool) {
	if len(inputs) != 1 || !takesImages(inputs[0]) {
		return s, false
	}
	t := inputs[0]
	if beside != nil && beside.Preprocess != nil {
		if _, err := preprocess.New(*beside.Preprocess, t); err == nil {
			return Suggestion{beside.PreprocessFile, beside.Processor + " is next to the model", false}, true
		} else {
			s.Reason = fmt.Sprintf("%s does not fit the model: %v; ", beside.PreprocessFile, err)
		}
	} else if beside != nil && beside.Unusable != nil {
		s.Reason = beside.Unusable.Error() + "; "
	}
	guess, reason := guessed(t)
	return Suggestion{guess, s.Reason + reason, true}, true
}

// takesImages reports whether a target may be an image, perhaps flattened.
func takesImages(t preprocess.Target) bool {
	_, _, _, ok := sides(t)
	return ok && (t.Type.IsFloat() || t.Type == tensor.Uint8)
}

// sides returns channels, height and width, -1 if open, and whether channels are last.
func sides(t preprocess.Target) (c, h int64, last, ok bool) {
	if len(t.Shape) != 4 {
		return 0, 0, false, false
	}
	colour := func(d int64) bool { return d == 1 || d == 3 }
	switch {
	case colour(t.Shape[1]):
		return t.Shape[1], t.Shape[2], false, true
	case colour(t.Shape[3]):
		return t.Shape[3], t.Shape[1], true, true
	}
	return 0, 0, false, false
}

// guessed is the suggestion from the input alone.
func guessed(t preprocess.Target) (preset, reason string) {
	c, h, last, _ := sides(t)
	const small = 64 // larger inputs are mostly ImageNet's
	switch {
	case t.Type == tensor.Uint8:
		return "none", "the model takes bytes, so pixels are used unchanged"
	case c == 1:
		return "unit", "the model takes one grey channel; such models usually divide pixels by 255"
	case h > 0 && h < small:
		return "unit", fmt.Sprintf("the model takes small images of %d pixels; such models usually divide pixels by 255; "+
			"many also have their own mean and standard deviation", h)
	case last:
		return "mobilenet", "channels last, as in TensorFlow, where pixels are usually from −1 to 1"
	}
	return "imagenet", "channels first, as in PyTorch, where most models use torchvision's mean and standard deviation"
}

// plain matches text that a shell needs no quotes for.
var plain = regexp.MustCompile(`^[A-Za-z0-9_@%+:,./-][A-Za-z0-9_@%+=:,./-]*$`)

// Quote quotes an argument for a POSIX shell.
func Quote(arg string) string {
	if plain.MatchString(arg) {
		return arg
	}
	return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
}

// Command joins arguments into a line for a shell.
func Command(args ...string) string {
	quoted := slices.Clone(args)
	for i, a := range args {
		quoted[i] = Quote(a)
	}
	return strings.Join(quoted, " ")
}
