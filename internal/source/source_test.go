package source_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/internal/source"
	. "github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/mfgs/mfgs/wrap/bundle"
)

func TestMain(m *testing.M) { Main(m, nil) }

const d, k = 6, 4 // features and logits of the network and of the files of features

// network returns a network for grey images of 8×8 pixels, which runs 5 at a time.
func network(t testing.TB) *featurize.Network { return networkOf(t, "grey") }

func networkOf(t testing.TB, name string) *featurize.Network {
	t.Helper()
	m, err := onnx.Open("../../featurize/testdata/" + name + ".onnx")
	if err != nil {
		t.Fatal(err)
	}
	h, err := head.Find(m, head.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w, err := featurize.New(featurize.Config{Model: m, Head: h, Batch: 5})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// open opens a set that has to exist, with labels.
func open(t testing.TB, o source.Opener, name, spec string) *source.Set {
	t.Helper()
	if o.Notes == nil {
		o.Notes = &source.Notes{}
	}
	s, err := o.Open(t.Context(), name, spec, k, true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// precomputed writes n examples of features and logits, with labels. Feature 0 of example i is i.
func precomputed(t testing.TB, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"features": [%d, 1, 2, 3, 4, 5], "logits": [0, %d, 2, 3], "label": %d}`+"\n", i, i, i%k)
	}
	return Write(t, t.TempDir(), "f.jsonl", []byte(b.String()))
}

// photos writes a folder of n images in each of the classes 0 and 1, and a broken image in place of each one of broken,
// counted over both.
func photos(t testing.TB, n int, broken ...int) string {
	t.Helper()
	dir := t.TempDir()
	for i := range 2 * n {
		image := Photo(t, i, 8)
		if slices.Contains(broken, i) {
			image = image[:len(image)/2]
		}
		Write(t, dir, fmt.Sprintf("%d/%03d.png", i/n, i), image)
	}
	return dir
}

// arrays are n JSON lines for the network which hold arrays, not images. Pixel 0 of example i is i.
func arrays(n int) string {
	var b strings.Builder
	for i := range n {
		row := "[0, 0, 0, 0, 0, 0, 0, 0]"
		first := fmt.Sprintf("[%d, 0, 0, 0, 0, 0, 0, 0]", i)
		fmt.Fprintf(&b, `{"image": [[%s%s]], "label": %d}`+"\n", first, strings.Repeat(", "+row, 7), i%k)
	}
	return b.String()
}

func identify(t testing.TB, sets ...*source.Set) {
	t.Helper()
	for _, s := range sets {
		if err := s.Identify(t.Context()); err != nil {
			t.Fatal(err)
		}
		if s.Fingerprint == "" {
			t.Fatalf("%s has no fingerprint", s.Spec)
		}
	}
}

func collect(t testing.TB, s *source.Set) *rows.Batch {
	t.Helper()
	b, err := s.Collect(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestErrorsOfOpenNameTheSet(t *testing.T) {
	t.Parallel()
	w := network(t)
	features, images := precomputed(t, 3), photos(t, 2)
	for _, test := range []struct {
		network *featurize.Network
		spec    string
		says    string
	}{
		{nil, "none.jsonl", "none.jsonl"},
		{nil, features + "[0:4]", "4"},
		{nil, "-", "give a file"},
		{w, "none", "none"},
		{w, images + "[0:5]", "5"},
		{w, images + "[2:2]", "holds no examples"},
		{w, Write(t, t.TempDir(), "images-idx3-ubyte", IDX(nil, 0, 8, 8)), "holds no examples"},
	} {
		o := source.Opener{Network: test.network, Notes: &source.Notes{}}
		_, err := o.Open(t.Context(), "val", test.spec, k, true)
		Says(t, err, "val: ", test.says)
	}
}

func TestASetHasTheSizesOfItsFile(t *testing.T) {
	t.Parallel()
	w := network(t)
	features, images := precomputed(t, 1300), photos(t, 20)
	second := rows.Shard{Index: 2, Count: 3}
	for name, test := range map[string]struct {
		opener              source.Opener
		spec                string
		size, length, reads int
		from, to            int // the slice
		shardFrom, shardTo  int
	}{
		"all features":  {source.Opener{}, features, 1300, 1300, 1300, 0, 1300, 0, 1300},
		"a slice":       {source.Opener{}, features + "[5:25]", 20, 20, 20, 5, 25, 5, 25},
		"limited":       {source.Opener{Limit: 100}, features, 1300, 100, 100, 0, 1300, 0, 1300},
		"a high limit":  {source.Opener{Limit: 5000}, features, 1300, 1300, 1300, 0, 1300, 0, 1300},
		"a shard":       {source.Opener{Shard: second}, features, 1300, 1300, 512, 0, 1300, 512, 1024},
		"images":        {source.Opener{Network: w}, images + "[1:]", 39, 39, 39, 1, 40, 1, 40},
		"limited image": {source.Opener{Network: w, Limit: 4}, images, 40, 4, 4, 0, 40, 0, 40},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, test.opener, "train", test.spec)
			if s.Name != "train" || s.Spec != test.spec || s.Path() != strings.Split(test.spec, "[")[0] || !s.Labelled() {
				t.Errorf("name %q, SPEC %q, path %q, labelled %v", s.Name, s.Spec, s.Path(), s.Labelled())
			}
			if s.Size() != test.size || s.Len() != test.length || s.Wanted() != test.reads {
				t.Errorf("Size %d, Len %d and Wanted %d, want %d, %d and %d",
					s.Size(), s.Len(), s.Wanted(), test.size, test.length, test.reads)
			}
			if from, to := s.Slice(); from != test.from || to != test.to {
				t.Errorf("slice [%d:%d], want [%d:%d]", from, to, test.from, test.to)
			}
			if from, to := s.Range(); from != test.shardFrom || to != test.shardTo {
				t.Errorf("range [%d:%d], want [%d:%d]", from, to, test.shardFrom, test.shardTo)
			}
			if gotD, gotK := s.Widths(); gotD != d || gotK != k {
				t.Errorf("%d features and %d logits, want %d and %d", gotD, gotK, d, k)
			}
			got := collect(t, s)
			n := test.reads
			if got.N != n || len(got.Features) != n*d || len(got.Logits) != n*k || len(got.Labels) != n {
				t.Fatalf("%d examples with %d features and %d logits", got.N, len(got.Features), len(got.Logits))
			}
			if first, last := got.Positions[0], got.Positions[got.N-1]; first < test.shardFrom || last >= test.shardTo {
				t.Errorf("examples from %d to %d", first, last)
			}
		})
	}
}

func TestOnlyOneSetIsStandardInput(t *testing.T) {
	t.Parallel()
	for _, specs := range []map[string]string{{}, {"train": "a", "val": "b"}, {"train": "a", "val": "-"}} {
		if err := source.OneStream(specs); err != nil {
			t.Errorf("%v: %v", specs, err)
		}
	}
	Says(t, source.OneStream(map[string]string{"val": "-", "train": "jsonl:-", "ood": "c"}), "train and val: standard input")
}

func TestOnlyLabelsForEachLogitAreTargets(t *testing.T) {
	t.Parallel()
	for content, want := range map[string]bool{
		`{"features": [1], "logits": [1, 2], "label": [0, 1]}`: true,
		`{"features": [1], "logits": [1, 2], "label": 1}`:      false,
		`{"features": [1], "logits": [1, 2]}`:                  false,
		`{"features": [1], "logits": [1], "label": [1]}`:       false,
		`no JSON`: false,
	} {
		if got := source.HasTargets(Write(t, t.TempDir(), "f.jsonl", []byte(content+"\n"))); got != want {
			t.Errorf("%s has targets: %v, want %v", content, got, want)
		}
	}
}

func TestFirstReadsWholeBatchesWhateverTheShard(t *testing.T) {
	t.Parallel()
	w := network(t)
	spec := photos(t, 30, 4) + "[2:]" // broken images are not known before they are decoded
	for _, shard := range []rows.Shard{{}, {Index: 1, Count: 2}} {
		s, at := open(t, source.Opener{Network: w, Shard: shard}, "val", spec), 2
		for example, err := range s.First(t.Context()) {
			if err != nil || example.Index != at {
				t.Errorf("shard %v: example %d at %d: %v", shard, example.Index, at, err)
			}
			at++
		}
		if from, to := s.Range(); (from == to) != (shard.Count > 0) {
			t.Errorf("shard %v has the range [%d:%d]", shard, from, to)
		}
		if at-2 != 35 { // 32, rounded up to batches of 5
			t.Errorf("shard %v: %d examples, want 35", shard, at-2)
		}
	}
}

func TestFirstStopsAtTheRecordThatIsTooMany(t *testing.T) {
	t.Parallel()
	lines := strings.SplitAfter(arrays(12), "\n")
	lines[1], lines[3], lines[5] = "{\n", "{\n", "{\n"
	spec := Write(t, t.TempDir(), "a.jsonl", []byte(strings.Join(lines, "")))
	for maxBad, want := range []int{2, 4, 6, 12} {
		s, n := open(t, source.Opener{Network: network(t), MaxBad: maxBad}, "val", spec), 0
		for range s.First(t.Context()) {
			n++
		}
		if n != want {
			t.Errorf("%d bad records are allowed, and %d records are read, want %d", maxBad, n, want)
		}
	}
}

func TestFirstReadsNoMoreThan64MiB(t *testing.T) {
	t.Parallel()
	const n, side = 40, 2048 // 4 MiB each
	spec := Write(t, t.TempDir(), "x-images-idx3-ubyte", IDX(nil, n, side, side))
	if err := os.Truncate(spec, 16+n*side*side); err != nil { // a sparse file
		t.Fatal(err)
	}
	s := open(t, source.Opener{Network: network(t)}, "val", spec)
	got := 0
	for range s.First(t.Context()) {
		got++
	}
	if got != 16 {
		t.Errorf("%d examples of 4 MiB are read, want 16", got)
	}
}

func TestFirstIsReadOnceUnlessCanceled(t *testing.T) {
	t.Parallel()
	dir := photos(t, 2)
	s := open(t, source.Opener{Network: network(t)}, "val", dir)
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	var errs []error
	for _, err := range s.First(ctx) {
		errs = append(errs, err)
	}
	if len(errs) != 1 || !errors.Is(errs[0], cause) {
		t.Errorf("errors %v, want the cause", errs)
	}
	for range 2 {
		n := 0
		for _, err := range s.First(t.Context()) {
			if err != nil {
				t.Error(err)
			}
			n++
		}
		if n != 4 {
			t.Errorf("%d examples after the cancellation, want 4", n)
		}
		if err := os.RemoveAll(dir); err != nil { // the second time they come from memory
			t.Fatal(err)
		}
	}
}

func TestPixels(t *testing.T) {
	t.Parallel()
	w := network(t)
	ready := Write(t, t.TempDir(), "a.jsonl", []byte(arrays(3)))
	for name, test := range map[string]struct {
		spec      string
		maxBad    int
		synthetic bool
		want      bool
		says      []string // of the error; none: no error
	}{
		"images":                    {spec: photos(t, 2), want: true},
		"arrays":                    {spec: ready},
		"the first image is broken": {spec: photos(t, 2, 0), maxBad: 1, want: true},
		"one broken image too many": {spec: photos(t, 2, 0), says: []string{"val: 0/000.png: ", "use MaxBad N to skip"}},
		"three where two may be": {spec: photos(t, 2, 0, 1, 2), maxBad: 2,
			says: []string{"val: 1/002.png: ", "3 unreadable records, MaxBad allows 2"}},
		"only broken images, all allowed": {spec: photos(t, 1, 0, 1), maxBad: 2},
		"synthetic images":                {spec: photos(t, 2), synthetic: true, want: true},
		"synthetic images of a broken one": {spec: photos(t, 2, 0), synthetic: true,
			says: []string{"val: 0/000.png: ", "use MaxBad N"}},
		"synthetic images of arrays": {spec: ready, synthetic: true, says: []string{"val: ", "this is not an image"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := source.Opener{Network: w, MaxBad: test.maxBad, Synthetic: test.synthetic, Notes: &source.Notes{}}
			var got bool
			s, err := o.Open(t.Context(), "val", test.spec, k, false)
			if err == nil {
				defer s.Close()
				got, err = s.Pixels(t.Context())
			}
			if test.says != nil {
				Says(t, err, test.says...)
			} else if err != nil || got != test.want {
				t.Errorf("pixels: %v, %v, want %v", got, err, test.want)
			}
		})
	}
}

func TestImagesForAModelOfTwoInputs(t *testing.T) {
	t.Parallel()
	s := open(t, source.Opener{Network: networkOf(t, "tokens")}, "val", photos(t, 1))
	_, err := s.Pixels(t.Context())
	Says(t, err, "val: 0/000.png: ", "ids")
}

func TestSyntheticImagesNeedImages(t *testing.T) {
	t.Parallel()
	w := network(t)
	ready := Write(t, t.TempDir(), "a.jsonl", []byte(arrays(3)))
	features := precomputed(t, 3)
	for name, test := range map[string]struct {
		opener source.Opener
		spec   string
		says   []string
	}{
		"images":                {source.Opener{Network: w}, photos(t, 2), nil},
		"arrays":                {source.Opener{Network: w}, ready, []string{"ood: " + ready + ": ", "images, and", "this is not an image"}},
		"a broken image":        {source.Opener{Network: w}, photos(t, 2, 0), []string{"ood: 0/000.png: ", "use MaxBad N"}},
		"precomputed features ": {source.Opener{}, features, []string{"ood: " + features + ": ", "this dataset has precomputed features"}},
	} {
		test.opener.Synthetic = true
		err := open(t, test.opener, "ood", test.spec).CheckSynthetic(t.Context())
		if test.says == nil {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		Says(t, err, test.says...)
		if strings.Count(err.Error(), "ood: ") != 1 {
			t.Errorf("%s: %v names the set twice", name, err)
		}
	}
}

func TestSyntheticImagesAreOtherData(t *testing.T) {
	t.Parallel()
	w, spec := network(t), photos(t, 2)
	plain := open(t, source.Opener{Network: w}, "val", spec)
	synthetic := open(t, source.Opener{Network: w, Synthetic: true}, "ood", spec)
	again := open(t, source.Opener{Network: w, Synthetic: true}, "ood", spec)
	other := open(t, source.Opener{Network: w, Synthetic: true}, "ood", photos(t, 3))
	identify(t, plain, synthetic, again, other)
	if data, err := plain.Data.Fingerprint(t.Context()); err != nil || plain.Fingerprint != data {
		t.Errorf("fingerprint %s, %v of images, want that of the dataset, %s", plain.Fingerprint, err, data)
	}
	if synthetic.Fingerprint == plain.Fingerprint || synthetic.Fingerprint != again.Fingerprint ||
		synthetic.Fingerprint == other.Fingerprint {
		t.Errorf("fingerprints %s and %s of synthetic images, %s of others and %s of their images",
			synthetic.Fingerprint, again.Fingerprint, other.Fingerprint, plain.Fingerprint)
	}
	if a, b := collect(t, plain), collect(t, synthetic); slices.Equal(a.Features, b.Features) {
		t.Error("synthetic images have the features of the images")
	}
	fetch := func(s *source.Set) []uint8 {
		t.Helper()
		got, err := s.Fetch(t.Context(), []int{1})
		if err == nil {
			err = got[1].Decode()
		}
		if err != nil {
			t.Fatal(err)
		}
		return got[1].Inputs[0].Data.([]uint8)
	}
	if slices.Equal(fetch(plain), fetch(synthetic)) {
		t.Error("the image is fetched, not the synthetic one")
	}
}

func TestFeaturesFitOneHead(t *testing.T) {
	t.Parallel()
	spec := precomputed(t, 2)
	s := open(t, source.Opener{}, "val", spec)
	if err := s.Fits(layer.Head{Features: d, Logits: k}, "the bundle has"); err != nil {
		t.Error(err)
	}
	for _, other := range []layer.Head{{Features: d + 1, Logits: k}, {Features: d, Logits: k + 1}} {
		Says(t, s.Fits(other, "the bundle has"), "val: "+spec+" has 6 features and 4 logits, the bundle has ",
			fmt.Sprintf("has %d and %d", other.Features, other.Logits))
	}
	images := open(t, source.Opener{Network: network(t)}, "val", photos(t, 1))
	if err := images.Fits(layer.Head{Features: 1, Logits: 2}, "the bundle has"); err != nil {
		t.Errorf("a dataset: %v", err)
	}
}

func TestAFingerprintIsComputedOnce(t *testing.T) {
	t.Parallel()
	spec := precomputed(t, 3)
	s := open(t, source.Opener{}, "val", spec)
	identify(t, s)
	first := s.Fingerprint
	s.Fingerprint = "known"
	identify(t, s)
	if s.Fingerprint != "known" {
		t.Error("a known fingerprint was computed again")
	}
	s.Fingerprint = ""
	identify(t, s)
	if other := open(t, source.Opener{}, "train", spec); s.Fingerprint != first {
		t.Error("the fingerprint is another one the second time")
	} else if identify(t, other); other.Fingerprint != first {
		t.Error("the fingerprint depends on the set's name")
	}
	s.Fingerprint = ""
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := s.Identify(ctx)
	Says(t, err, "val: ")
	if !errors.Is(err, context.Canceled) || s.Fingerprint != "" {
		t.Errorf("canceled: %v, fingerprint %q", err, s.Fingerprint)
	}
}

func TestAStampIsOfTheFile(t *testing.T) {
	t.Parallel()
	spec := precomputed(t, 3)
	long := int64(1e9) // ago
	if err := os.Chtimes(spec, time.Unix(long, 0), time.Unix(long, 0)); err != nil {
		t.Fatal(err)
	}
	stamp := func() string {
		t.Helper()
		got, err := open(t, source.Opener{}, "val", spec).Stamp()
		if err != nil || got == "" {
			t.Fatalf("stamp %q, %v", got, err)
		}
		return got
	}
	first := stamp()
	if stamp() != first {
		t.Error("the stamp of the same file is another one")
	}
	if err := os.Chtimes(spec, time.Unix(long+5, 0), time.Unix(long+5, 0)); err != nil {
		t.Fatal(err)
	}
	if stamp() == first {
		t.Error("the stamp of a changed file is the same")
	}
	images := photos(t, 1)
	s := open(t, source.Opener{Network: network(t)}, "val", images)
	if err := os.Remove(filepath.Join(images, "0/000.png")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Stamp()
	Says(t, err, "val: ", "changed while in use")
}

func TestRecordedDataAreRecognised(t *testing.T) {
	t.Parallel()
	n := 1300 // three blocks
	spec, other := precomputed(t, n), precomputed(t, n-1)
	opener := source.Opener{Notes: &source.Notes{}}
	set := func(spec string) *source.Set {
		s := open(t, opener, "train", spec)
		identify(t, s)
		return s
	}
	whole := &bundle.Dataset{Fingerprint: set(spec).Fingerprint}
	inShards := &bundle.Dataset{}
	for i := 1; i <= 2; i++ {
		shard := rows.Shard{Index: i, Count: 2}
		s := open(t, source.Opener{Shard: shard}, "train", spec)
		identify(t, s)
		inShards.Parts = append(inShards.Parts, bundle.DatasetPart{Shard: shard, Fingerprint: s.Fingerprint})
	}
	inShards.Fingerprint = bundle.FingerprintOf(inShards.Parts)
	for name, test := range map[string]struct {
		spec     string
		recorded *bundle.Dataset
		want     bool
	}{
		"the same file":       {spec, whole, true},
		"another file":        {other, whole, false},
		"the same, in shards": {spec, inShards, true},
		"another, in shards":  {other, inShards, false},
	} {
		s := set(test.spec)
		own := s.Fingerprint
		got, err := opener.IsRecorded(t.Context(), s, k, test.recorded)
		if err != nil || got != test.want {
			t.Errorf("%s: %v, %v, want %v", name, got, err, test.want)
		}
		want := own
		if test.want {
			want = test.recorded.Fingerprint
		}
		if s.Fingerprint != want {
			t.Errorf("%s: the set's fingerprint is %s, want %s", name, s.Fingerprint, want)
		}
	}
	images := photos(t, 2)
	Write(t, images, "a.txt", []byte("a"))
	notes := &source.Notes{}
	again := source.Opener{Network: network(t), Notes: notes}
	pictures := open(t, again, "val", images)
	identify(t, pictures)
	only := bundle.DatasetPart{Shard: rows.Shard{Index: 1, Count: 1}, Fingerprint: pictures.Fingerprint}
	one := &bundle.Dataset{Parts: []bundle.DatasetPart{only}}
	if is, err := again.IsRecorded(t.Context(), pictures, k, one); !is || err != nil || len(notes.Ignored) != 1 {
		t.Errorf("recorded: %v, %v; ignored files are noted %d times, want once", is, err, len(notes.Ignored))
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := opener.IsRecorded(ctx, set(spec), k, inShards); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v of a canceled context", err)
	}
	s := set(spec)
	if _, err := opener.IsRecorded(t.Context(), s, k+1, inShards); err == nil {
		t.Error("no error for a file of too few logits")
	}
}

func TestOverlappingSets(t *testing.T) {
	t.Parallel()
	a := precomputed(t, 40)
	copied, link := Write(t, t.TempDir(), "copy.jsonl", Read(t, a)), filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Link(a, link); err != nil {
		t.Fatal(err)
	}
	other := precomputed(t, 41)
	for _, test := range []struct{ one, two, shares string }{
		{a, a, "are the same data"},
		{a, copied, "are the same data"},
		{a, link, "are the same data"},
		{a + "[:20]", a + "[20:]", ""},
		{a + "[20:]", a + "[:20]", ""},
		{a + "[:20]", a + "[19:]", "share " + a + "[19:20]"},
		{a + "[10:]", a + "[:15]", "share " + a + "[10:15]"},
		{a + "[10:20]", a, "share " + a + "[10:20]"},
		{a + "[:20]", link + "[10:]", "share " + a + "[10:20]"},
		{a + "[:20]", copied + "[10:]", ""}, // not known
		{a + "[:20]", other, ""},
	} {
		one, two := open(t, source.Opener{}, "train", test.one), open(t, source.Opener{}, "val", test.two)
		identify(t, one, two)
		if got := one.Shares(two); got != test.shares {
			t.Errorf("%s and %s: %q, want %q", test.one, test.two, got, test.shares)
		}
	}
	first := source.Opener{Shard: rows.Shard{Index: 1, Count: 2}} // of a file with one block of examples
	one, two := open(t, first, "train", a), open(t, first, "val", copied)
	identify(t, one, two)
	if got := one.Shares(two); got != "" || one.Fingerprint != two.Fingerprint {
		t.Errorf("two empty shards: %q", got)
	}
	one, two = open(t, source.Opener{}, "train", a+"[:20]"), open(t, source.Opener{}, "val", copied+"[:30]")
	for _, gone := range []string{copied, a} {
		if err := os.Remove(gone); err != nil {
			t.Fatal(err)
		}
		if got := one.Overlap(two); got != "" {
			t.Errorf("a file that is gone: %q", got)
		}
	}
}

func TestSkippedFilesAndRecordsAreNoted(t *testing.T) {
	t.Parallel()
	w, spec := network(t), photos(t, 5, 3, 8)
	Write(t, spec, "0/a.txt", []byte("a"))
	Write(t, spec, "1/b.txt", []byte("b"))
	ignored := []string{"val: 2 files skipped: not PNG or JPEG, such as 0/a.txt"}
	for _, synthetic := range []bool{false, true} {
		steps := []string{}
		notes := &source.Notes{Progress: func(stage, unit string, done, total int) {
			steps = append(steps, fmt.Sprint(stage, " ", unit, " ", total))
		}}
		s := open(t, source.Opener{Network: w, MaxBad: 2, Synthetic: synthetic, Notes: notes}, "val", spec)
		want := ignored
		if synthetic { // the images' own set has reported them
			want = nil
		}
		if !reflect.DeepEqual(s.IgnoredBy, ignored) || !reflect.DeepEqual(notes.Ignored, want) || s.Ignored() != 2 {
			t.Errorf("synthetic %v: %d files ignored, %q, notes %q, want %q", synthetic, s.Ignored(), s.IgnoredBy, notes.Ignored, want)
		}
		if got := collect(t, s); !slices.Equal(got.Positions, []int{0, 1, 2, 4, 5, 6, 7, 9}) {
			t.Errorf("examples %v are read", got.Positions)
		}
		if len(notes.Bad) != 2 || !strings.HasPrefix(notes.Bad[0], "val: 0/003.png: ") || !strings.HasPrefix(notes.Bad[1], "val: 1/008.png: ") {
			t.Errorf("bad records %q", notes.Bad)
		}
		if len(steps) == 0 || slices.ContainsFunc(steps, func(s string) bool { return s != "val examples 10" }) {
			t.Errorf("progress %q", steps)
		}
	}
	s := open(t, source.Opener{Network: w, MaxBad: 1}, "val", spec)
	_, err := s.Collect(t.Context())
	Says(t, err, "val: 1/008.png: ", "2 unreadable records, MaxBad allows 1")

	counted := open(t, source.Opener{Network: w, MaxBad: 3}, "val", spec)
	counted.Config.Stats = &rows.Stats{Examples: 100, Bad: []rows.Bad{{Position: 0, Message: "of an earlier pass"}}}
	collect(t, counted)
	if c := counted.Config.Stats; c.Examples != 108 || len(c.Bad) != 3 {
		t.Errorf("%d examples and %d bad records are counted, want 108 and 3", c.Examples, len(c.Bad))
	}
	if n := open(t, source.Opener{}, "val", precomputed(t, 1)).Ignored(); n != 0 {
		t.Errorf("%d files ignored beside a file of features", n)
	}
}

func TestResultsAreThoseOfTheNetwork(t *testing.T) {
	t.Parallel()
	w, spec := network(t), photos(t, 5, 3)
	notes := &source.Notes{}
	s := open(t, source.Opener{Network: w, MaxBad: 1, Notes: notes}, "val", spec)
	want := collect(t, s)
	var got []float32
	for r, err := range s.Results(t.Context()) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Columns[0]...)
	}
	if !slices.Equal(got, want.Features) || len(notes.Bad) != 2 { // one of each pass
		t.Errorf("features %v, want %v; bad records %q", got, want.Features, notes.Bad)
	}
	for range s.Results(t.Context()) { // both passes may end early
		break
	}
	for range s.Batches(t.Context()) {
		break
	}
	strict, errs := open(t, source.Opener{Network: w}, "val", spec), 0
	for _, err := range strict.Results(t.Context()) {
		if err != nil {
			errs++
			Says(t, err, "val: 0/003.png: ", "use MaxBad N")
		}
	}
	if errs != 1 {
		t.Errorf("%d errors, want one, at the end", errs)
	}
}

func TestNumbersMustBeFinite(t *testing.T) {
	t.Parallel()
	nan, inf := float32(math.NaN()), float32(math.Inf(-1))
	for name, test := range map[string]struct {
		b    *rows.Batch
		says string
	}{
		"finite":        {&rows.Batch{N: 2, Features: []float32{1, 2, 3, 4}, Logits: []float32{1, 2}}, ""},
		"empty":         {&rows.Batch{}, ""},
		"a NaN feature": {&rows.Batch{N: 2, Features: []float32{1, 2, nan, 4}, Logits: []float32{1, 2}, Names: []string{"a", "b"}}, "b: feature 0 is NaN"},
		"an infinite logit": {&rows.Batch{N: 2, Features: []float32{1, 2}, Logits: []float32{1, inf, 3, 4}, Names: []string{"a", "b"}},
			"a: logit 1 is -Inf"},
	} {
		err := source.CheckFinite(test.b)
		if test.says == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		Says(t, err, test.says, "want a finite number")
	}

	spec := Write(t, t.TempDir(), "f.jsonl", []byte(`{"features": [1], "logits": [1, 2]}`+"\n"+`{"features": [NaN], "logits": [1, 2]}`+"\n"))
	o := source.Opener{Notes: &source.Notes{}}
	s, err := o.Open(t.Context(), "train", spec, 2, false)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	_, err = s.Collect(t.Context())
	Says(t, err, "train: f.jsonl[1]: feature 0 is NaN")
	if strings.Count(err.Error(), "train: ") != 1 {
		t.Errorf("%v names the set twice", err)
	}
}

func TestFeaturesAreKept(t *testing.T) {
	t.Parallel()
	w, spec, dir := network(t), photos(t, 3), t.TempDir()
	o := source.Opener{Network: w, Cache: dir}
	want := collect(t, open(t, o, "val", spec))
	if kept, _ := filepath.Glob(filepath.Join(dir, "*.rows")); len(kept) != 1 {
		t.Errorf("%q is kept", kept)
	}
	if got := collect(t, open(t, o, "val", spec)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFetchReadsExamplesAgain(t *testing.T) {
	t.Parallel()
	w := network(t)
	s := open(t, source.Opener{Network: w}, "val", photos(t, 3))
	got, err := s.Fetch(t.Context(), []int{5, 0, 3})
	if err != nil || len(got) != 3 || got[0].Name != "0/000.png" || got[3].Name != "1/003.png" || got[5].Name != "1/005.png" {
		t.Errorf("fetched %v, %v", got, err)
	}
	cause := errors.New("enough")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(cause)
	if _, err := s.Fetch(ctx, []int{1}); !errors.Is(err, cause) {
		t.Errorf("error %v, want the cause", err)
	}

	lines := strings.SplitAfter(arrays(3), "\n")
	lines[1] = "{\n"
	s = open(t, source.Opener{Network: w}, "val", Write(t, t.TempDir(), "a.jsonl", []byte(strings.Join(lines, ""))))
	if got, err := s.Fetch(t.Context(), []int{1, 2}); err != nil || len(got) != 1 || got[2] == nil {
		t.Errorf("fetched %v, %v beside a bad record", got, err)
	}
	s = open(t, source.Opener{}, "val", precomputed(t, 2))
	if got, err := s.Fetch(t.Context(), []int{0}); err != nil || len(got) != 0 {
		t.Errorf("fetched %v, %v of precomputed features", got, err)
	}
}

func TestLabelsThatCannotBeUsedAreNotKept(t *testing.T) {
	t.Parallel()
	spec := Write(t, t.TempDir(), "f.jsonl", []byte(`{"features": [1], "logits": [1, 2], "label": [0, 1]}`+"\n"))
	w := network(t)
	lines := strings.Replace(arrays(1), `"label": 0`, `"label": [0, 1, 0, 1]`, 1)
	images := Write(t, t.TempDir(), "a.jsonl", []byte(lines))
	for want, set := range map[string]*source.Set{
		"[0 1]":     open2(t, source.Opener{MultiLabel: true}, spec, true),
		"[0 1 0 1]": open2(t, source.Opener{Network: w, MultiLabel: true}, images, true),
	} {
		if got := collect(t, set); got.Labels != nil || fmt.Sprint(got.Targets) != want {
			t.Errorf("labels %v and targets %v of a multi-label head, want %s", got.Labels, got.Targets, want)
		}
	}
	if got := collect(t, open2(t, source.Opener{Network: w}, photos(t, 1), false)); got.Labels != nil {
		t.Errorf("labels %v of images that are opened without", got.Labels)
	}
	labelled := precomputed(t, 3)
	for want, s := range map[string]*source.Set{
		"[0 1 2]": open(t, source.Opener{}, "val", labelled), "[]": open2(t, source.Opener{}, labelled, false),
	} {
		if s.Labelled() != (want != "[]") {
			t.Errorf("labelled %v, want labels %s", s.Labelled(), want)
		}
		if got := collect(t, s); fmt.Sprint(got.Labels) != want || got.Names != nil {
			t.Errorf("labels %v and names %q, want labels %s", got.Labels, got.Names, want)
		}
	}
}

// open2 opens a set for two classes or as many as there are.
func open2(t testing.TB, o source.Opener, spec string, labelled bool) *source.Set {
	t.Helper()
	o.Notes = &source.Notes{}
	s, err := o.Open(t.Context(), "val", spec, 0, labelled)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestReserveMakesRoomForAllExamples(t *testing.T) {
	t.Parallel()
	const before = 7 // examples that are there already
	for name, o := range map[string]source.Opener{"all": {}, "limited": {Limit: 100}} {
		s := open(t, o, "val", precomputed(t, 1000))
		out := &rows.Batch{N: before, Features: make([]float32, before*d), Logits: make([]float32, before*k)}
		s.Reserve(out)
		n := before + s.Wanted()
		if len(out.Features) != before*d || len(out.Logits) != before*k {
			t.Errorf("%s: %d features and %d logits, there were %d and %d", name, len(out.Features), len(out.Logits), before*d, before*k)
		}
		got := collect(t, s) // of two batches or more, for which append alone would make too much room
		// slices.Grow rounds up to a size of Go's allocator, by less than an eighth.
		for of, room := range map[string][2]int{
			"features": {cap(out.Features), n * d}, "logits": {cap(out.Logits), n * k},
			"collected features": {cap(got.Features), got.N * d}, "collected logits": {cap(got.Logits), got.N * k},
		} {
			if room[0] < room[1] || room[0] > room[1]*9/8 {
				t.Errorf("%s: room for %d %s, want %d", name, room[0], of, room[1])
			}
		}
	}
}

// Files are subsampled when they are read, streams cannot be.
func TestAFileMayHaveMoreThanMaxTuning(t *testing.T) {
	t.Parallel()
	s := open(t, source.Opener{}, "val", precomputed(t, 1))
	out := &rows.Batch{}
	if err := s.Keep(out, &rows.Batch{N: source.MaxTuning + 1}); err != nil || out.N != source.MaxTuning+1 {
		t.Errorf("%d examples are kept, %v", out.N, err)
	}
}

// stdinEnv is set in the process whose standard input is a dataset: a process has only one.
const stdinEnv = "MFGS_TEST_STDIN"

// withStdin runs a test in a process with an input, and reports whether this is that process.
func withStdin(t *testing.T, input string) bool {
	t.Helper()
	if os.Getenv(stdinEnv) != "" {
		return true
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), stdinEnv+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		io.WriteString(in, input)
		in.Close()
	}()
	if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

func TestStandardInput(t *testing.T) {
	if !withStdin(t, arrays(60)) {
		return
	}
	ctx := t.Context()
	w := network(t)
	o := source.Opener{Network: w, Limit: 10, MaxBad: 2, Notes: &source.Notes{}, Cache: t.TempDir()}
	s := open(t, o, "train", "-")
	if s.Size() != -1 || s.Len() != -1 || s.Wanted() != -1 || !s.Labelled() {
		t.Errorf("Size %d, Len %d, Wanted %d, labelled %v", s.Size(), s.Len(), s.Wanted(), s.Labelled())
	}
	Says(t, s.CheckSynthetic(ctx), "train: -: ", "this dataset can be read only once")
	for range 2 { // the second time from memory
		n := 0
		for example, err := range s.First(ctx) {
			if err != nil || example.Index != n {
				t.Fatalf("example %d at %d: %v", example.Index, n, err)
			}
			n++
		}
		if n != 35 {
			t.Errorf("First reads %d examples, want 35", n)
		}
	}
	if pixels, err := s.Pixels(ctx); pixels || err != nil {
		t.Errorf("pixels %v, %v", pixels, err)
	}
	if got, err := s.Fetch(ctx, []int{1}); err != nil || len(got) != 0 {
		t.Errorf("fetched %v, %v from a stream", got, err)
	}
	if err := s.Identify(ctx); err == nil {
		t.Errorf("the fingerprint is %q before all has been read", s.Fingerprint)
	}

	got := collect(t, s) // from the beginning on, whatever the limit
	if got.N != 60 || got.Positions[0] != 0 || got.Positions[59] != 59 || len(got.Labels) != 60 {
		t.Errorf("%d examples at %v", got.N, got.Positions)
	}
	file := open(t, source.Opener{Network: w}, "train", Write(t, t.TempDir(), "a.jsonl", []byte(arrays(60))))
	if want := collect(t, file); !slices.Equal(got.Features, want.Features) || !slices.Equal(got.Labels, want.Labels) {
		t.Error("the examples differ from those of a file")
	}
	identify(t, s)
	if stamp, err := s.Stamp(); stamp != "" || err != nil {
		t.Errorf("stamp %q, %v", stamp, err)
	}
	for fingerprint, want := range map[string]bool{s.Fingerprint: true, "other": false} {
		only := bundle.DatasetPart{Shard: rows.Shard{Index: 1, Count: 1}}
		recorded := &bundle.Dataset{Fingerprint: fingerprint, Parts: []bundle.DatasetPart{only}}
		if is, err := o.IsRecorded(ctx, s, k, recorded); is != want || err != nil {
			t.Errorf("recorded as %s: %v, %v", fingerprint, is, err)
		}
	}
	if _, err := s.Collect(ctx); err == nil {
		t.Error("standard input is read twice")
	}

	out := &rows.Batch{}
	if err := s.Keep(out, &rows.Batch{N: source.MaxTuning}); err != nil {
		t.Error(err)
	}
	Says(t, s.Keep(out, &rows.Batch{N: 1}), "train: -: the stream has more than 50000 examples")
	if out.N != source.MaxTuning {
		t.Errorf("%d examples are kept", out.N)
	}
	room := &rows.Batch{N: 1, Features: make([]float32, d), Logits: make([]float32, k)}
	if s.Reserve(room); cap(room.Features) != d || cap(room.Logits) != k {
		t.Errorf("room for %d features and %d logits is reserved for a stream", cap(room.Features), cap(room.Logits))
	}
}
