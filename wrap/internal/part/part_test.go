package part

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/onnx/tensor"
	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/folder"
)

var head = layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.Softmax}

const fingerprint = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

// add adds every so many examples of a shard, and returns how many these are.
func (p *Part) add(t testing.TB, s Shard, every int) (n int) {
	t.Helper()
	examples := func(yield func(*rows.Batch, error) bool) {
		for at := s.From; at < s.To && yield(row(at), nil); at += every {
		}
	}
	for b := range rows.InBlocks(examples) {
		p.Counts.Add(head, b)
		p.Sample.Add(b)
		if err := p.Sums.AddBlock(b); err != nil {
			t.Fatal(err)
		}
		n += b.N
	}
	return n
}

// example makes a part with shards of the training data, 5 blocks in 3, and all of the validation data.
func example(t testing.TB, shards ...int) *Part {
	t.Helper()
	p := &Part{Manifest: Manifest{
		Tool: "test",
		Recipe: Recipe{
			Head: bundle.Head{Head: head},
			Settings: bundle.Settings{
				Covariance: calibrate.Hessian, Structure: calibrate.Full, Lambda0: 1, MaxBad: 3,
			},
		},
		Sets: []Set{{Role: bundle.Train, Spec: "x.npz", From: 10, Count: 2400}},
	}}
	var err error
	if p.Sums, err = calibrate.NewSums(calibrate.CurvatureConfig{Head: head, Structure: calibrate.Full}); err != nil {
		t.Fatal(err)
	}
	p.Counts, p.Sample = NewCounts(head), &rows.Sample{}
	set := &p.Sets[0]
	for _, i := range shards {
		s := Shard{Shard: rows.Shard{Index: i, Count: 3}, Fingerprint: fingerprint}
		s.From, s.To = s.Shard.Range(set.From, set.From+set.Count)
		s.Examples = p.add(t, s, 3)
		set.Shards = append(set.Shards, s)
	}
	if slices.Contains(shards, 1) {
		set.Shards[0].Bad = []string{"x.npz[11]: a bad record"}
		p.Val = &rows.Batch{}
		for at := range 5 {
			p.Val.Append(row(at))
		}
		p.Sets = append(p.Sets, Set{Role: bundle.Val, Spec: "y.npz", Count: 7, Shards: []Shard{{
			Shard: rows.Shard{Index: 1, Count: 1}, To: 7, Examples: 5, Fingerprint: fingerprint,
		}}})
	}
	return p
}

// A part that does not say whether image files are turned was made when none were.
func TestAPartWithoutAnEXIFFieldTakesImagesAsStored(t *testing.T) {
	t.Parallel()
	for written, want := range map[bool]string{true: "true", false: "false"} {
		p := probed(example(t, 1, 2, 3))
		p.Format = Version
		p.Recipe.Preprocess = &bundle.Preprocessing{Source: bundle.Given, Spec: &preprocess.Spec{Exif: &written}}
		document, err := p.document()
		if err != nil {
			t.Fatal(err)
		}
		says := "exif: " + want
		if !bytes.Contains(document, []byte(says)) {
			t.Fatalf("%s\ndoes not say %s", document, says)
		}
		m, err := parse(document)
		if err != nil || *m.Recipe.Preprocess.Spec.Exif != written {
			t.Errorf("%s: %+v, %v", says, m, err)
		}
		m, err = parse(bytes.Replace(document, []byte(says), []byte("scale: 1"), 1))
		if err != nil || m.Recipe.Preprocess.Spec.Exif == nil || *m.Recipe.Preprocess.Spec.Exif {
			t.Errorf("nothing: %+v, %v", m, err)
		}
	}
}

// probed gives a part a model and, if it has validation data, a probe.
func probed(p *Part) *Part {
	p.Recipe.Model = &bundle.Model{SHA256: fingerprint, Opset: 17}
	p.Recipe.Preprocess = &bundle.Preprocessing{Source: bundle.Unknown}
	if p.Val == nil {
		return p
	}
	b := p.Val.Slice(0, 2)
	p.Probe = &bundle.Probe{
		N: 2, Inputs: []tensor.Tensor{{Name: "x", Shape: []int64{2, 1}, Data: []uint8{7, 8}}},
		Features: b.Features, Logits: b.Logits,
	}
	return p
}

// row is the example at a position.
func row(at int) *rows.Batch {
	rng := rand.New(rand.NewPCG(uint64(at), 1))
	x := func() float32 { return float32(rng.NormFloat64()) }
	return &rows.Batch{
		N: 1, Positions: []int{at}, Features: []float32{x(), x()}, Logits: []float32{x(), x(), x()},
		Labels: []int{at % 3},
	}
}

func written(t testing.TB, p *Part) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "p")
	if err := Write(dir, p, WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return dir
}

func encoded(t testing.TB, s *calibrate.Sums) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := s.Encode(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestAPartIsReadAsItWasWritten(t *testing.T) {
	t.Parallel()
	want := probed(example(t, 1, 3))
	dir := written(t, want)
	got, err := Open(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got.Recipe, want.Recipe) || !reflect.DeepEqual(got.Sets, want.Sets) ||
		!bytes.Equal(encoded(t, got.Sums), encoded(t, want.Sums)) || !reflect.DeepEqual(got.Counts, want.Counts) ||
		!reflect.DeepEqual(got.Sample.Rows(), want.Sample.Rows()) ||
		!reflect.DeepEqual(got.Val, want.Val) || got.OOD != nil || !reflect.DeepEqual(got.Probe, want.Probe) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// whole merges all shards of the example.
func whole(t testing.TB, dirs ...string) *Part {
	t.Helper()
	p, _, err := Merge(t.Context(), dirs, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestMergedPartsAreOne(t *testing.T) {
	t.Parallel()
	want := probed(example(t, 1, 2, 3))
	p := whole(t, written(t, probed(example(t, 2))), written(t, probed(example(t, 1, 3))))
	if err := p.Missing(); err != nil {
		t.Error(err)
	}
	if !reflect.DeepEqual(p.Sets, want.Sets) || !reflect.DeepEqual(p.Counts, want.Counts) ||
		!reflect.DeepEqual(p.Sample.Rows(), want.Sample.Rows()) || p.Sums.Examples() != want.Sums.Examples() ||
		!reflect.DeepEqual(p.Probe, want.Probe) {
		t.Errorf("%+v, want %+v", p, want)
	}
	missing := whole(t, written(t, example(t, 1)))
	if err := missing.Missing(); err == nil || err.Error() != "shards 2, 3 of 3 of train are missing" {
		t.Errorf("error %v", err)
	}
}

// streamed makes a part from one of three shards of a stream of validation data: with so many examples, and a probe
// of the first of them if there is to be one.
func streamed(t testing.TB, shard, examples int, probe bool) *Part {
	t.Helper()
	p := probed(example(t))
	p.Sets = []Set{{Role: bundle.Val, Spec: "-", Count: 3 << 30, Stream: true}}
	p.Sums, p.Counts, p.Sample, p.Val = nil, nil, nil, &rows.Batch{}
	s := Shard{Shard: rows.Shard{Index: shard, Count: 3}, Examples: examples, Fingerprint: fingerprint}
	s.From, s.To = s.Shard.Range(0, 3<<30)
	for i := range examples {
		p.Val.Append(row(s.From + i))
	}
	if probe {
		probed(p).Probe.Inputs[0].Data = []uint8{uint8(shard), 0}
	} else if examples > 0 {
		s.NoProbe = "too large"
	}
	p.Sets[0].Shards = []Shard{s}
	return p
}

// The probe of merged parts is that of the first shard with examples, in any order of merging.
func TestTheProbeIsOfTheFirstShardWithExamples(t *testing.T) {
	t.Parallel()
	orders := [][3]int{{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}}
	for name, test := range map[string]struct {
		shards [3]*Part
		want   uint8 // the shard whose probe it is; 0: there is none
	}{
		"the first":        {[3]*Part{streamed(t, 1, 2, true), streamed(t, 2, 3, true), streamed(t, 3, 2, true)}, 1},
		"the first empty":  {[3]*Part{streamed(t, 1, 0, false), streamed(t, 2, 3, true), streamed(t, 3, 2, true)}, 2},
		"two empty":        {[3]*Part{streamed(t, 1, 0, false), streamed(t, 2, 0, false), streamed(t, 3, 2, true)}, 3},
		"too large":        {[3]*Part{streamed(t, 1, 0, false), streamed(t, 2, 3, false), streamed(t, 3, 2, true)}, 0},
		"others too large": {[3]*Part{streamed(t, 1, 2, true), streamed(t, 2, 3, false), streamed(t, 3, 2, true)}, 1},
		"none":             {[3]*Part{streamed(t, 1, 0, false), streamed(t, 2, 0, false), streamed(t, 3, 0, false)}, 0},
	} {
		var dirs [3]string
		for i, p := range test.shards {
			dirs[i] = written(t, p)
		}
		all := written(t, whole(t, dirs[:]...))
		want := manifest(t, all)
		if p, err := Open(all, nil); err != nil || (p.Probe == nil) != (test.want == 0) ||
			p.Probe != nil && p.Probe.Inputs[0].Data.([]uint8)[0] != test.want {
			t.Errorf("%s: %v, %+v, want that of shard %d", name, err, p.Probe, test.want)
		}
		for _, o := range orders {
			flat := written(t, whole(t, dirs[o[0]], dirs[o[1]], dirs[o[2]]))
			nested := written(t, whole(t, dirs[o[0]], written(t, whole(t, dirs[o[1]], dirs[o[2]]))))
			if manifest(t, flat) != want || manifest(t, nested) != want {
				t.Errorf("%s: merged in the order %v the part is another", name, o)
			}
		}
	}
}

// manifest returns the manifest of a part, which has the hashes of all of its files.
func manifest(t testing.TB, dir string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, ManifestName))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// A probe is kept of each shard that may have the first examples, and of no other.
func TestOnlyShardsThatMayComeFirstKeepAProbe(t *testing.T) {
	t.Parallel()
	blocks := func(from, to int) *Shard { return &Shard{From: 10 + from*512, To: 10 + to*512} }
	for name, test := range map[string]struct {
		stream bool
		bad    int
		shard  *Shard
		want   bool
	}{
		"the first block":                   {false, 0, blocks(0, 1), true},
		"the second":                        {false, 511, blocks(1, 2), false},
		"the second, and the first all bad": {false, 512, blocks(1, 2), true},
		"no block":                          {false, 512, blocks(0, 0), false},
		"a stream":                          {true, 0, blocks(1, 2), true},
		"a stream without room":             {true, 0, blocks(1, 1), false},
	} {
		if got := (&Set{From: 10, Stream: test.stream}).Probed(test.shard, test.bad); got != test.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// Wherever a byte is changed, and wherever a file ends too early, is an error.
func TestDamageIsAnError(t *testing.T) {
	t.Parallel()
	dir := written(t, probed(example(t, 1, 2)))
	if err := os.WriteFile(filepath.Join(dir, "note"), nil, 0o666); err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	for _, name := range []string{ManifestName, CurvatureName, CountsName, SampleName, ValName, ProbeName} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		try := func(what string, damaged []byte) {
			t.Helper()
			if err := os.WriteFile(path, damaged, 0o666); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(dir, nil); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("%s of %s: error %v", what, name, err)
			}
		}
		for range 20 {
			at := rng.IntN(len(data))
			damaged := bytes.Clone(data)
			damaged[at] ^= 1 << rng.IntN(8)
			try(fmt.Sprintf("byte %d", at), damaged)
			try(fmt.Sprintf("the first %d bytes", at), data[:at])
		}
		try("a byte more", append(bytes.Clone(data), 0))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, nil); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("no %s: error %v", name, err)
		}
		if err := os.WriteFile(path, data, 0o666); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Open(dir, nil); err != nil {
		t.Error(err)
	}
}

// resealed edits the manifest of a part, or its files, and seals it again.
func resealed(t *testing.T, dir string, edit func(string) string) error {
	t.Helper()
	path := filepath.Join(dir, ManifestName)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	document, err := folder.Unseal(data, "")
	if err != nil {
		t.Fatal(err)
	}
	changed := edit(string(document))
	if changed == string(document) {
		t.Fatal("nothing was edited")
	}
	if err := os.WriteFile(path, folder.Seal([]byte(changed)), 0o666); err != nil {
		t.Fatal(err)
	}
	_, err = Open(dir, nil)
	if e := os.WriteFile(path, data, 0o666); e != nil {
		t.Fatal(e)
	}
	return err
}

func TestInvalidPartManifestsAreRefused(t *testing.T) {
	t.Parallel()
	dir := written(t, example(t, 1, 3))
	for _, c := range []struct{ old, new, want string }{
		{"format: 2", "format: 3", "this program reads 2"},
		{"tool: test", "tool: \"\"", "tool is missing"},
		{"tool: test", "tool: test\nextra: 1", "field extra"},
		{"tool: test", "tool: &a test", "anchors"},
		{"classes: 3", "classes: 4", CurvatureName},
		{"classes: 3", "classes: 0", "recipe"},
		{"feature_dim: ", "feature_dim: 100000", "use the kron structure"},
		{"covariance: hessian", "covariance: fisher", CurvatureName},
		{"covariance: hessian", "covariance: none", "recipe"},
		{"structure: full", "structure: kron", CurvatureName},
		{"structure: full", "structure: round", `structure "round"`},
		{"damping: auto", "damping: much", "line 16: recipe.settings.damping"},
		{"lambda0: 1", "lambda0: -1", "lambda0"},
		{"lambda0: 1", "lambda0: .nan", "lambda0"},
		{"format: 2", "format: 2\nx: .nan", "field x"},
		{"fingerprint: 0011", "logit_error: .nan\n        fingerprint: 0011", "shards[0].logit_error is NaN"},
		{"fingerprint: 0011", "proof: {difference: .inf}\n        fingerprint: 0011", "proof.difference is +Inf"},
		{"max_bad: 3", "max_bad: 3\n    limit: -1", "limit"},
		{"batch: 0", "batch: 1000000000", "batch"},
		{"batch: 0", "batch: 0\n  model: {sha256: x, opset: 1}", "recipe.model"},
		{"batch: 0", "batch: 0\n  classes: [a]", "1 names for 3 classes"},
		{"batch: 0", "batch: 0\n  gathered: true", "recipe.gathered"},
		{"max_bad: 3", "max_bad: 3\n    ood_score: luck", "recipe"},
		{"max_bad: 3", "max_bad: 3\n    decisions: {alpha: 0.1}", "complete"},
		{"role: train", "role: val", "sets[1].role"},
		{"role: train", "role: test", "sets[0].role"},
		{"from: 10\n", "from: -10\n", "from -10"},
		{"count: 2400", "count: 9000000000000000000", "count 9"},
		{"count: 2400", "count: 3000", "positions"},
		{"shard: 1/3", "shard: 4/3", "sets.shards.shard 4/3"},
		{"shard: 1/3", "shard: 2/3", "positions"},
		{"shard: 3/3", "shard: 1/3", "positions"},
		{"to: 7", "to: 6", "positions"},
		{"examples: 5", "examples: 8", "8 examples of 7"},
		{"examples: 5", "examples: 4", ValName},
		{"fingerprint: 0011", "fingerprint: xx11", "fingerprint"},
		{"name: curvature.safetensors", "name: ../x", "files[0]"},
		{"name: counts.safetensors", "name: curvature.safetensors", "files[1]"},
		{"name: val.rows", "name: ood.rows", OODName},
	} {
		err := resealed(t, dir, func(s string) string { return strings.Replace(s, c.old, c.new, 1) })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s for %s: error %v, want %q", c.new, c.old, err, c.want)
		}
	}
}

// An inconsistent part is not written.
func TestInconsistentPartsAreNotWritten(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*Part){
		"no sums":          func(p *Part) { p.Sums = nil },
		"no counts":        func(p *Part) { p.Counts = nil },
		"no sample":        func(p *Part) { p.Sample = nil },
		"small sample":     func(p *Part) { p.Sample = &rows.Sample{} },
		"other sample":     func(p *Part) { p.Sample = example(t, 2).Sample },
		"no validation":    func(p *Part) { p.Val = nil },
		"more validation":  func(p *Part) { p.OOD = p.Val },
		"other examples":   func(p *Part) { p.Sets[0].Shards[0].Examples-- },
		"other positions":  func(p *Part) { p.Val.Positions[4] = 900 },
		"other head":       func(p *Part) { p.Recipe.Head.Logits = 4 },
		"no labels":        func(p *Part) { p.Val.Labels = nil },
		"targets":          func(p *Part) { p.Val.Labels, p.Val.Targets = nil, make([]uint8, 15) },
		"not a number":     func(p *Part) { p.Sets[0].Shards[0].LogitError = math.NaN() },
		"probe, no model":  func(p *Part) { p.Recipe.Model, p.Recipe.Preprocess = nil, nil },
		"other probe":      func(p *Part) { p.Probe.Logits = p.Probe.Logits[:3] },
		"probe of strings": func(p *Part) { p.Probe.Inputs[0].Data = []string{"a", "b"} },
		"probe of others":  func(p *Part) { p.Val, p.Sets = nil, p.Sets[:1] },
		"no fingerprint":   func(p *Part) { p.Sets[0].Shards[0].Fingerprint = "" },
	} {
		p := probed(example(t, 1))
		change(p)
		parent := t.TempDir()
		if err := Write(filepath.Join(parent, "p"), p, WriteOptions{}); err == nil {
			t.Errorf("%s: no error", name)
		}
		if left, err := os.ReadDir(parent); err != nil || len(left) > 0 {
			t.Errorf("%s: %v is left: %v", name, left, err)
		}
	}
}

func TestCountsMergeInAnyOrder(t *testing.T) {
	t.Parallel()
	var all []*rows.Batch
	for i := range 40 {
		b := &rows.Batch{}
		for j := range 30 {
			b.Append(row((i*30 + j) % 700))
		}
		all = append(all, b)
	}
	want := NewCounts(head)
	for _, b := range all {
		want.Add(head, b)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for range 5 {
		rng.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		a, b := NewCounts(head), NewCounts(head)
		for i, x := range all {
			to := []*Counts{a, b}[i%2]
			to.Add(head, x)
		}
		a.Merge(b)
		if !reflect.DeepEqual(a, want) {
			t.Error("other counts")
		}
	}
	// Also where more hashes come than are kept.
	keep := &repeats{times: map[uint64]int64{}}
	halves := [2]repeats{}
	for i := range 3 * mostHashes {
		h := uint64(i) * 0x9e3779b97f4a7c15
		keep.addHash(h, 1)
		halves[i%2].addHash(h, 1)
	}
	halves[0].merge(&halves[1])
	if !reflect.DeepEqual(&halves[0], keep) || keep.mask == 0 {
		t.Errorf("%d hashes with mask %d, want %d with %d", len(halves[0].times), halves[0].mask, len(keep.times), keep.mask)
	}
}

// FuzzOpen reads a part with any files, whose hashes match.
func FuzzOpen(f *testing.F) {
	dir := written(f, example(f, 1, 2))
	content := map[string][]byte{}
	for _, name := range []string{ManifestName, CurvatureName, CountsName, SampleName, ValName} {
		data, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			f.Fatal(err)
		}
		content[name] = data
	}
	document, err := folder.Unseal(content[ManifestName], "")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(document, content[CurvatureName], content[CountsName], content[SampleName], content[ValName])
	f.Add(bytes.Replace(document, []byte("examples:"), []byte("progress: {next: 1024, stamp: x}\n        examples:"), 1),
		content[CurvatureName], content[CountsName], content[SampleName], content[ValName])
	f.Add([]byte("format: 2\n"), []byte{}, []byte{}, []byte{}, []byte{})
	f.Fuzz(func(t *testing.T, document, curvature, counts, sample, val []byte) {
		m, err := parse(document)
		if err != nil {
			return
		}
		p := &Part{Manifest: *m}
		var errs []error
		if p.Set(bundle.Train) != nil {
			p.Sums, err = calibrate.DecodeSums(bytes.NewReader(curvature), int64(len(curvature)), nil)
			errs = append(errs, err)
			p.Counts, err = decodeCounts(bytes.NewReader(counts), int64(len(counts)))
			errs = append(errs, err)
			p.Sample, err = rows.DecodeSample(bytes.NewReader(sample), int64(len(sample)))
			errs = append(errs, err)
		}
		if p.Set(bundle.Val) != nil {
			p.Val, err = readRows(bytes.NewReader(val), int64(len(val)))
			errs = append(errs, err)
		}
		if errors.Join(errs...) != nil || p.check() != nil {
			return
		}
		// An accepted part can be written.
		_, err = p.document()
		if p.Sums != nil {
			err = errors.Join(err, p.Sums.Encode(io.Discard), p.Counts.encode(io.Discard),
				p.Sample.Encode(io.Discard))
		}
		if p.Val != nil {
			err = errors.Join(err, writeRows(io.Discard, p.Val))
		}
		if err != nil {
			t.Fatal(err)
		}
	})
}
