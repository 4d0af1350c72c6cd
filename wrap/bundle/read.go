package bundle

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/score"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// Bundle is a calibrated classifier without the network.
type Bundle struct {
	Manifest  Manifest
	Posterior *calibrate.Posterior
	// Score is the OOD score. If it is nil in Write, the score is mf0, scaled by the
	// manifest's median margin.
	Score *score.Served
	// Probe checks that the model computes here what it computed in calibration; may be nil.
	Probe *Probe

	sum  string // SHA256
	fsys fs.FS  // where it was opened; nil if it was not
	dir  string // its folder; "" after OpenFS
}

// Calibration returns the calibration in the types of package calibrate.
func (b *Bundle) Calibration() *calibrate.Calibration {
	t := b.Manifest.Temperatures
	method := calibrate.MF0 // in format 1
	if b.Manifest.Probabilities != nil {
		method = b.Manifest.Probabilities.Method
	}
	c := &calibrate.Calibration{
		Method:    method,
		Posterior: b.Posterior,
		NLL:       t.NLL.Temperatures,
		OOD:       t.OOD.Temperatures,
		TS:        t.TS,
		TSOOD:     t.TSOOD,
		Smoothing: t.Smoothing,
		Lambda0:   b.Manifest.MeanField.Lambda0,
		Ratio:     b.Manifest.MeanField.MaxRatio,
		Score:     b.Score,
	}
	if prior, _ := b.Manifest.ResolvePrior(); prior != nil { // the manifest is valid
		c.Prior = calibrate.PriorRatios(prior, b.Manifest.ClassFrequencies)
	}
	return c
}

// SHA256 identifies the bundle: the hash, in hexadecimal, in the last line of its manifest, which through the
// hashes in the manifest covers all files. It is "" for a bundle that was not opened.
func (b *Bundle) SHA256() string { return b.sum }

// FS returns the folder that the bundle was opened from, to read [CurvatureName], [ModelName] or
// [ModelDataName], whose hashes were checked when it was opened.
func (b *Bundle) FS() fs.FS { return b.fsys }

// KeepsCurvature reports whether the bundle has the sums over its training data, in a format that can be read.
func (b *Bundle) KeepsCurvature() bool { return b.Manifest.Curvature != nil && b.Manifest.Format > 1 }

// Sums reads [CurvatureName] of a bundle that KeepsCurvature. product multiplies matrices for further sums, and
// may be nil.
func (b *Bundle) Sums(product parallel.Product) (*calibrate.Sums, error) {
	f, size, err := open(b.fsys, CurvatureName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, ok := f.(io.ReaderAt)
	if !ok {
		return nil, fmt.Errorf("%s: this file system cannot be read at an offset: want one such as os.DirFS", CurvatureName)
	}
	sums, err := calibrate.DecodeSums(r, size, product)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", CurvatureName, err)
	}
	m := &b.Manifest
	if sums.Head() != m.Head.Head || sums.Structure() != m.Structure || sums.Fisher() != m.Covariance.NeedsFisher() {
		return nil, fmt.Errorf("%s: does not match the posterior", CurvatureName)
	}
	return sums, nil
}

// Dir returns the path given to [Open], "" after [OpenFS].
func (b *Bundle) Dir() string { return b.dir }

// partName is the name of the manifest in package part.
const partName = "part.yaml"

// Open reads and checks a bundle: the manifest, the posterior, and the hash of every other file, which is read
// once for it. Errors begin with dir.
func Open(dir string) (*Bundle, error) { return OpenContext(context.Background(), dir) }

// OpenContext is [Open] that ends early, with the cause of ctx, if ctx ends: hashing a large model takes a while. It
// does not keep ctx.
func OpenContext(ctx context.Context, dir string) (*Bundle, error) {
	s, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%s: want a bundle, the folder that mfgs calibrate wrote: %w", dir, fs.ErrNotExist)
	}
	if err != nil {
		return nil, err
	}
	if !s.IsDir() {
		return nil, fmt.Errorf("%s: not a bundle: want a folder", dir)
	}
	b, err := OpenFSContext(ctx, files.DirFS(dir))
	if err == nil {
		err = b.Manifest.checkLinks(dir)
	}
	if _, e := os.Stat(filepath.Join(dir, partName)); errors.Is(err, ErrMissing) && e == nil {
		err = errors.New("this is a part of a calibration: merge all parts into a bundle with mfgs merge")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	b.dir = dir
	return b, nil
}

// OpenFS is [Open] for a bundle at the root of a file system; fs.Sub gets there. The files of an embed.FS do.
func OpenFS(fsys fs.FS) (*Bundle, error) { return OpenFSContext(context.Background(), fsys) }

// OpenFSContext is OpenFS with the context of [OpenContext].
func OpenFSContext(ctx context.Context, fsys fs.FS) (*Bundle, error) {
	data, err := readManifest(fsys)
	if err != nil {
		return nil, err
	}
	return load(ctx, fsys, data)
}

// readManifest reads bundle.yaml, whatever it says.
func readManifest(fsys fs.FS) ([]byte, error) {
	f, size, err := open(fsys, ManifestName)
	if errors.Is(err, ErrMissing) {
		return nil, fmt.Errorf("%w: this is not a bundle", err)
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f, ManifestName, size, MaxManifest)
}

// maxModel is the most that a model file has besides the weights in [ModelDataName]: protobuf's limit.
const maxModel = 1 << 31

// load is the one way by which a bundle is accepted: data is its manifest, sealed, fsys has its other files.
func load(ctx context.Context, fsys fs.FS, data []byte) (*Bundle, error) {
	document, err := folder.Unseal(data, resealHint)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	m, err := parse(document)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", ManifestName, err)
	}
	sum := sha256.Sum256(document)
	b := &Bundle{Manifest: *m, sum: hex.EncodeToString(sum[:]), fsys: fsys}
	if b.Posterior, err = readPosterior(fsys, m); err != nil {
		return nil, err
	}
	if b.Score, err = readScore(fsys, m); err != nil {
		return nil, err
	}
	if b.Probe, err = readProbe(fsys, m); err != nil {
		return nil, err
	}
	others := []*File{m.Curvature, m.Sample}
	if m.Model != nil {
		others = append(others, m.Model.File, m.Model.Data)
	}
	for _, o := range others {
		if o == nil {
			continue
		}
		f, size, err := open(fsys, o.Name)
		if err != nil {
			return nil, err
		}
		if size > maxModel && o.Name == ModelName {
			err = fmt.Errorf("%s: %w: %d bytes, at most %d are read", ModelName, ErrTooLarge, size, maxModel)
		} else {
			err = checkHash(files.Reader(ctx, f), *o)
		}
		f.Close()
		if err != nil {
			return nil, err
		}
	}
	return b, nil
}

// checkLinks refuses weights in another folder than their model, as ONNX readers do. Both may be links into one
// folder, as in caches.
func (m *Manifest) checkLinks(dir string) error {
	if m.Model == nil || m.Model.Data == nil {
		return nil
	}
	var real [2]string
	for i, f := range []*File{m.Model.File, m.Model.Data} {
		path, err := filepath.EvalSymlinks(filepath.Join(dir, f.Name))
		if err != nil {
			return err
		}
		real[i] = filepath.Dir(path)
	}
	if real[0] != real[1] {
		return fmt.Errorf("%s: a link out of the folder of %s, %s: replace it with a copy", m.Model.Data.Name, m.Model.File.Name, real[0])
	}
	return nil
}

// readPosterior reads the posterior that a valid manifest describes.
func readPosterior(fsys fs.FS, m *Manifest) (*calibrate.Posterior, error) {
	p := &calibrate.Posterior{
		Head:       m.Head.Head,
		Structure:  m.Structure,
		Covariance: m.Covariance,
		Epsilon:    m.Damping.Epsilon,
	}
	if c := m.Probabilities; c != nil && c.Matrix {
		p.Affine = &layer.Affine{Smoothing: m.Temperatures.Smoothing}
	}
	// The manifest bounds the size of the file.
	limit := int64(headerRoom)
	for _, t := range tensors(p) {
		n, ok := t.elements()
		if !ok || int64(n) > (math.MaxInt64-limit)/8 {
			return nil, fmt.Errorf("%s: tensor %s: %w: %v overflows", PosteriorName, t.name, ErrShape, t.shape)
		}
		limit += 8 * int64(n)
	}
	f, size, err := open(fsys, PosteriorName)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if size > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes, its tensors take %d", PosteriorName, ErrTooLarge, size, limit-headerRoom)
	}
	// Read once into memory, so that what is hashed is what is decoded.
	data, err := readAll(f, PosteriorName, size, limit)
	if err != nil {
		return nil, err
	}
	if err := checkHash(bytes.NewReader(data), m.Posterior); err != nil {
		return nil, err
	}
	st, err := safetensors.NewFile(bytes.NewReader(data), int64(len(data)))
	if err == nil {
		err = readTensors(st, p)
	}
	if err == nil {
		err = validatePosterior(p)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", PosteriorName, err)
	}
	return p, nil
}

// headerRoom is more than the size of a header with ten tensors.
const headerRoom = 4096

func readTensors(f *safetensors.File, p *calibrate.Posterior) error {
	there := map[string]safetensors.Info{}
	for _, info := range f.Tensors() {
		there[info.Name] = info
	}
	var take []posteriorTensor
	for _, t := range tensors(p) {
		info, ok := there[t.name]
		if !ok && t.optional {
			continue
		}
		if !ok {
			return fmt.Errorf("%w: %s is missing", ErrTensors, t.name)
		}
		delete(there, t.name)
		if info.Type != tensor.Float64 || !slices.Equal(info.Shape, t.shape) {
			return fmt.Errorf("tensor %s: %w: %s %v, want F64 %v", t.name, ErrShape, info.Type.Safetensors(), info.Shape, t.shape)
		}
		take = append(take, t)
	}
	for name := range there {
		return fmt.Errorf("%w: %q is unknown", ErrTensors, name)
	}
	for _, t := range take {
		var err error
		if *t.data, err = safetensors.Read[float64](f, t.name); err != nil {
			return err
		}
	}
	return nil
}

// open opens a regular file, and returns its size.
func open(fsys fs.FS, name string) (fs.File, int64, error) {
	f, err := fsys.Open(name)
	var irregular *files.IrregularError
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, fmt.Errorf("%s: %w", name, ErrMissing)
	case errors.As(err, &irregular):
		return nil, 0, fmt.Errorf("%s: %w", name, irregular)
	case err != nil:
		return nil, 0, err
	}
	s, err := f.Stat()
	if err == nil && !s.Mode().IsRegular() {
		err = fmt.Errorf("%s: %w", name, &files.IrregularError{Mode: s.Mode()})
	}
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, s.Size(), nil
}

// readAll reads a file whose size is reported as size, and may be at most limit.
func readAll(r io.Reader, name string, size, limit int64) ([]byte, error) {
	if size > limit {
		return nil, fmt.Errorf("%s: %w: %d bytes, at most %d are read", name, ErrTooLarge, size, limit)
	}
	data := make([]byte, size)
	n, err := io.ReadFull(r, data)
	if err != nil && err != io.ErrUnexpectedEOF && err != io.EOF { // a shorter file has another hash
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return data[:n], nil
}

// checkHash reads a file and compares its hash with that of the manifest.
func checkHash(r io.Reader, f File) error {
	h := sha256.New()
	if _, err := io.Copy(h, r); err != nil {
		return fmt.Errorf("%s: %w", f.Name, err)
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("%s: %w: %s, want %s", f.Name, ErrHash, got, f.SHA256)
	}
	return nil
}

// Reseal renews the last line of a bundle's manifest after an edit by hand. If [Open] would refuse the
// edited bundle, it returns an error and changes nothing.
func Reseal(dir string) error {
	if err := reseal(dir); err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	return nil
}

func reseal(dir string) error {
	fsys := files.DirFS(dir)
	data, err := readManifest(fsys)
	if err != nil {
		return err
	}
	document := folder.SealLine.ReplaceAll(data, nil)
	if n := len(document); n > 0 && document[n-1] != '\n' {
		document = append(document, '\n')
	}
	sealed := folder.Seal(document)
	b, err := load(context.Background(), fsys, sealed)
	if err != nil {
		return err
	}
	if err := b.Manifest.checkLinks(dir); err != nil {
		return err
	}
	return files.Write(filepath.Join(dir, ManifestName), func(w io.Writer) error {
		_, err := w.Write(sealed)
		return err
	})
}
