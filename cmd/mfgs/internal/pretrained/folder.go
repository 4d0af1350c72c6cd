package pretrained

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/cmd/mfgs/internal/published"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/text"
)

// maxFile bounds the files that are read.
const maxFile = 16 << 20

// The names of the files that are read.
const (
	configFile    = "config.json"
	processorFile = "preprocessor_config.json"
	tokenizerFile = "tokenizer.json"
)

// A Folder is what is stored beside a model.
type Folder struct {
	Path  string
	Model string // path of the ONNX file

	// Preprocess is the preprocessing, nil if there is none; PreprocessFile is the path of its file, and
	// Processor says what that is. Unusable says why a file was not used.
	Preprocess     *preprocess.Spec
	PreprocessFile string
	Processor      string
	Unusable       error

	// Classes are the class names in ClassesFile; nil if there are none.
	Classes     []string
	ClassesFile string

	Tokenizer string // path of the tokenizer's file, "" if there is none
}

// Open reads a folder. Its model is model.onnx or onnx/model.onnx, else its only ONNX file.
func Open(dir string) (*Folder, error) {
	model, err := modelIn(dir)
	if err != nil {
		return nil, err
	}
	f := &Folder{Path: dir, Model: model}
	return f, f.read()
}

// Beside reads what is stored beside a model file, in its folder or, if that is called onnx, as by Optimum, in the
// parent. A file that cannot be used may belong to another model: it is not an error, see Unusable.
func Beside(model string) *Folder {
	dir := filepath.Dir(model)
	if abs, err := filepath.Abs(dir); err == nil && filepath.Base(abs) == "onnx" && !exists(dir, configFile) {
		dir = filepath.Dir(dir)
		if dir == "." && filepath.Dir(model) == "." {
			dir = ".."
		}
	}
	f := &Folder{Path: dir, Model: model}
	if err := f.read(); err != nil {
		f.Unusable = err
	}
	return f
}

// modelIn finds the model of a folder.
func modelIn(dir string) (string, error) {
	var found []string
	for _, sub := range []string{"", "onnx"} {
		if exists(dir, sub, "model.onnx") {
			return filepath.Join(dir, sub, "model.onnx"), nil
		}
		entries, err := os.ReadDir(filepath.Join(dir, sub))
		if err != nil && !(sub != "" && errors.Is(err, fs.ErrNotExist)) {
			return "", fmt.Errorf("%s: %w", filepath.Join(dir, sub), bare(err))
		}
		for _, e := range entries {
			if strings.EqualFold(filepath.Ext(e.Name()), ".onnx") && !e.IsDir() {
				found = append(found, filepath.Join(sub, e.Name()))
			}
		}
	}
	switch len(found) {
	case 1:
		return filepath.Join(dir, found[0]), nil
	case 0:
		for _, weights := range []string{"model.safetensors", "pytorch_model.bin"} {
			if exists(dir, weights) {
				return "", fmt.Errorf("%s: the model is not ONNX, but %s: export it with Optimum: "+
					"optimum-cli export onnx --model %s NEW-FOLDER", dir, weights, Quote(dir))
			}
		}
		return "", fmt.Errorf("%s: no ONNX file in the folder: want model.onnx or onnx/model.onnx, as written by Optimum", dir)
	}
	slices.Sort(found)
	for i, name := range found {
		found[i] = text.Name(name)
	}
	return "", fmt.Errorf("%s: several ONNX files, and none is model.onnx: give one of %s", dir, strings.Join(found, ", "))
}

// read reads the files beside the model.
func (f *Folder) read() error {
	var config struct {
		ModelType  string          `json:"model_type"`
		Pretrained json.RawMessage `json:"pretrained_cfg"`
	}
	at := filepath.Join(f.Path, configFile)
	document, err := read(at)
	switch {
	case err != nil:
		return err
	case document != nil:
		if err := json.Unmarshal(document, &config); err != nil {
			return fmt.Errorf("%s: not JSON: %s", at, text.Line(err.Error()))
		}
		if names, err := Classes(document); err == nil && !placeholders(names) {
			f.Classes, f.ClassesFile = names, at
		} else if err != nil && !errors.Is(err, errNoClasses) {
			return fmt.Errorf("%s: %w", at, err)
		}
	}
	if exists(f.Path, tokenizerFile) {
		f.Tokenizer = filepath.Join(f.Path, tokenizerFile)
	}
	if len(config.Pretrained) == 0 {
		at = filepath.Join(f.Path, processorFile)
		if document, err = read(at); err != nil || document == nil {
			return err
		}
	}
	spec, processor, err := published.Read(document, config.ModelType)
	switch {
	case errors.Is(err, published.ErrNone):
	case err != nil:
		f.Unusable = fmt.Errorf("%s: %w", at, err)
	default:
		f.Preprocess, f.PreprocessFile, f.Processor = &spec, at, processor
	}
	return nil
}

// Preprocessing reads a file with preprocessing: YAML of mfgs, or a configuration of transformers or timm. If that of
// transformers does not name a processor, config.json beside it does.
func Preprocessing(path string) (preprocess.Spec, error) {
	document, err := files.Read(path, maxFile)
	if err != nil {
		return preprocess.Spec{}, fmt.Errorf("%s: %w", path, bare(err))
	}
	var s preprocess.Spec
	if published.Recognise(document) {
		var config struct {
			ModelType string `json:"model_type"`
		}
		if beside, err := read(filepath.Join(filepath.Dir(path), configFile)); err == nil && beside != nil {
			_ = json.Unmarshal(beside, &config)
		}
		s, _, err = published.Read(document, config.ModelType)
	} else {
		s, err = preprocess.Load(strings.NewReader(string(document)))
	}
	if err != nil {
		return s, fmt.Errorf("%s: %w", path, err)
	}
	return s, nil
}

// read reads a file, nil if there is none.
func read(path string) ([]byte, error) {
	document, err := files.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, bare(err))
	}
	return document, nil
}

// bare drops the path from a file system error.
func bare(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

func exists(path ...string) bool {
	info, err := os.Stat(filepath.Join(path...))
	return err == nil && !info.IsDir()
}

// Taken lists what is used of the folder, a line each.
func (f *Folder) Taken(preprocessing, classes bool) []string {
	rel := func(path string) string {
		if r, err := filepath.Rel(f.Path, path); err == nil {
			return r
		}
		return path
	}
	lines := []string{"model: " + rel(f.Model)}
	if preprocessing && f.Preprocess != nil {
		lines = append(lines, fmt.Sprintf("preprocessing: %s (%s)", rel(f.PreprocessFile), f.Processor))
	}
	if classes && f.Classes != nil {
		lines = append(lines, fmt.Sprintf("names of %d classes: %s", len(f.Classes), rel(f.ClassesFile)))
	}
	if f.Tokenizer != "" {
		lines = append(lines, rel(f.Tokenizer)+" is not used: give texts as token ids, named like the model's inputs")
	}
	return lines
}
