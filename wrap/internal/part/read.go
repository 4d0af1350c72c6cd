package part

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/bits"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/files"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/parallel"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

// ErrCheckpoint reports the checkpoint of a calibration that was interrupted.
var ErrCheckpoint error = checkpointError{}

type checkpointError struct{}

func (checkpointError) Error() string {
	return fmt.Sprintf("the checkpoint of an interrupted calibration: finish that with %s",
		option.Resume)
}

// ReadManifest reads and checks the manifest of a part, and no other file. Errors begin with
// dir.
func ReadManifest(dir string) (*Manifest, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	for i := range m.Sets {
		if slices.ContainsFunc(m.Sets[i].Shards, func(s Shard) bool { return s.Progress != nil }) {
			return nil, fmt.Errorf("%s: %w", dir, ErrCheckpoint)
		}
	}
	return m, nil
}

func readManifest(dir string) (*Manifest, error) {
	fail := func(err error) (*Manifest, error) { return nil, fmt.Errorf("%s: %w", dir, err) }
	s, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(fmt.Errorf("no such folder: want a part of a calibration, made with %s", option.Shard))
	}
	if err != nil {
		return nil, err
	}
	if !s.IsDir() {
		return fail(errors.New("not a part of a calibration: want a folder"))
	}
	data, err := files.Read(filepath.Join(dir, ManifestName), MaxManifest)
	if errors.Is(err, fs.ErrNotExist) {
		return fail(fmt.Errorf("not a part of a calibration: it has no %s", ManifestName))
	}
	if err != nil {
		return fail(err)
	}
	m, err := unseal(data)
	if err != nil {
		return fail(fmt.Errorf("%s: %w", ManifestName, err))
	}
	return m, nil
}

// unseal reads a manifest.
func unseal(data []byte) (*Manifest, error) {
	document, err := folder.Unseal(data, "compute the part again")
	if err != nil {
		return nil, err
	}
	return parse(document)
}

// parse reads a document and validates it.
func parse(document []byte) (*Manifest, error) {
	root, err := folder.Parse(document)
	if err != nil {
		return nil, err
	}
	format, err := folder.Format(root)
	if err != nil {
		return nil, err
	}
	if format == nil {
		format = new(int)
	}
	if *format != Version {
		return nil, fmt.Errorf("format %d, this program reads %d: make all parts with the same version", *format, Version)
	}
	m := &Manifest{}
	if err := folder.Decode(document, root, m); err != nil {
		return nil, err
	}
	if p := m.Recipe.Preprocess; p != nil && p.Spec != nil && p.Spec.Exif == nil {
		p.Spec.Exif = new(false) // older than the field, as in bundles
	}
	return m, m.Validate()
}

// Open reads and checks a part with all its files. product multiplies matrices for further sums, and may
// be nil. Errors begin with dir.
func Open(dir string, product parallel.Product) (*Part, error) {
	m, err := ReadManifest(dir)
	if err != nil {
		return nil, err
	}
	return open(dir, m, product)
}

// OpenCheckpoint is [Open] for a checkpoint: a part whose shards have a Progress.
func OpenCheckpoint(dir string, product parallel.Product) (*Part, error) {
	m, err := readManifest(dir)
	if err != nil {
		return nil, err
	}
	return open(dir, m, product)
}

func open(dir string, m *Manifest, product parallel.Product) (*Part, error) {
	p := &Part{Manifest: *m}
	for _, f := range m.Files {
		if err := p.read(dir, f, product); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", dir, f.Name, err)
		}
	}
	if err := p.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return p, nil
}

// read reads a file of the part.
func (p *Part) read(dir string, f bundle.File, product parallel.Product) error {
	r, err := files.Open(filepath.Join(dir, f.Name))
	if err != nil {
		return err
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		return err
	}
	if err := checkHash(r, io.Discard, f); err != nil {
		return err
	}
	switch size := info.Size(); f.Name {
	case CurvatureName:
		p.Sums, err = calibrate.DecodeSums(r, size, product)
	case CountsName:
		p.Counts, err = decodeCounts(r, size)
	case SampleName:
		p.Sample, err = rows.DecodeSample(r, size)
	case ProbeName:
		p.Probe, err = bundle.DecodeProbe(r, size, p.Recipe.Head.Head)
	default:
		for role, name := range rowsNames {
			if name == f.Name {
				*p.Rows(role), err = readRows(r, size)
			}
		}
	}
	return err
}

// checkHash copies a file, and compares its hash with the manifest's.
func checkHash(r io.Reader, w io.Writer, f bundle.File) error {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(w, h), r); err != nil {
		return err
	}
	if got := hex.EncodeToString(h.Sum(nil)); got != f.SHA256 {
		return fmt.Errorf("%w: %s, want %s", bundle.ErrHash, got, f.SHA256)
	}
	return nil
}

// Copy returns a function that writes a file of the part in dir, nil if the part has no such file.
func (m *Manifest) Copy(dir, name string) func(io.Writer) error {
	i := slices.IndexFunc(m.Files, func(f bundle.File) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return func(w io.Writer) error {
		r, err := files.Open(filepath.Join(dir, name))
		if err != nil {
			return err
		}
		defer r.Close()
		if err := checkHash(r, w, m.Files[i]); err != nil {
			return fmt.Errorf("%s: %s: %w", dir, name, err)
		}
		return nil
	}
}

// readRows reads a complete store.
func readRows(r io.ReaderAt, size int64) (*rows.Batch, error) {
	s, err := rows.Open(r, size)
	if err != nil {
		return nil, err
	}
	if s.End() == nil {
		return nil, fmt.Errorf("%w: it is cut off", rows.ErrStore)
	}
	b := &rows.Batch{}
	for block, err := range s.Blocks(context.Background()) {
		if err != nil {
			return nil, err
		}
		if b.N > 0 && ((b.Labels == nil) != (block.Labels == nil) || (b.Targets == nil) != (block.Targets == nil)) {
			return nil, fmt.Errorf("%w: some of its blocks have labels", rows.ErrStore)
		}
		b.Append(block)
	}
	return b, nil
}

// decodeCounts reads what encode wrote.
func decodeCounts(r io.ReaderAt, size int64) (*Counts, error) {
	f, err := safetensors.NewSealedFile(r, size)
	if err != nil {
		return nil, err
	}
	meta := f.Metadata()
	if v := meta["mfgs.counts"]; v != countsVersion {
		return nil, fmt.Errorf("format version %.20q, want %q", v, countsVersion)
	}
	c := &Counts{repeats: repeats{times: map[uint64]int64{}}}
	var errs []error
	number := func(name string) int {
		n, err := strconv.Atoi(meta[name])
		if err != nil || n < 0 {
			err = fmt.Errorf("%s is %.20q, want a number", name, meta[name])
		}
		errs = append(errs, err)
		return n
	}
	c.Examples, c.Labelled, c.repeats.mask = number("examples"), number("labelled"), uint64(number("mask"))
	list := func(name string) []int64 {
		v, err := safetensors.Read[int64](f, name)
		errs = append(errs, err)
		return v
	}
	narrow := func(x []int64) []int {
		out := make([]int, len(x))
		for i, v := range x {
			if out[i] = int(v); v < 0 {
				errs = append(errs, fmt.Errorf("a count is %d", v))
			}
		}
		return out
	}
	c.Labels, c.Predicted = narrow(list("labels")), narrow(list("predicted"))
	hashes, times := list("hashes"), list("times")
	if len(hashes) != len(times) || len(hashes) > mostHashes || c.repeats.mask&(c.repeats.mask+1) != 0 ||
		bits.OnesCount64(c.repeats.mask) > 62 {
		errs = append(errs, fmt.Errorf("%d hashes that are there %d times, with mask %d", len(hashes), len(times), c.repeats.mask))
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	for i, h := range hashes {
		if times[i] < 1 || uint64(h)&c.repeats.mask != 0 || i > 0 && uint64(h) <= uint64(hashes[i-1]) {
			return nil, fmt.Errorf("hash %d of features is not one that is counted, or not in order", i)
		}
		c.repeats.times[uint64(h)] = times[i]
	}
	return c, nil
}
