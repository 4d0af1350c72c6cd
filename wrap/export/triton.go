package export

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// DefaultMaxBatch is the default of Options.MaxBatch. Triton does not wait to fill a batch.
const DefaultMaxBatch = 64

// The files of a model in a Triton model repository, beside its folder of a version.
const (
	tritonConfigName = "config.pbtxt"
	tritonLabelsName = "labels.txt"
	tritonVersion    = "1"
	// a file, or a folder if the weights have a file of their own
	tritonModelName = "model.onnx"
)

// tritonMark begins the configuration of a model that an export wrote, and that another may replace.
const tritonMark = "# Written by mfgs export. Replaced by mfgs export --force.\n"

// A tritonConfig is the content of config.pbtxt.
type tritonConfig struct {
	name            string
	maxBatch        int // 0: dims include the batch, and each request is run alone
	inputs, outputs []tritonTensor
	labelled        string // the output whose columns have the labels
}

// A tritonTensor is an input or output. Its dims leave out the batch if maxBatch is positive.
type tritonTensor struct {
	name, dataType string
	dims           []int64
	scalar         bool // one number per example: dims are [1], since Triton has no []
}

// newTritonConfig describes a model by its inputs, its own outputs and the added ones of the mean-field head, one
// of which may be its own. Triton serves a model only if it can describe all tensors of the file, and an output's
// dims only if they are those that ONNX Runtime infers. If that is not certain for an own output, unfit names it
// with the reason, and there is no configuration.
func newTritonConfig(
	name string, inputs, own, added []onnx.ValueInfo, maxBatch int,
) (c *tritonConfig, unfit string, err error) {
	c = &tritonConfig{name: name, maxBatch: maxBatch}
	added = slices.DeleteFunc(slices.Clone(added), func(v onnx.ValueInfo) bool {
		return slices.ContainsFunc(own, func(o onnx.ValueInfo) bool { return o.Name == v.Name })
	})
	for _, v := range slices.Concat(inputs, added) {
		if reason := unservable(v); reason != "" {
			return nil, "", fmt.Errorf("%q %s, which Triton does not serve: export to a file instead", v.Name, reason)
		}
	}
	open := func(v onnx.ValueInfo) bool { return len(v.Shape) > 0 && v.Shape[0].Value < 0 }
	closed := func(v onnx.ValueInfo) bool { return !open(v) }
	// Triton itself decides by the same rule whether requests can be put together.
	if slices.ContainsFunc(slices.Concat(inputs, added), closed) {
		c.maxBatch = 0
	}
	for _, v := range own {
		reason := unservable(v)
		switch {
		case reason != "":
		case c.maxBatch > 0 && closed(v):
			reason = "has no open batch"
		case c.maxBatch == 0 && open(v) && !slices.ContainsFunc(inputs, open):
			reason = "has an open batch, and the inputs a fixed one"
		case slices.ContainsFunc(v.Shape[min(1, len(v.Shape)):], func(d onnx.Dim) bool { return d.Value < 0 }):
			reason = "has dimensions that the model does not declare"
		}
		if reason != "" {
			return nil, fmt.Sprintf("%q %s", v.Name, reason), nil
		}
	}
	for _, v := range inputs {
		c.inputs = append(c.inputs, c.tensor(v))
	}
	for _, v := range slices.Concat(own, added) {
		c.outputs = append(c.outputs, c.tensor(v))
	}
	return c, "", nil
}

// unservable says why Triton cannot describe a tensor, "" if it can.
func unservable(v onnx.ValueInfo) string {
	switch {
	case v.Name == "" || !utf8.ValidString(v.Name):
		return "is not UTF-8"
	case v.Type == tensor.Undefined:
		return "is not declared as a tensor"
	case v.Type.Triton() == "":
		return fmt.Sprintf("is of type %s", v.Type)
	case v.Shape == nil:
		return "has a shape that the model does not declare"
	case slices.ContainsFunc(v.Shape, func(d onnx.Dim) bool { return d.Value == 0 }):
		return "has a dimension of 0"
	}
	return ""
}

func (c *tritonConfig) tensor(v onnx.ValueInfo) tritonTensor {
	t := tritonTensor{name: v.Name, dataType: v.Type.Triton()}
	shape := v.Shape
	if c.maxBatch > 0 {
		shape = shape[1:]
		t.scalar = len(shape) == 0
	}
	for _, d := range shape {
		t.dims = append(t.dims, max(d.Value, -1))
	}
	if t.dims == nil {
		t.dims = []int64{1}
	}
	return t
}

// layOut returns the files of the model's folder: the model, labels if there are any, and the configuration.
func (c *tritonConfig) layOut(model []onnx.File, labels []string, metadata map[string]string) []onnx.File {
	folder := tritonVersion + "/"
	if len(model) > 1 {
		folder += tritonModelName + "/"
	}
	var files []onnx.File
	for _, f := range model {
		f.Name = folder + f.Name
		files = append(files, f)
	}
	if len(labels) == 0 {
		c.labelled = ""
	} else if c.labelled != "" {
		files = append(files, text(tritonLabelsName, labelLines(labels)))
	}
	return append(files, text(tritonConfigName, c.text(metadata)))
}

// labelLines writes one label per line, with line breaks in labels as blanks.
func labelLines(labels []string) []byte {
	var b bytes.Buffer
	for _, l := range labels {
		b.WriteString(strings.Map(func(r rune) rune {
			if unicode.IsControl(r) {
				return ' '
			}
			return r
		}, l) + "\n")
	}
	return b.Bytes()
}

// text writes the configuration in protobuf's text format, with the metadata_props that fusing added.
func (c *tritonConfig) text(metadata map[string]string) []byte {
	var b bytes.Buffer
	b.WriteString(tritonMark)
	fmt.Fprintf(&b, "name: %s\n", pbString(c.name))
	b.WriteString("backend: \"onnxruntime\"\n")
	fmt.Fprintf(&b, "max_batch_size: %d\n", c.maxBatch)
	if c.maxBatch > 1 {
		b.WriteString("dynamic_batching { }\n")
	}
	b.WriteString("version_policy { latest { num_versions: 1 } }\n")
	for _, side := range []struct {
		name    string
		tensors []tritonTensor
	}{{"input", c.inputs}, {"output", c.outputs}} {
		for _, t := range side.tensors {
			fmt.Fprintf(&b, "%s {\n  name: %s\n  data_type: %s\n  dims: %s\n", side.name, pbString(t.name), t.dataType, pbList(t.dims))
			if t.scalar {
				b.WriteString("  reshape { shape: [ ] }\n")
			}
			if side.name == "output" && t.name == c.labelled {
				fmt.Fprintf(&b, "  label_filename: %s\n", pbString(tritonLabelsName))
			}
			b.WriteString("}\n")
		}
	}
	for _, key := range slices.Sorted(maps.Keys(metadata)) {
		// Other keys are the network's and may be anything; the labels have a file.
		if !strings.HasPrefix(key, "mfgs.") || key == "mfgs.labels" {
			continue
		}
		fmt.Fprintf(&b, "parameters {\n  key: %s\n  value { string_value: %s }\n}\n", pbString(key), pbString(metadata[key]))
	}
	return b.Bytes()
}

// pbString writes a string in protobuf's text format, whose strings are UTF-8.
func pbString(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&b, `\%03o`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func pbList(list []int64) string {
	return "[ " + strings.ReplaceAll(strings.Trim(fmt.Sprint(list), "[]"), " ", ", ") + " ]"
}

// maxTritonName bounds names, in bytes: file systems allow 255, and temporary names are longer.
const maxTritonName = 200

// CheckTritonName refuses what cannot be Options.Name, which names a folder and a part of a URL.
func CheckTritonName(name string) error {
	other := func(r rune) bool { return !inTritonName(r) }
	if len(name) > maxTritonName || name == "" || strings.ContainsFunc(name, other) || !inTritonStart(name) {
		return fmt.Errorf("%q is not a valid Triton model name: want letters, digits, '_', '-' and '.', the first a letter, a digit or '_', at most %d bytes", name, maxTritonName)
	}
	return nil
}

func inTritonName(r rune) bool {
	return r == '_' || r == '-' || r == '.' || r != utf8.RuneError && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

func inTritonStart(name string) bool { return name[0] != '.' && name[0] != '-' }

// tritonName derives a name from the bundle's folder.
func tritonName(dir string) (string, error) {
	if dir == "" {
		return "", fmt.Errorf("a bundle that is not in a folder %w", ErrNoName)
	}
	path, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	base := filepath.Base(path)
	name := strings.Map(func(r rune) rune {
		if inTritonName(r) {
			return r
		}
		return '_'
	}, strings.TrimSuffix(base, ".mfgs"))
	if base == string(filepath.Separator) || CheckTritonName(name) != nil {
		return "", fmt.Errorf("the bundle's folder, %q, %w", base, ErrNoName)
	}
	return name, nil
}

// replaceableTriton refuses a folder in which anything but an earlier export would be lost.
func replaceableTriton(dir string) error {
	refuse := func(reason string) error { return &NotReplacedError{dir, reason} }
	s, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if s.Mode()&fs.ModeSymlink != 0 {
		return refuse("it is a link, not a folder")
	}
	if !s.IsDir() {
		return refuse("it is not a folder")
	}
	config := filepath.Join(dir, tritonConfigName)
	f, err := files.Open(config)
	_, link := os.Readlink(config)
	if link == nil || errors.Is(err, fs.ErrNotExist) || errors.As(err, new(*files.IrregularError)) {
		f.Close()
		return refuse("it has no file " + tritonConfigName)
	}
	if err != nil {
		return err
	}
	defer f.Close()
	begin := make([]byte, len(tritonMark))
	if _, err := io.ReadFull(f, begin); err != nil || string(begin) != tritonMark {
		return refuse("its " + tritonConfigName + " was not written by mfgs export")
	}
	return filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		if e.IsDir() && !slices.Contains(tritonFolders, name) || !e.IsDir() && !slices.Contains(tritonFiles, name) {
			return refuse("it holds " + name + ", which mfgs export did not write")
		}
		return nil
	})
}

// All that an export writes into a model's folder.
var (
	tritonFolders = []string{".", tritonVersion, tritonVersion + "/" + tritonModelName}
	tritonFiles   = []string{
		tritonConfigName, tritonLabelsName, tritonVersion + "/" + tritonModelName,
		tritonVersion + "/" + tritonModelName + "/" + tritonModelName,
		tritonVersion + "/" + tritonModelName + "/" + tritonModelName + dataSuffix,
	}
)
