package dataset

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
)

// fingerprinted makes a dataset of every format in a folder.
func fingerprinted(t *testing.T, dir string) {
	t.Helper()
	var cifar []byte
	for i := range 3 {
		cifar = append(append(cifar, byte(i)), ramp(cifarPixels)...)
	}
	var stored bytes.Buffer
	w := zip.NewWriter(&stored)
	for _, m := range []struct {
		name string
		data []byte
	}{{"features", npy("<f4", "(10, 5000)", ramp(200_000))}, {"logits", npy("<f4", "(10, 2)", ramp(80))}, {"y", npy("|i1", "(10,)", make([]byte, 10))}} {
		f, err := w.CreateHeader(&zip.FileHeader{Name: m.name + ".npy", Method: zip.Store})
		if err == nil {
			_, err = f.Write(m.data)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		"images-idx3": idx(ramp(10*6), 10, 2, 3), "labels-idx1": idx(ramp(10), 10),
		"folder/a/1.png": ramp(7), "folder/a/2.png": nil /* cannot be read */, "folder/b/3.jpg": ramp(300_000), "folder/b/4.jpg": ramp(9),
		"x.tar":                  tarball(t, tar.FormatPAX, "a/1.png", "a/2.png", "b/3.png"),
		"cifar/data_batch_1.bin": cifar, "cifar/data_batch_2.bin": cifar,
		"one.png": append([]byte("\x89PNG\r\n\x1a\n"), ramp(100)...),
		"x.npy":   npy("|u1", "(10, 20000)", ramp(200_000)),
		"x.npz":   stored.Bytes(),
		"x.jsonl": []byte("{\"a\": 1, \"label\": 0}\n{\"a\": 2, \"label\": 1}\n\n"),
		"x.csv":   []byte("a,label\n1,0\n2,1\n3,0\n"),
	} {
		write(t, dir, name, content)
	}
}

// fingerprints are those of the datasets that fingerprinted makes. Bundles hold such: they must
// never change.
var fingerprints = []struct {
	spec     string
	features bool // precomputed ones
	once     bool // a pass over the examples reads all that determines them, in order
	want     string
}{
	{"images-idx3", false, false, "2c99a4acad20e421b730b8e9169476bded57dd3fbb1428ea9d76a5036c6731a4"},
	{"images-idx3[4:7]", false, false, "0b64b6711de5571406949925eaf70b81b14a93be144adad5b17351916a992cdf"},
	{"folder", false, true, "f3c4a5e0d6f1855f0c693cb90c967548560c8cc2d2198c063a95d9d16320edd2"},
	{"folder[1:3]", false, true, "146a369fea9f2788a3d96ecd452483e6c42bec61af0bf7a50eee5a6777d6c290"},
	{"x.tar", false, true, "359463105390dbac22e9744fe70d39577947d3e0394b1af19d971103f5f20c99"},
	{"x.tar[1:]", false, true, "0126f92960df167e12194ec3f76071f93c0b5faaecbef2ef5bf79fc2cd2e3789"},
	{"cifar", false, true, "a863c6b135d13cf03f5d9cbba7ccf2c867db6c0f25b67e515c11ad4390a0e007"},
	{"cifar[2:4]", false, false, "4565af33f6a5482cc4d0dba567241418f1741c6151c7fbaa77102bdd1104c31e"},
	{"one.png", false, true, "44b31c041774ce53cc59910009c29e4a5d7d316cb95a28aa8f1ebed82e33bc2c"},
	{"x.npy", false, true, "cc23710ebade78bbf69bff5d86e44d0e3b45426d46130cfb62f1a934f29777ac"},
	{"x.npy[3:5]", false, false, "e57b6bf1e87febf81746940537ab5b44d60fa2503b81504b1a150b05a4adfd9d"},
	{"x.npz", false, false, "c86b02687cf617d4f86eedb6d624e921a8bc4e2775c8826e859e5d7097bd6968"},
	{"x.npz[3:5]", false, false, "3228a5f0fbb51232da751c0f005c4e473d6f4b6ec0bc95c0a78dbb7b72c26d99"},
	{"x.jsonl", false, true, "92a90fe0f83c81bead4f66e168397fb515e9d427d55f2b3f11af16e3cb9faf19"},
	{"x.csv", false, true, "4659da6997ccb151f6be1c6bba2d35ea7404be5198bf1e489334b5d416b4b141"},
	{"x.csv[1:2]", false, false, "3ea12f6da20f7e311ee5247591d35d2474fbb92558c74b74d3241d35349f98d2"},
	{"x.npz", true, false, "51b975bb1ecfddf192a170159e29b9957bc10d3cac880be219592421a980f581"},
	{"x.npz[3:5]", true, false, "2599fc31d5bcec88f903e3e7f739f708ae7edde5868dd2a222e210bcb89c7924"},
}

// A stream is what Dataset and Features have in common.
type stream interface {
	Fingerprint(context.Context) (string, error)
	Stamp() (string, error)
	Remember(fingerprint string)
	Close() error
}

// openStream opens a SPEC, and returns what reads at most so many of its examples or blocks.
func openStream(t *testing.T, spec string, features, fingerprint bool) (s stream, pass func(most int)) {
	t.Helper()
	o := Options{Fingerprint: fingerprint}
	if features {
		f, err := OpenFeatures(spec, o)
		if err != nil {
			t.Fatal(err)
		}
		return f, func(most int) {
			for _, err := range f.Blocks(context.Background(), 2) {
				if most--; err != nil || most == 0 {
					break
				}
			}
		}
	}
	d, err := Open(t.Context(), spec, o)
	if err != nil {
		t.Fatal(err)
	}
	return d, func(most int) {
		for range d.Examples(context.Background()) {
			if most--; most == 0 {
				break
			}
		}
	}
}

// The fingerprint is the same whether it is asked for alone, after a pass, after a part of one, or
// after several at a time.
func TestFingerprintsStay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fingerprinted(t, dir)
	for _, c := range fingerprints {
		for name, before := range map[string]func(pass func(int)){
			"alone":         func(func(int)) {},
			"after a pass":  func(pass func(int)) { pass(-1) },
			"after a part":  func(pass func(int)) { pass(2) },
			"part and pass": func(pass func(int)) { pass(1); pass(-1) },
			"many passes": func(pass func(int)) {
				var wg sync.WaitGroup
				for range 4 {
					wg.Go(func() { pass(-1) })
				}
				wg.Wait()
			},
		} {
			s, pass := openStream(t, filepath.Join(dir, c.spec), c.features, true)
			before(pass)
			for range 2 {
				if got, err := s.Fingerprint(t.Context()); err != nil || got != c.want {
					t.Errorf("%s, %s: %s, %v; want %s", c.spec, name, got, err, c.want)
				}
			}
			s.Close()
		}
	}
}

// What is read of the examples of other shards does not count. A shard of fewer blocks than there are
// shards may have none itself.
func TestFingerprintIsOfTheShardAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fingerprinted(t, dir)
	write(t, dir, "folder/table.csv", []byte("image,label\na/1.png,0\nb/4.jpg,1\n"))
	for _, spec := range []string{"images-idx3", "folder", "x.tar", "cifar", "x.npy", "x.jsonl", "folder/table.csv"} {
		var sums [2]string
		for i, read := range []int{0, 2} {
			o := Options{Fingerprint: true, Shard: rows.Shard{Index: 1, Count: 2}}
			d, err := Open(t.Context(), filepath.Join(dir, spec), o)
			if err != nil {
				t.Fatal(err)
			}
			if from, to := d.Range(); from != to {
				t.Fatalf("%s: the shard has examples %d to %d, want none", spec, from, to)
			}
			for range d.Between(t.Context(), 0, read) {
			}
			if sums[i], err = d.Fingerprint(t.Context()); err != nil {
				t.Errorf("%s: %v", spec, err)
			}
			d.Close()
		}
		if sums[0] != sums[1] {
			t.Errorf("%s: %s, and %s after two examples of another shard", spec, sums[0], sums[1])
		}
	}
}

// After a pass nothing is read: the files may be gone.
func TestFingerprintIsTakenWhileExamplesAreRead(t *testing.T) {
	t.Parallel()
	for _, c := range fingerprints {
		if !c.once {
			continue
		}
		dir := t.TempDir()
		fingerprinted(t, dir)
		s, pass := openStream(t, filepath.Join(dir, c.spec), c.features, true)
		pass(-1)
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			return os.Truncate(path, 0)
		})
		if err != nil {
			t.Fatal(err)
		}
		if got, err := s.Fingerprint(t.Context()); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.spec, got, err, c.want)
		}
		s.Close()
	}
}

// A fingerprint is complete or an error.
func TestFingerprintCanBeCancelled(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	fingerprinted(t, dir)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	cancelled := 0
	for _, c := range fingerprints {
		s, pass := openStream(t, filepath.Join(dir, c.spec), c.features, true)
		pass(1)
		if _, err := s.Fingerprint(over); err != nil { // small files may have been read whole
			cancelled++
		}
		if got, err := s.Fingerprint(t.Context()); err != nil || got != c.want {
			t.Errorf("%s: %s, %v; want %s", c.spec, got, err, c.want)
		}
		s.Close()
	}
	if cancelled < 5 {
		t.Errorf("only %d were cancelled", cancelled)
	}
}

// The stamp is the same while the files are, changes with the size or time of any, and is empty for a file that has
// just changed.
func TestStamp(t *testing.T) {
	t.Parallel()
	long := time.Now().Add(-time.Hour)
	age := func(dir string, at time.Time, only string) {
		t.Helper()
		err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() || only != "" && filepath.Base(path) != only {
				return err
			}
			return os.Chtimes(path, at, at)
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	stamp := func(spec string, features bool) string {
		t.Helper()
		s, _ := openStream(t, spec, features, false)
		defer s.Close()
		got, err := s.Stamp()
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	dir := t.TempDir()
	fingerprinted(t, dir)
	seen := map[string]string{}
	for _, c := range fingerprints {
		spec := filepath.Join(dir, c.spec)
		if got := stamp(spec, c.features); got != "" {
			t.Errorf("%s has just been written, and is stamped %s", c.spec, got)
		}
		age(dir, long, "")
		first := stamp(spec, c.features)
		if again := stamp(spec, c.features); first == "" || first != again {
			t.Errorf("%s is stamped %q, then %q", c.spec, first, again)
		}
		if other := seen[first]; other != "" {
			t.Errorf("%s and %s have the same stamp", c.spec, other)
		}
		seen[first] = c.spec
		age(dir, long.Add(time.Nanosecond), "")
		if later := stamp(spec, c.features); later == first {
			t.Errorf("%s: other times, the same stamp", c.spec)
		}
		age(dir, time.Now(), "")
	}
	age(dir, long, "")
	before := stamp(filepath.Join(dir, "folder"), false)
	age(dir, long.Add(time.Minute), "3.jpg")
	if stamp(filepath.Join(dir, "folder"), false) == before {
		t.Error("one file of a folder has changed, the stamp has not")
	}
	s, _ := openStream(t, filepath.Join(dir, "folder"), false, false)
	s.Remember("abc")
	if got, err := s.Fingerprint(t.Context()); got != "abc" || err != nil {
		t.Errorf("remembered abc is %s, %v", got, err)
	}
}
