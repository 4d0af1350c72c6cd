package part

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	"github.com/mfgs/mfgs/calibrate/layer"
	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/wrap/bundle"
)

// piece makes a part with a shard of each set: of the training data, 21 blocks in 7, and of the validation data, 11
// blocks in 5; 0 is none. Both begin within a block.
func piece(t testing.TB, train, val int) *Part {
	t.Helper()
	p := probed(example(t))
	p.Sets, p.Val, p.Probe = nil, nil, nil
	if train == 0 {
		p.Sums, p.Counts, p.Sample = nil, nil, nil
	} else {
		s := shard(train, 7, 100, 21*rows.BlockSize-200)
		s.Examples = p.add(t, s, 7)
		p.Sets = append(p.Sets, Set{
			Role: bundle.Train, Spec: "x", From: 100, Count: 21*rows.BlockSize - 200, Shards: []Shard{s},
		})
	}
	if val > 0 {
		s := shard(val, 5, 30, 11*rows.BlockSize-40)
		p.Val = &rows.Batch{}
		for at := s.From; at < s.To; at += 11 {
			p.Val.Append(row(at))
		}
		s.Examples = p.Val.N
		if val == 1 {
			probed(p)
		}
		p.Sets = append(p.Sets, Set{
			Role: bundle.Val, Spec: "y", From: 30, Count: 11*rows.BlockSize - 40, Shards: []Shard{s},
		})
	}
	return p
}

// shard is one of n shards of a set.
func shard(i, n, from, count int) Shard {
	s := Shard{Shard: rows.Shard{Index: i, Count: n}, Fingerprint: fingerprint}
	s.From, s.To = s.Shard.Range(from, from+count)
	return s
}

// pieces writes the parts of a calibration.
func pieces(t testing.TB) (dirs []string) {
	t.Helper()
	for i := range 7 {
		dirs = append(dirs, written(t, piece(t, i+1, max(0, i-1))))
	}
	return dirs
}

// Merged parts have the same bytes in any grouping and order, and contain all examples of each set, in order.
func TestTheOrderOfMergingDoesNotMatter(t *testing.T) {
	t.Parallel()
	dirs := pieces(t)
	all := whole(t, dirs...)
	want := manifest(t, written(t, all))
	if err := all.Missing(); err != nil || all.Probe == nil {
		t.Fatalf("%v, probe %v", err, all.Probe)
	}
	rising := slices.IsSortedFunc(all.Val.Positions, func(a, b int) int { return cmp.Or(cmp.Compare(a, b), -1) })
	if want := all.Set(bundle.Val).Examples(); !rising || all.Val.N != want || want < 500 {
		t.Errorf("%d validation examples, want %d with rising positions", all.Val.N, want)
	}
	if all.Sums.Examples() != all.Counts.Examples || all.Set(bundle.Train).Examples() != all.Counts.Labelled {
		t.Errorf("%d examples in the sums, %+v", all.Sums.Examples(), all.Counts)
	}
	rng := rand.New(rand.NewPCG(5, 5))
	for range 6 {
		left := append([]string{}, dirs...)
		for len(left) > 1 {
			rng.Shuffle(len(left), func(i, j int) { left[i], left[j] = left[j], left[i] })
			group := 2 + rng.IntN(len(left)-1)
			left = append(left[group:], written(t, whole(t, left[:group]...)))
		}
		if manifest(t, left[0]) != want {
			t.Fatal("merged in another order the part is another")
		}
	}
}

// Neighbours that are merged take the room of one.
func TestMergedNeighboursAreAsSmallAsOnePart(t *testing.T) {
	t.Parallel()
	size := func(dir string) int64 {
		info, err := os.Stat(filepath.Join(dir, CurvatureName))
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	one := piece(t, 3, 0)
	var dirs []string
	for i := range 4 {
		dirs = append(dirs, written(t, piece(t, i+1, 0)))
	}
	four := whole(t, dirs...)
	if a, b := size(written(t, one)), size(written(t, four)); b > a+a/2 {
		t.Errorf("sums of one shard take %d bytes, and of four %d", a, b)
	}
}

// Parts of another calibration, and shards that occur twice, are refused by name.
func TestMergeRefuses(t *testing.T) {
	t.Parallel()
	dirs := []string{written(t, example(t, 1)), written(t, example(t, 2)), written(t, example(t, 3))}
	again := dirs[1] + string(filepath.Separator) + "."
	other := func(change func(*Part)) string {
		p := example(t, 2)
		change(p)
		return written(t, p)
	}
	for name, test := range map[string]struct {
		dirs []string
		want string
	}{
		"nothing":          {nil, "no parts to merge"},
		"the same folder":  {[]string{dirs[0], dirs[0]}, "is given twice"},
		"by another name":  {[]string{dirs[1], again}, "given twice, also as"},
		"the same shard":   {[]string{dirs[0], dirs[1], other(func(*Part) {})}, "shard 2 of 3 of train is in both"},
		"another tool":     {[]string{dirs[0], other(func(p *Part) { p.Tool = "other" })}, "tool is"},
		"another recipe":   {[]string{dirs[0], other(func(p *Part) { p.Recipe.Settings.Lambda0 = 2 })}, "lambda0 is 1 in the first and 2"},
		"other data":       {[]string{dirs[0], other(func(p *Part) { p.Sets[0].Spec = "z.npz" })}, "train spec is"},
		"too much is bad":  {[]string{dirs[0], other(func(p *Part) { p.Sets[0].Shards[0].Bad = []string{"a", "b", "c"} })}, "skipped 4 unreadable records in total, MaxBad allows 3"},
		"no part":          {[]string{t.TempDir()}, "it has no " + ManifestName},
		"no folder at all": {[]string{filepath.Join(t.TempDir(), "p")}, "no such folder"},
	} {
		_, _, err := Merge(t.Context(), test.dirs, nil, nil)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
	just := other(func(p *Part) { p.Sets[0].Shards[0].Bad = []string{"a", "b"} })
	if _, _, err := Merge(t.Context(), []string{dirs[0], just}, nil, nil); err != nil {
		t.Errorf("as much is bad as may be: %v", err)
	}
}

// The error names the parts that a bundle lacks, and their number.
func TestMissingShardsAreNamed(t *testing.T) {
	t.Parallel()
	set := func(role bundle.Role, count, examples int, without ...int) Set {
		s := Set{Role: role, Spec: "x"}
		for i := 1; i <= count; i++ {
			if !slices.Contains(without, i) {
				s.Shards = append(s.Shards, Shard{Shard: rows.Shard{Index: i, Count: count}, Examples: examples})
			}
		}
		return s
	}
	val := set(bundle.Val, 1, 5)
	for want, sets := range map[string][]Set{
		"":                                      {set(bundle.Train, 3, 1), val},
		"no part has train data":                {val},
		"no part has val data":                  {set(bundle.Train, 3, 1)},
		"shard 2 of 3 of train is missing":      {set(bundle.Train, 3, 1, 2), val},
		"shards 2, 3 of 3 of train are missing": {set(bundle.Train, 3, 1, 2, 3), val},
		"shards 1, 2, 3, 4, 5, 6, 7, 8, 9, 10 of 99 of train are missing": {func() Set { s := set(bundle.Train, 99, 1); s.Shards = s.Shards[10:]; return s }(), val},
		"11 of 99 shards of train are missing, such as shard 1":           {func() Set { s := set(bundle.Train, 99, 1); s.Shards = s.Shards[11:]; return s }(), val},
		"train: no examples could be read of x":                           {set(bundle.Train, 2, 0), val},
		"shard 1 of 2 of ood is missing":                                  {set(bundle.Train, 1, 1), val, set(bundle.OOD, 2, 1, 1)},
	} {
		err := (&Manifest{Sets: sets}).Missing()
		if got := fmt.Sprint(err); got != want && (err != nil || want != "") {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}

// The model is copied from the one part that holds it, as it was written.
func TestTheModelIsCopiedFromThePartThatHoldsIt(t *testing.T) {
	t.Parallel()
	p := probed(example(t, 1))
	p.Recipe.Gathered = true // so that the hash may be that of anything
	dir := filepath.Join(t.TempDir(), "p")
	write := func(text string) func(io.Writer) error {
		return func(w io.Writer) error { _, err := io.WriteString(w, text); return err }
	}
	if err := Write(dir, p, WriteOptions{Model: write("a model"), ModelData: write("its weights")}); err != nil {
		t.Fatal(err)
	}
	without := probed(example(t, 2))
	without.Recipe.Gathered = true
	for _, dirs := range [][]string{{dir, written(t, without)}, {written(t, without), dir}} {
		if _, model, err := Merge(t.Context(), dirs, nil, nil); err != nil || model != dir {
			t.Errorf("the model is in %q, want %q: %v", model, dir, err)
		}
	}
	if _, model, err := Merge(t.Context(), []string{written(t, without)}, nil, nil); err != nil || model != "" {
		t.Errorf("a model in %q: %v", model, err)
	}
	m, err := ReadManifest(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got bytes.Buffer
	if err := m.Copy(dir, ModelName)(&got); err != nil || got.String() != "a model" {
		t.Errorf("copied %q: %v", &got, err)
	}
	if m.Copy(dir, OODName) != nil {
		t.Error("a file that is not there can be copied")
	}
	if err := os.WriteFile(filepath.Join(dir, ModelName), []byte("b model"), 0o666); err != nil {
		t.Fatal(err)
	}
	err = m.Copy(dir, ModelName)(io.Discard)
	if !errors.Is(err, bundle.ErrHash) || !strings.Contains(err.Error(), ModelName) {
		t.Errorf("a damaged model: %v", err)
	}
}

// Parts are finished with another covariance where they have what it takes, and with another damping.
func TestAMergeCanChangeCovarianceDampingAndDecisions(t *testing.T) {
	t.Parallel()
	of := func(c calibrate.Covariance) *Part {
		p := example(t)
		var err error
		p.Sums, err = calibrate.NewSums(calibrate.CurvatureConfig{
			Head: head, Structure: calibrate.Full, Fisher: c.NeedsFisher(),
		})
		if err != nil {
			t.Fatal(err)
		}
		p.Recipe.Settings.Covariance = c
		return p
	}
	for _, test := range []struct {
		made, asked, want calibrate.Covariance
		fisher, refused   bool
	}{
		{calibrate.Hessian, "", calibrate.Hessian, false, false},
		{calibrate.Hessian, calibrate.Hessian, calibrate.Hessian, false, false},
		{calibrate.Hessian, calibrate.Fisher, calibrate.Hessian, false, true},
		{calibrate.Fisher, "", calibrate.Fisher, true, false},
		{calibrate.Fisher, calibrate.Sandwich, calibrate.Sandwich, true, false},
		{calibrate.Sandwich, calibrate.Hessian, calibrate.Hessian, false, false},
	} {
		p := of(test.made)
		err := p.Change(test.asked, &calibrate.Damping{Relative: 3})
		if (err != nil) != test.refused || p.Recipe.Settings.Covariance != test.want || p.Sums.Fisher() != test.fisher {
			t.Errorf("%s for %s: %s, Fisher matrix %t, error %v", test.asked, test.made, p.Recipe.Settings.Covariance, p.Sums.Fisher(), err)
		}
		if p.Recipe.Settings.Damping.String() != "rel:3" {
			t.Errorf("damping %s, want rel:3", p.Recipe.Settings.Damping)
		}
	}
	p := of(calibrate.Hessian)
	if err := p.Change("", nil); err != nil || p.Recipe.Settings.Damping.String() != "auto" {
		t.Errorf("damping %s, want its own: %v", p.Recipe.Settings.Damping, err)
	}
	p.Sums = nil
	if err := p.Change(calibrate.Fisher, nil); err != nil || p.Recipe.Settings.Covariance != calibrate.Fisher {
		t.Errorf("without training data: %s, %v", p.Recipe.Settings.Covariance, err)
	}
}

// A shard holds the first block where it begins with its set and is not empty.
func TestTheFirstShardIsNotEmpty(t *testing.T) {
	t.Parallel()
	s := &Set{From: 10}
	for _, test := range []struct {
		from, to int
		want     bool
	}{{10, 11, true}, {10, 10, false}, {11, 12, false}} {
		if got := s.First(&Shard{From: test.from, To: test.to}); got != test.want {
			t.Errorf("[%d:%d] of a set from 10: %t", test.from, test.to, got)
		}
	}
}

// Validation examples of a multi-label head have targets, which are read as they were written.
func TestTargetsAreReadAsTheyWereWritten(t *testing.T) {
	t.Parallel()
	p := example(t, 1)
	h := layer.Head{Logits: 3, Features: 2, Bias: true, Link: layer.Sigmoid}
	p.Recipe.Head.Head = h
	p.Sets, p.Sums, p.Counts, p.Sample = p.Sets[1:], nil, nil, nil
	p.Val.Labels, p.Val.Targets = nil, []uint8{0, 1, 0, 1, 1, 1, 0, 0, 0, 1, 0, 0, 0, 1, 1}
	dir := written(t, p)
	got, err := Open(dir, nil)
	if err != nil || !bytes.Equal(got.Val.Targets, p.Val.Targets) || got.Val.Labels != nil {
		t.Fatalf("%+v, %v", got, err)
	}
	r, err := os.Open(filepath.Join(dir, ValName))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	info, err := r.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if s, err := rows.Open(r, info.Size()); err != nil || !s.Labelled() {
		t.Errorf("the store is not labelled: %v", err)
	}
}
