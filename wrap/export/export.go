// Package export writes the network of a bundle, with the mean-field head after it, as one ONNX
// model or as a model in a Triton model repository.
package export

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/calibrate/conformal"
	"github.com/mfgs/mfgs/internal/attach"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/fuse"
	"github.com/mfgs/mfgs/wrap"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// Methods lists the methods that a model can be exported with, whatever the bundle's own method is.
func Methods() []string { return []string{string(fuse.MF0), string(fuse.MF1)} }

// Precisions lists what the mean-field head can be computed in. float32 is for runtimes that have no float64, loops
// and branches. How much it loses is in docs/evidence/float32.md.
func Precisions() []string { return []string{"float64", "float32"} }

// Options says what Write writes, and where. Either Out or Triton must be set.
type Options struct {
	// Out is the path of the model file to write, which ends in .onnx. A model
	// above 2 GiB keeps its weights beside it, in Out + ".data".
	Out string

	// Triton is the folder of a Triton model repository, which is made if its parent exists, and Name the
	// model's name in it; "" takes the name of the bundle's folder.
	Triton, Name string
	// MaxBatch is the largest number of examples that Triton puts into one inference; 0 is
	// DefaultMaxBatch. It is ignored if the model's batch is fixed.
	MaxBatch int

	// Probe also writes what a deployment of Out is checked with: the validation inputs that the bundle keeps, and what
	// the model must give for them, as FILE.probe.json for FILE.onnx.
	Probe bool

	Model     string // path of the model file, for a bundle that holds none
	Method    string // one of Methods; "" keeps the bundle's probabilities
	Precision string // one of Precisions; "" is float64

	// Outputs are the keys of the outputs that the model has, such as probabilities, and names of the network's own;
	// nil for all. What only others need is not computed, and not in the file.
	Outputs []string

	Force bool // replace what an earlier Write wrote, or with Out any ONNX model but the network itself

	Progress func(wrap.Progress) // may be nil
}

// Report describes an export.
type Report struct {
	Bundle string     `json:"bundle"` // "" after WriteFS
	Model  *onnx.Info `json:"model"`  // the one that was calibrated
	Method string     `json:"method"` // that gives the probabilities: mf0, matrix, ts, mle or mf1

	File   string           `json:"file"`  // the model that was written
	Files  []WrittenFile    `json:"files"` // all that was written, the model first
	Opset  int64            `json:"opset"`
	Inputs []onnx.ValueInfo `json:"inputs"` // those of the model that was calibrated
	// Outputs are those of the mean-field head, OwnOutputs those of the network. Logits may be both.
	Outputs    fuse.Outputs     `json:"outputs"`
	OwnOutputs []onnx.ValueInfo `json:"own_outputs"`
	// State is that of the calibration, of a network that runs over streams. It is neither an input nor an output: each
	// example of the exported model is a whole stream, and its state begins at zero.
	State string `json:"state,omitempty"`

	Triton   *TritonModel `json:"triton,omitempty"` // nil for Options.Out
	Warnings []string     `json:"warnings"`
}

// WrittenFile is a file and its size in bytes.
type WrittenFile struct {
	Path string `json:"path"`
	Size int64  `json:"bytes"`
}

// TritonModel is a model in a Triton model repository.
type TritonModel struct {
	Repository string `json:"repository"`
	Name       string `json:"name"`
	MaxBatch   int    `json:"max_batch_size"` // 0 if requests cannot be put together
}

// A NotReplacedError refuses to replace a file or folder, with Options.Force too, because something else than an
// earlier export would be lost.
type NotReplacedError struct{ Path, Reason string }

func (e *NotReplacedError) Error() string { return e.Path + " is not replaced: " + e.Reason }

// A NoFolderError says that the folder to write to does not exist. It is an fs.ErrNotExist. A file or folder that
// exists, and is not replaced without Options.Force, is an fs.ErrExist.
type NoFolderError struct{ Path string }

func (e *NoFolderError) Error() string { return e.Path + ": " + fs.ErrNotExist.Error() }

// Unwrap returns fs.ErrNotExist.
func (e *NoFolderError) Unwrap() error { return fs.ErrNotExist }

// ErrNoName says that the bundle's folder is not a valid name for a Triton model, and Options.Name is empty.
var ErrNoName = errors.New("is not a valid name for a Triton model")

// Write writes the network of the bundle in a folder, with the mean-field head after it as standard operators, as
// one ONNX model: it gives what [wrap.Predictor] gives, wherever ONNX Runtime runs. Write itself needs no ONNX
// Runtime. On error nothing is left behind, and what was there before is unchanged.
//
// The model takes the network's own inputs: preprocessing is not part of it.
func Write(ctx context.Context, dir string, o Options) (*Report, error) {
	return export(ctx, func() (*bundle.Bundle, error) { return bundle.OpenContext(ctx, dir) }, o)
}

// WriteFS is [Write] for a bundle at the root of a file system; use fs.Sub to get there.
func WriteFS(ctx context.Context, fsys fs.FS, o Options) (*Report, error) {
	return export(ctx, func() (*bundle.Bundle, error) { return bundle.OpenFSContext(ctx, fsys) }, o)
}

func export(ctx context.Context, read func() (*bundle.Bundle, error), o Options) (*Report, error) {
	if err := o.check(); err != nil {
		return nil, err
	}
	b, err := read()
	if err != nil {
		return nil, err
	}
	if b.Manifest.Model == nil {
		return nil, errors.New("the bundle was calibrated with precomputed features and has no network to export: calibrate with a model, or use PredictFeatures in Go")
	}
	if o.Triton != "" && o.Name == "" {
		if o.Name, err = tritonName(b.Dir()); err != nil {
			return nil, err
		}
	}
	to, err := o.destination(b)
	if err != nil {
		return nil, err
	}
	a, err := attach.Open(ctx, b, o.Model, nil)
	if err != nil {
		return nil, err
	}
	defer a.Close()
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	if o.Method != "" && b.Manifest.Head.Nonlinear {
		return nil, fmt.Errorf("method %q cannot be exported: it needs a linear last layer, and the bundle was calibrated without one", o.Method)
	}
	single := o.Precision == "float32"
	if single && b.Manifest.Head.Kind.Decodes() {
		return nil, fmt.Errorf("precision %q cannot be exported for a model that reads %s: its probabilities are products over all steps, which need float64",
			o.Precision, b.Manifest.Head.Kind)
	}
	decisions := o.Method == "" || fuse.Method(o.Method) == fuse.Method(b.Calibration().Method)
	form := attach.Form{Decisions: decisions, Strings: true, Single: single, Outputs: o.Outputs}
	fused, outputs, err := a.Fuse(fuse.Method(o.Method), form)
	if err != nil {
		return nil, err
	}
	report := &Report{
		Bundle: b.Dir(), Model: a.Model.Info(), Method: cmp.Or(o.Method, string(b.Calibration().Method)),
		Opset: fused.Opset(), Inputs: fused.Inputs(),
		Outputs: outputs, OwnOutputs: o.own(a.Model.Outputs(), outputs), State: b.Manifest.Head.State,
		Warnings: []string{},
	}
	var config *tritonConfig
	if o.Triton != "" {
		if fused, config, err = report.forTriton(a, fused, form, &o); err != nil {
			return nil, err
		}
	}
	report.Warnings = append(report.Warnings, moved(report.Outputs)...)
	if o.Outputs == nil {
		report.Warnings = append(report.Warnings, undecided(b.Manifest.Decisions, report, decisions)...)
	}
	files, err := fused.Files(to.model)
	if err != nil {
		return nil, err
	}
	if config != nil {
		if p := report.Outputs.Of("probabilities"); p != nil {
			config.labelled = p.Name
		}
		files = config.layOut(files, b.Manifest.Labels, fused.Metadata())
	}
	if o.Probe {
		f, err := probeFile(b, o.Method, report, probeName(to.model))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	report.Warnings = append(report.Warnings, to.leftovers(files)...)
	if report.Files, err = to.write(ctx, files); err != nil {
		return nil, err
	}
	report.File = report.Files[0].Path
	return report, nil
}

// forTriton returns the configuration of the fused model for Triton, and the model, without its own outputs if Triton
// cannot serve these.
func (r *Report) forTriton(
	a *attach.Attached, fused *onnx.Model, form attach.Form, o *Options,
) (*onnx.Model, *tritonConfig, error) {
	config, unfit, err := newTritonConfig(o.Name, r.Inputs, r.OwnOutputs, r.Outputs.Infos(), o.MaxBatch)
	switch {
	case err == nil && unfit != "" && o.Outputs != nil:
		err = fmt.Errorf("the model's own output %s, which Triton does not serve: leave it out", unfit)
	case err == nil && unfit != "":
		// Triton checks every output of the file, whether the configuration names it or not.
		form.Alone = true
		if fused, r.Outputs, err = a.Fuse(fuse.Method(o.Method), form); err != nil {
			return nil, nil, err
		}
		r.Warnings = append(r.Warnings, fmt.Sprintf("the model's own outputs are left out: %s, which Triton does not serve", unfit))
		r.Inputs, r.OwnOutputs = fused.Inputs(), []onnx.ValueInfo{}
		config, _, err = newTritonConfig(o.Name, r.Inputs, nil, r.Outputs.Infos(), o.MaxBatch)
	}
	if err != nil {
		return nil, nil, err
	}
	r.Triton = &TritonModel{Repository: o.Triton, Name: o.Name, MaxBatch: config.maxBatch}
	return fused, config, nil
}

// own returns the network's own outputs that remain beside those of the head.
func (o *Options) own(network []onnx.ValueInfo, outputs fuse.Outputs) []onnx.ValueInfo {
	return slices.DeleteFunc(slices.Clone(network), func(v onnx.ValueInfo) bool {
		return o.Outputs != nil && (!slices.Contains(o.Outputs, v.Name) || outputs.Of(v.Name) != nil)
	})
}

// undecided warns about decisions of the bundle that the model does not make.
func undecided(d *conformal.Decisions, r *Report, wanted bool) []string {
	switch {
	case d == nil:
		return nil
	case !wanted:
		return []string{fmt.Sprintf("abstain and prediction_set are left out: the bundle's thresholds do not apply to the probabilities of %s", r.Method)}
	case d.Set != nil && r.Outputs.Of("prediction_set") == nil:
		return []string{fmt.Sprintf("prediction_set is left out: %s needs operator set %d, and the model has %d; %s works with any",
			d.Set.Score, fuse.RankedOpset, r.Opset, conformal.LAC)}
	}
	return nil
}

// moved warns about outputs with unusual names: the usual name is the network's own output.
func moved(outputs fuse.Outputs) (warnings []string) {
	for _, o := range outputs {
		if o.Name != o.Key {
			warnings = append(warnings, fmt.Sprintf("the network already has an input or output %q: the new output is called %q", o.Key, o.Name))
		}
	}
	return warnings
}

// check refuses what cannot work before anything is read, and fills in defaults.
func (o *Options) check() error {
	if o.MaxBatch == 0 {
		o.MaxBatch = DefaultMaxBatch
	}
	switch {
	case o.Method != "" && !slices.Contains(Methods(), o.Method):
		return fmt.Errorf("method %q cannot be exported, want one of %s", o.Method, strings.Join(Methods(), ", "))
	case o.Precision != "" && !slices.Contains(Precisions(), o.Precision):
		return fmt.Errorf("precision %q cannot be exported, want one of %s", o.Precision, strings.Join(Precisions(), ", "))
	case (o.Out == "") == (o.Triton == ""):
		return errors.New("give either a file or a Triton model repository to write")
	case o.Out != "" && !strings.HasSuffix(o.Out, onnxSuffix):
		return fmt.Errorf("%s: want a file name that ends in .onnx", o.Out)
	case o.Out != "" && o.Name != "":
		return errors.New("a model name needs a Triton model repository")
	case o.Probe && o.Out == "":
		return errors.New("a probe needs a file to lie beside")
	case o.Probe && fuse.Method(o.Method) == fuse.MF1:
		return errors.New("there is no probe for mf1, which no other formula computes: leave out the probe or the method")
	case o.MaxBatch < 0 || o.MaxBatch > bundle.MaxBatch:
		return fmt.Errorf("the largest batch is %d, want 1 to %d", o.MaxBatch, bundle.MaxBatch)
	case o.Name != "":
		return CheckTritonName(o.Name)
	}
	return nil
}

const onnxSuffix = ".onnx"

// dataSuffix is what [onnx.Model.Files] appends to a model's name for the file of its weights.
const dataSuffix = ".data"

// A destination is where an export goes. The names of its files are relative to folder, and those of the model begin
// with model.
type destination struct {
	folder, model string
	force         bool
	whole         string   // the name in folder of a folder that holds all files; "" for Options.Out
	made          bool     // folder is to be made
	kept          []string // files that must not be replaced
	network       string   // SHA-256 of the model that was calibrated
	progress      func(wrap.Progress)
}

// destination returns where the export goes, and refuses what must not be replaced.
func (o *Options) destination(b *bundle.Bundle) (*destination, error) {
	p := &destination{force: o.Force, progress: o.Progress}
	if o.Model != "" {
		p.kept = append(p.kept, o.Model, o.Model+dataSuffix)
	}
	if o.Out != "" {
		path := o.Out
		// A link stays, and the file is replaced.
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		} else if s, e := os.Lstat(path); e == nil && s.Mode()&fs.ModeSymlink != 0 {
			return nil, &NotReplacedError{path, "it is a broken link"}
		}
		p.folder, p.model = filepath.Dir(path), filepath.Base(path)
	} else {
		p.folder, p.whole, p.model = filepath.Clean(o.Triton), o.Name, tritonModelName
	}
	s, err := os.Stat(p.folder)
	if errors.Is(err, fs.ErrNotExist) && p.whole != "" {
		p.made = true
		s, err = os.Stat(filepath.Dir(p.folder))
	}
	switch {
	case p.made && errors.Is(err, fs.ErrNotExist):
		return nil, &NoFolderError{filepath.Dir(p.folder)}
	case errors.Is(err, fs.ErrNotExist):
		return nil, &NoFolderError{p.folder}
	case err != nil:
		return nil, pathError(p.folder, err)
	case !s.IsDir():
		return nil, fmt.Errorf("%s is not a folder", p.folder)
	}
	if b.Dir() != "" {
		if own, err := os.Stat(b.Dir()); err == nil && os.SameFile(s, own) {
			return nil, fmt.Errorf("%s is the bundle: export to another folder", b.Dir())
		}
	}
	if p.whole != "" {
		return p, p.checkWhole()
	}
	p.network = b.Manifest.Model.SHA256
	return p, p.checkFile(p.model)
}

// pathError gives an error of the file system its path, without the name of the system call.
func pathError(path string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return fmt.Errorf("%s: %w", path, err)
}

// checkFile refuses to replace a file without force, and in any case a file that is kept, or is neither an ONNX model
// nor the weights of one.
func (p *destination) checkFile(name string) error {
	path := filepath.Join(p.folder, name)
	s, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return pathError(path, err)
	case !s.Mode().IsRegular():
		return &NotReplacedError{path, "it is not a regular file"}
	case !p.force:
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	for _, kept := range p.kept {
		if k, err := os.Stat(kept); err == nil && os.SameFile(s, k) {
			return &NotReplacedError{path, "it is the exported model"}
		}
	}
	if s.Size() == 0 {
		return nil // nothing to be lost
	}
	// Anything else may be needed by somebody, and a link may have led here.
	if strings.HasSuffix(name, probeSuffix) {
		if !isProbe(path) {
			return &NotReplacedError{path, "it is not a probe"}
		}
		return nil
	}
	there, err := onnx.Open(filepath.Join(p.folder, p.model))
	switch {
	case err != nil && name == p.model:
		return &NotReplacedError{path, "it is not an ONNX model"}
	case name == p.model && there.SHA256() == p.network:
		// The bundle has a copy, but its owner does not look for it there.
		return &NotReplacedError{path, "it is the network of the bundle"}
	case name != p.model && (err != nil || there.SelfContained()):
		return &NotReplacedError{path, "it is not known to hold the weights of " + p.model}
	}
	return nil
}

// leftovers warns about what an earlier export left beside a model that has none: its weights and its probe. They are
// not removed: other models may have their weights there.
func (p *destination) leftovers(list []onnx.File) (warnings []string) {
	for name, what := range map[string]string{
		p.model + dataSuffix: "is not used by the model in " + p.model + ": remove it unless another model needs it",
		probeName(p.model):   "is of an earlier export: remove it, or write it again",
	} {
		path := filepath.Join(p.folder, name)
		_, err := os.Lstat(path)
		if name == probeName(p.model) && !isProbe(path) {
			continue
		}
		if p.whole == "" && err == nil && !slices.ContainsFunc(list, func(f onnx.File) bool { return f.Name == name }) {
			warnings = append(warnings, path+" "+what)
		}
	}
	slices.Sort(warnings)
	return warnings
}

// checkWhole refuses to replace a folder without force, and in any case one that no export has written.
func (p *destination) checkWhole() error {
	path := filepath.Join(p.folder, p.whole)
	_, err := os.Lstat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return pathError(path, err)
	}
	if err := replaceableTriton(path); err != nil {
		return err
	}
	if !p.force {
		return fmt.Errorf("%s: %w", path, fs.ErrExist)
	}
	return nil
}

// write writes the files, whose names may begin with a folder, and returns their paths. Until all are written they lie
// in a draft folder beside the destination.
func (p *destination) write(ctx context.Context, list []onnx.File) (written []WrittenFile, err error) {
	to := p.folder
	if p.whole != "" {
		to = filepath.Join(p.folder, p.whole)
	} else if err := p.checkFiles(list); err != nil {
		return nil, err
	}
	if p.made {
		e := os.Mkdir(p.folder, files.FolderMode)
		if e != nil && !errors.Is(e, fs.ErrExist) { // another export may have made it
			return nil, pathError(p.folder, e)
		}
		defer func() {
			if err != nil && e == nil {
				os.Remove(p.folder)
			}
		}()
	}
	draft, err := files.NewDraft(p.folder)
	if err != nil {
		return nil, fmt.Errorf("nothing can be written to the folder %w", pathError(p.folder, err))
	}
	defer draft.Close()
	for _, f := range list {
		w := &endingWriter{ctx: ctx, step: func(n int64) {
			if p.progress != nil {
				p.progress(wrap.Progress{Stage: "writing", Unit: "bytes", Done: int(n), Total: int(f.Size)})
			}
		}}
		err := draft.Put(filepath.Join(p.whole, filepath.FromSlash(f.Name)), func(to io.Writer) error {
			w.w = to
			return f.Write(w)
		})
		if err != nil {
			return nil, fmt.Errorf("writing %s: %w", f.Name, err)
		}
		written = append(written, WrittenFile{filepath.Join(to, filepath.FromSlash(f.Name)), w.n})
	}
	if p.whole != "" {
		return written, p.moveWhole(draft)
	}
	return written, p.moveFiles(draft, list)
}

// checkFiles is checkFile for each of the files.
func (p *destination) checkFiles(list []onnx.File) error {
	for _, f := range list {
		if err := p.checkFile(f.Name); err != nil {
			return err
		}
	}
	return nil
}

// moveFiles moves files to their places, the model last: when it appears, its weights must be there.
func (p *destination) moveFiles(draft *files.Draft, list []onnx.File) (err error) {
	// Writing takes time: the files may have changed since the first check.
	if err := p.checkFiles(list); err != nil {
		return err
	}
	var fresh []string // to be removed if the rest fails
	defer func() {
		if err != nil {
			for _, path := range fresh {
				os.Remove(path)
			}
		}
	}()
	for _, f := range slices.Backward(list) {
		path := filepath.Join(p.folder, f.Name)
		_, missing := os.Lstat(path)
		if err := draft.Move(f.Name); err != nil {
			return err
		}
		if missing != nil {
			fresh = append(fresh, path)
		}
	}
	return nil
}

// moveWhole moves the folder of the draft to its place. The draft takes away what was there.
func (p *destination) moveWhole(draft *files.Draft) error {
	if err := p.checkWhole(); err != nil {
		return err
	}
	if _, err := os.Lstat(filepath.Join(p.folder, p.whole)); errors.Is(err, fs.ErrNotExist) {
		return draft.MoveNew(p.whole)
	}
	_, err := draft.Exchange(p.whole)
	return err
}

// endingWriter writes until a context ends, and counts bytes.
type endingWriter struct {
	ctx  context.Context
	w    io.Writer
	n    int64
	step func(n int64)
}

func (e *endingWriter) Write(p []byte) (int, error) {
	if err := context.Cause(e.ctx); err != nil {
		return 0, err
	}
	n, err := e.w.Write(p)
	e.n += int64(n)
	e.step(e.n)
	return n, err
}

// text returns a file with the given content.
func text(name string, content []byte) onnx.File {
	return onnx.File{Name: name, Size: int64(len(content)), Write: func(w io.Writer) error {
		_, err := io.Copy(w, bytes.NewReader(content))
		return err
	}}
}
