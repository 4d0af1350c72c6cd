package bundle

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/internal/files"
)

func wantFiles(t *testing.T, dir string, want ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if !slices.Equal(got, want) {
		t.Errorf("%s holds %q, want %q", dir, got, want)
	}
}

func TestAnExistingFolderIsNotReplaced(t *testing.T) {
	t.Parallel()
	dir := written(t, full(), withFiles())
	before := inMemory(t, dir)
	for _, err := range []error{Write(dir, kron(), WriteOptions{}), CheckTarget(dir, false)} {
		if !errors.Is(err, fs.ErrExist) || !strings.Contains(err.Error(), "use Force") {
			t.Errorf("error %v", err)
		}
	}
	for name, f := range inMemory(t, dir) {
		if !bytes.Equal(f.Data, before[name].Data) {
			t.Errorf("%s was changed", name)
		}
	}
	wantFiles(t, filepath.Dir(dir), "b")
}

func TestForceReplacesABundleAsAWhole(t *testing.T) {
	t.Parallel()
	dir := written(t, full(), withData())
	if err := CheckTarget(dir, true); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, kron(), WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, ManifestName, PosteriorName)
	wantFiles(t, filepath.Dir(dir), "b")
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}

	// The model may come out of the bundle that is replaced, its weights too.
	dir = written(t, full(), withData())
	before := inMemory(t, dir)
	o := WriteOptions{Force: true, Model: Copy(filepath.Join(dir, ModelName)),
		ModelData: Copy(filepath.Join(dir, ModelDataName))}
	if err := Write(dir, full(), o); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, dir, ManifestName, ModelName, ModelDataName, PosteriorName, ScoresName)
	after := inMemory(t, dir)
	for _, name := range []string{ModelName, ModelDataName} {
		if !bytes.Equal(after[name].Data, before[name].Data) {
			t.Errorf("%s was changed", name)
		}
	}
	if _, err := Open(dir); err != nil {
		t.Fatal(err)
	}
}

func TestForceReplacesWhereALinkPoints(t *testing.T) {
	t.Parallel()
	dir := written(t, full(), WriteOptions{})
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	if err := Write(link, kron(), WriteOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if s, err := os.Lstat(link); err != nil || s.Mode().Type() != fs.ModeSymlink {
		t.Errorf("the link is %v, %v", s.Mode(), err)
	}
	if b, err := Open(dir); err != nil || b.Manifest.Structure != "kron" {
		t.Errorf("%v", err)
	}
}

func TestForceDoesNotReplaceWhatIsNotABundle(t *testing.T) {
	t.Parallel()
	parent := t.TempDir()
	dir := filepath.Join(parent, "home")
	if err := os.Mkdir(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	note := filepath.Join(dir, "thesis.tex")
	if err := os.WriteFile(note, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	for _, err := range []error{Write(dir, full(), WriteOptions{Force: true}), CheckTarget(dir, true)} {
		if err == nil || !strings.Contains(err.Error(), "thesis.tex") {
			t.Errorf("error %v", err)
		}
	}
	if err := Write(note, full(), WriteOptions{Force: true}); err == nil {
		t.Error("a file was replaced")
	}
	wantFiles(t, dir, "thesis.tex")
	wantFiles(t, parent, "home")

	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}

	// Names alone make no bundle.
	for _, name := range []string{ModelName, ModelDataName} {
		model := filepath.Join(dir, name)
		if err := os.WriteFile(model, []byte("trained for weeks"), 0o666); err != nil {
			t.Fatal(err)
		}
		for _, err := range []error{Write(dir, full(), WriteOptions{Force: true}), CheckTarget(dir, true)} {
			if err == nil || !strings.Contains(err.Error(), "it contains "+name) || !strings.Contains(err.Error(), "no "+ManifestName) {
				t.Errorf("error %v", err)
			}
		}
		wantFiles(t, dir, name)
		wantFiles(t, parent, "home")
		if err := os.Remove(model); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(filepath.Join(dir, ManifestName, "letters"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, full(), WriteOptions{Force: true}); err == nil || !strings.Contains(err.Error(), "not a file of a bundle") {
		t.Errorf("a folder named %s: error %v", ManifestName, err)
	}
	wantFiles(t, filepath.Join(dir, ManifestName), "letters")
	if err := os.RemoveAll(filepath.Join(dir, ManifestName)); err != nil {
		t.Fatal(err)
	}

	// An empty folder may be replaced.
	if err := Write(dir, full(), WriteOptions{Force: true}); err != nil {
		t.Error(err)
	}
	if err := Write(filepath.Join(parent, "absent", "b"), full(), WriteOptions{}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no folder to write in: %v", err)
	}
}

func TestForceDoesNotReplaceABundleWithAFileToKeep(t *testing.T) {
	t.Parallel()
	dir := written(t, full(), withData())
	model := filepath.Join(dir, ModelName)
	data := filepath.Join(dir, ModelDataName)
	links := t.TempDir()
	for name, to := range map[string]string{"model": model, "folder": dir} {
		if err := os.Symlink(to, filepath.Join(links, name)); err != nil {
			t.Fatal(err)
		}
	}
	for _, keep := range []string{model, data, filepath.Join(links, "model"), filepath.Join(links, "folder", ModelName)} {
		o := WriteOptions{Force: true, Keep: []string{"absent", keep}}
		for _, err := range []error{Write(dir, kron(), o), CheckTarget(dir, o.Force, o.Keep...)} {
			if err == nil || !strings.Contains(err.Error(), keep) {
				t.Errorf("keep %s: error %v", keep, err)
			}
		}
	}
	if b, err := Open(dir); err != nil || b.Manifest.Structure != "full" {
		t.Errorf("the old bundle: %v", err)
	}
	wantFiles(t, filepath.Dir(dir), "b")

	// Files of that name elsewhere are in no danger.
	other := filepath.Join(links, ModelName)
	if err := os.WriteFile(other, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, kron(), WriteOptions{Force: true, Keep: []string{other}}); err != nil {
		t.Error(err)
	}
}

// A folder that appears in place of the bundle while that is written stays.
func TestAFolderThatAppearsMeanwhileIsNotReplaced(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name  string
		force bool
		first bool   // whether there is a bundle to begin with
		file  string // what appears in the folder, which appears too if need be
	}{
		{"empty folder", false, false, ""},
		{"folder", false, false, "thesis.tex"},
		{"folder that is no bundle", true, false, ModelName},
		{"file in the bundle", true, true, "thesis.tex"},
	} {
		t.Run(test.name, func(t *testing.T) {
			parent := t.TempDir()
			dir := filepath.Join(parent, "b")
			if test.first {
				if err := Write(dir, kron(), WriteOptions{}); err != nil {
					t.Fatal(err)
				}
			}
			var want []string
			err := write(dir, full(), WriteOptions{Force: test.force},
				func(d *files.Draft, name string) (io.WriteCloser, error) {
					if filepath.Base(name) == ManifestName {
						if err := os.MkdirAll(dir, 0o777); err != nil {
							t.Fatal(err)
						}
						if test.file != "" {
							if err := os.WriteFile(filepath.Join(dir, test.file), nil, 0o666); err != nil {
								t.Fatal(err)
							}
						}
						for name := range inMemory(t, dir) {
							want = append(want, name)
						}
					}
					return d.Create(name)
				})
			if err == nil || !test.force && !errors.Is(err, fs.ErrExist) {
				t.Errorf("error %v", err)
			}
			slices.Sort(want)
			wantFiles(t, dir, want...)
			wantFiles(t, parent, "b")
		})
	}
}

// A folder that holds anything else is left as it is, and not half of it.
func TestDiscardRemovesNothingButABundle(t *testing.T) {
	t.Parallel()
	dir := written(t, full(), withData())
	holds := slices.Sorted(maps.Keys(inMemory(t, dir)))
	note := filepath.Join(dir, "thesis.tex")
	if err := os.WriteFile(note, nil, 0o666); err != nil {
		t.Fatal(err)
	}
	holds = append(holds, "thesis.tex")
	if err := kind.Discard(dir); err == nil || !strings.Contains(err.Error(), "contains thesis.tex") {
		t.Errorf("error %v", err)
	}
	wantFiles(t, dir, holds...)
	if err := kind.Discard(note); err == nil {
		t.Error("a file was taken for a bundle")
	}
	wantFiles(t, dir, holds...)
	if err := os.Remove(note); err != nil {
		t.Fatal(err)
	}
	if err := kind.Discard(dir); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("it is there still: %v", err)
	}
}

func TestUnreadableBundlesAreNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Bundle, *WriteOptions){
		"NaN in the posterior":     func(b *Bundle, _ *WriteOptions) { b.Posterior.Blocks[0] = math.NaN() },
		"posterior too short":      func(b *Bundle, _ *WriteOptions) { b.Posterior.Leverage = b.Posterior.Leverage[1:] },
		"posterior of another one": func(b *Bundle, _ *WriteOptions) { b.Posterior = kron().Posterior; b.Posterior.Head.Logits = 4 },
		"head of nothing":          func(b *Bundle, _ *WriteOptions) { b.Posterior.Head.Logits, b.Manifest.Head.Logits = 0, 0 },
		"structure left open":      func(b *Bundle, _ *WriteOptions) { b.Posterior = kron().Posterior; b.Posterior.Structure = "auto" },
		"NaN in the manifest":      func(b *Bundle, _ *WriteOptions) { b.Manifest.Validation.After.InDomain.NLL = math.NaN() },
		"no tool":                  func(b *Bundle, _ *WriteOptions) { b.Manifest.Tool = "" },
		"manifest too large":       func(b *Bundle, _ *WriteOptions) { b.Manifest.Labels[0] = strings.Repeat("x", MaxManifest) },
		"model that fails":         func(_ *Bundle, o *WriteOptions) { o.Model = func(io.Writer) error { return errors.New("no model") } },
		"model that is not there":  func(_ *Bundle, o *WriteOptions) { o.Model = Copy("testdata/absent") },
		"model not described":      func(b *Bundle, _ *WriteOptions) { b.Manifest.Model = nil },
		"weights without a model":  func(_ *Bundle, o *WriteOptions) { o.Model = nil },
		"weights of no model":      func(b *Bundle, o *WriteOptions) { b.Manifest.Model, o.Model = nil, nil },
		"weights that fail":        func(_ *Bundle, o *WriteOptions) { o.ModelData = Copy("testdata/absent") },
		"extension without x-":     func(b *Bundle, _ *WriteOptions) { b.Manifest.Extensions = map[string]any{"team": 1} },
		"curvature that fails":     func(_ *Bundle, o *WriteOptions) { o.Curvature = func(io.Writer) error { return errors.New("none") } },
	} {
		t.Run(name, func(t *testing.T) {
			parent := t.TempDir()
			b, o := full(), withData()
			change(&b, &o)
			err := Write(filepath.Join(parent, "b"), b, o)
			if err == nil || strings.Contains(err.Error(), "\n") {
				t.Errorf("error %v", err)
			}
			wantFiles(t, parent)
		})
	}
}

// Names that YAML could take for something else, or for several lines.
func TestLabelsOfAllKinds(t *testing.T) {
	t.Parallel()
	b := kron()
	odd := []string{"yes", "~", "1e3", "0x10", "- a", "a: b", "#", " ", "\t", "\r\n", "\x00", "\u0085", "\u2028", "é🙂", "!!int 3", "*a", "&a", "'", `"`, "\ufeff", "\xff", "2001-01-01", "|", ">", "%", "...", "---"}
	for len(odd)%3 != 0 {
		odd = append(odd, "")
	}
	for i := 0; i < len(odd); i += 3 {
		b.Manifest.Labels = odd[i : i+3]
		got, err := Open(written(t, b, WriteOptions{}))
		if err != nil {
			t.Errorf("%q: %v", odd[i:i+3], err)
		} else if !slices.Equal(got.Manifest.Labels, odd[i:i+3]) {
			t.Errorf("%q came back as %q", odd[i:i+3], got.Manifest.Labels)
		}
	}
}

// disk has room for a number of bytes, and fails when the file named is closed.
type disk struct {
	room int
	name string
}

var errDisk = errors.New("no space left on device")

type diskFile struct {
	io.WriteCloser
	disk *disk
	name string
}

func (d *disk) create(draft *files.Draft, name string) (io.WriteCloser, error) {
	f, err := draft.Create(name)
	if err != nil {
		return nil, err
	}
	return diskFile{f, d, filepath.Base(name)}, nil
}

func (f diskFile) Write(p []byte) (int, error) {
	n, err := f.WriteCloser.Write(p[:min(len(p), f.disk.room)])
	f.disk.room -= n
	if err == nil && n < len(p) {
		err = errDisk
	}
	return n, err
}

func (f diskFile) Close() error {
	err := f.WriteCloser.Close()
	if f.name == f.disk.name {
		return errDisk
	}
	return err
}

func TestAFullDiskLeavesNoTrace(t *testing.T) {
	t.Parallel()
	names := fileNames
	size := 0
	for _, f := range inMemory(t, written(t, probed(), withData())) {
		size += len(f.Data)
	}

	parent := t.TempDir()
	dir := filepath.Join(parent, "b")
	try := func(d disk, force bool) {
		t.Helper()
		o := withData()
		o.Force = force
		if err := write(dir, probed(), o, d.create); !errors.Is(err, errDisk) {
			t.Fatalf("disk %+v: error %v", d, err)
		}
	}
	fill := func(force bool, after func()) {
		t.Helper()
		for room := 0; room < size; room += 197 {
			try(disk{room: room}, force)
			after()
		}
		try(disk{room: size - 1}, force)
		after()
		for _, name := range names {
			try(disk{room: size, name: name}, force)
			after()
		}
	}
	fill(false, func() { wantFiles(t, parent) })

	// With --force the old bundle stays as it was.
	if err := Write(dir, kron(), WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	fill(true, func() { wantFiles(t, parent, "b") })
	if b, err := Open(dir); err != nil || b.Manifest.Structure != "kron" {
		t.Errorf("the old bundle: %v", err)
	}

	d := disk{room: size}
	o := withData()
	o.Force = true
	if err := write(dir, probed(), o, d.create); err != nil {
		t.Errorf("room for all: %v", err)
	}
	if b, err := Open(dir); err != nil || b.Manifest.Structure != "full" {
		t.Errorf("the new bundle: %v", err)
	}
}

// The manifest describes the files written, not earlier ones.
func TestABundleCanBeWrittenAgainWithoutItsOptionalFiles(t *testing.T) {
	t.Parallel()
	b, err := Open(written(t, full(), withData()))
	if err != nil {
		t.Fatal(err)
	}
	dir := written(t, *b, WriteOptions{})
	wantFiles(t, dir, ManifestName, PosteriorName, ScoresName)
	got, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if m := got.Manifest.Model; m.File != nil || m.Data != nil || got.Manifest.Curvature != nil {
		t.Errorf("the manifest names %+v", got.Manifest)
	}
	if m := b.Manifest.Model; m.File == nil || m.Data == nil {
		t.Error("what was read was changed")
	}
}

// A bundle names all shards of all its sets, as many as there can be, beside many classes.
func TestThereIsRoomForAllShards(t *testing.T) {
	t.Parallel()
	b := full()
	for i := range b.Manifest.Datasets {
		d := &b.Manifest.Datasets[i]
		for j := range rows.MaxShards {
			shard := rows.Shard{Index: j + 1, Count: rows.MaxShards}
			d.Parts = append(d.Parts, DatasetPart{shard, strings.Repeat("0a", 32)})
		}
		d.Fingerprint = FingerprintOf(d.Parts)
	}
	dir := written(t, b, WriteOptions{})
	s, err := os.Stat(filepath.Join(dir, ManifestName))
	if err != nil || len(b.Manifest.Datasets) != 3 || s.Size() > MaxManifest/2 {
		t.Errorf("%d sets in %d bytes: %v", len(b.Manifest.Datasets), s.Size(), err)
	}
}
