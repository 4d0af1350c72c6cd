package featurize

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// sentences are the tokens of n examples of 1 to most tokens, and which count.
func sentences(n, most int) (ids, mask [][]int64) {
	rng := rand.New(rand.NewPCG(uint64(n), 9))
	for range n {
		length := 1 + rng.IntN(most)
		i, m := make([]int64, length), make([]int64, length)
		for j := range i {
			i[j], m[j] = rng.Int64N(20), 1+rng.Int64N(3)
		}
		ids, mask = append(ids, i), append(mask, m)
	}
	return ids, mask
}

// sentenceLines are those examples as JSON lines. broken says what stands in the place of some.
func sentenceLines(ids, mask [][]int64, broken map[int]string) []byte {
	var b strings.Builder
	list := func(v []int64) string { return strings.ReplaceAll(fmt.Sprint(v), " ", ",") }
	for i := range ids {
		if line, ok := broken[i]; ok {
			b.WriteString(line + "\n")
			continue
		}
		fmt.Fprintf(&b, `{"mask":%s,"text":"a sentence","ids":%s,"label":%d}`+"\n", list(mask[i]), list(ids[i]), i%4)
	}
	return []byte(b.String())
}

func sentenceTensors(ids, mask [][]int64) func(i int) []tensor.Tensor {
	return func(i int) []tensor.Tensor {
		shape := []int64{1, int64(len(ids[i]))}
		return []tensor.Tensor{{Name: "ids", Shape: shape, Data: ids[i]}, {Name: "mask", Shape: shape, Data: mask[i]}}
	}
}

func TestSequencesOfDifferentLengthsAreRunAtTheirOwn(t *testing.T) {
	noLeaks(t)
	const n = 700
	ids, mask := sentences(n, 12)
	broken := map[int]string{0: "not JSON", 1: "{", 13: `{"ids":[1,2.5],"mask":[1,1],"label":1}`, 14: `{"ids":[],"mask":[],"label":1}`, 600: "[]"}
	var want []int
	for i := range n {
		if _, bad := broken[i]; !bad {
			want = append(want, i)
		}
	}
	tensors := sentenceTensors(ids, mask)
	whole := uncut(t, "sequence", len(want), func(i int) []tensor.Tensor { return tensors(want[i]) })
	path := write(t, t.TempDir(), "x.jsonl", sentenceLines(ids, mask, broken))
	for _, batch := range []int{0, 1, 3, 256} {
		e := extractor(t, "sequence", Config{Batch: batch})
		ds := openData(t, path, dataset.Options{Inputs: e.InputNames(), Classes: 4})
		done := 0
		got, stats := stream(t, e, ds, StreamConfig{MaxBad: 5, Progress: func(d, total int) {
			if done = d; total != n {
				t.Errorf("progress %d of %d", d, total)
			}
		}})
		same(t, &got.Batch, whole)
		if !slices.Equal(got.Positions, want) || done != n {
			t.Fatalf("batches of %d: positions %d, %d done", batch, got.Positions, done)
		}
		for i, p := range want {
			if got.Labels[i] != p%4 || got.Names[i] != fmt.Sprintf("x.jsonl[%d]", p) {
				t.Fatalf("batches of %d: %s has label %d", batch, got.Names[i], got.Labels[i])
			}
		}
		for i, words := range []string{"x.jsonl[0]: ", "x.jsonl[1]: ", "x.jsonl[13]: ", "x.jsonl[14]: ids: an empty list", "x.jsonl[600]: "} {
			if len(stats.Bad) != 5 || !strings.HasPrefix(stats.Bad[i].Message, words) {
				t.Fatalf("bad records %v", stats.Bad)
			}
		}
		if !strings.Contains(stats.Bad[2].Message, "real numbers") {
			t.Errorf("bad records %v", stats.Bad)
		}

		// The same again, to the last bit.
		again, _ := stream(t, e, ds, StreamConfig{MaxBad: 5})
		equal(t, again, got)

		// A part of them, among other neighbours.
		part, _ := stream(t, e, openData(t, path+"[300:]", dataset.Options{Inputs: e.InputNames()}),
			StreamConfig{MaxBad: 1, Limit: 100})
		for i, p := range part.Positions {
			k := slices.Index(want, p)
			one := func(r *rows.Batch, i int) *rows.Batch {
				return r.Slice(i, i+1)
			}
			same(t, one(&part.Batch, i), one(whole, k))
		}

		// From the cache.
		c := StreamConfig{MaxBad: 5, Cache: &Cache{Dir: t.TempDir()}}
		for _, cached := range []bool{false, true} {
			kept, stats := stream(t, e, ds, c)
			if equal(t, kept, got); stats.Cached != cached {
				t.Errorf("stats %+v", stats)
			}
		}
	}
}

func TestSequencesInFixedBatches(t *testing.T) {
	t.Parallel()
	const n = 53
	rng := rand.New(rand.NewPCG(5, 5))
	var frames [][]float32
	var lines strings.Builder
	for i := range n {
		f := random(uint64(i), 3*(1+rng.IntN(5)))
		frames = append(frames, f)
		lines.WriteString("{\"x\":[")
		for j := 0; j < len(f); j += 3 {
			if j > 0 {
				lines.WriteByte(',')
			}
			fmt.Fprintf(&lines, "[%v,%v,%v]", f[j], f[j+1], f[j+2])
		}
		lines.WriteString("]}\n")
	}
	want := uncut(t, "frames4", n, func(i int) []tensor.Tensor {
		x := slices.Concat(frames[i], frames[i], frames[i], frames[i])
		return []tensor.Tensor{{Name: "x", Shape: []int64{4, int64(len(frames[i]) / 3), 3}, Data: x}}
	})
	// The uncut network gives each row four times.
	want.Features, want.Logits = everyFourth(want.Features, 6), everyFourth(want.Logits, 4)
	got, _ := stream(t, extractor(t, "frames4", Config{}),
		openData(t, write(t, t.TempDir(), "x.jsonl", []byte(lines.String())), dataset.Options{}), StreamConfig{})
	same(t, &got.Batch, want)
	if !slices.Equal(got.Positions, positions(0, n)) {
		t.Errorf("positions %d", got.Positions)
	}
}

func TestLongSequencesMakeSmallBatches(t *testing.T) {
	t.Parallel()
	e := extractor(t, "sequence", Config{})
	if e.Batch() != 32 {
		t.Errorf("batches of %d", e.Batch())
	}
	for length, want := range map[int]int{1: 32, 100: 32, 512: 19, 5000: 1, 50_000: 1} {
		ex := &dataset.Example{Inputs: []dataset.Array{{Name: "ids", Shape: []int{length}, Data: make([]int64, length)},
			{Name: "mask", Shape: []int{length}, Data: make([]int64, length)}}}
		pipes, err := e.resolve(ex)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.most(pipes); got != want {
			t.Errorf("%d tokens: batches of %d, want %d", length, got, want)
		}
		if got := extractor(t, "sequence", Config{Batch: 64}).most(pipes); got != 64 {
			t.Errorf("%d tokens: batches of %d where 64 were asked for", length, got)
		}
	}
}

func TestAnExampleThatIsNoSequenceEndsTheStream(t *testing.T) {
	noLeaks(t)
	for _, tt := range []struct {
		line  string
		words []string
	}{
		{`{"ids":[1,2,3],"mask":[1,2]}`, []string{"x.jsonl[2] and those of its shape", "onnx runtime"}},
		{`{"ids":[1,77],"mask":[1,2]}`, []string{"onnx runtime"}},
	} {
		text := `{"ids":[1,2],"mask":[1,2]}` + "\n" + `{"ids":[1],"mask":[1]}` + "\n" + tt.line
		e := extractor(t, "sequence", Config{})
		_, err := pass(t.Context(), e.Rows, openData(t, write(t, t.TempDir(), "x.jsonl", []byte(text)), dataset.Options{}),
			StreamConfig{MaxBad: 3}, collect(&collected{}))
		testerr.OneLine(t, err, tt.words...)
	}
	text := `{"x":[[1,2,3]]}` + "\n" + `{"x":[[1,2]]}`
	_, err := pass(t.Context(), extractor(t, "frames4", Config{}).Rows,
		openData(t, write(t, t.TempDir(), "x.jsonl", []byte(text)), dataset.Options{}), StreamConfig{MaxBad: 2},
		collect(&collected{}))
	testerr.OneLine(t, err, "x.jsonl[1]", "array [1,2] of int64", "x [N,?,3] float32")
}

// A consumer that is slow holds the windows back too.
func TestWindowsDoNotPileUp(t *testing.T) {
	noLeaks(t)
	const n, length = 3000, 2000
	line := strings.Repeat("1,", length-1) + "1]"
	text := strings.Repeat(`{"ids":[`+line+`,"mask":[`+line+"}\n", n)
	e := extractor(t, "sequence", Config{})
	ds := openData(t, write(t, t.TempDir(), "x.jsonl", []byte(text)), dataset.Options{})
	text = ""
	heap := func() int64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	stop := fmt.Errorf("seen enough")
	calls := 0
	_, err := pass(t.Context(), e.Rows, ds, StreamConfig{}, func(*rows.Batch) error {
		if calls++; calls < 2 {
			return nil
		}
		time.Sleep(500 * time.Millisecond)
		// Some windows of as many numbers as one may have, as read and as fed.
		if grown := heap() - before; grown > 10*windowElements*16 {
			t.Errorf("%d MB are held", grown>>20)
		}
		return stop
	})
	if err != stop || calls != 2 {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// Examples are of one shape where all of their inputs are.
func TestDifferentShapesHaveDifferentKeys(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, shapes := range [][][]int{
		{{2}}, {{2}, {2}}, {{2}, {3}}, {{3}, {2}}, {{2, 2}}, {{22}}, {{2, 3}, {4}}, {{2}, {3, 4}}, {{2, 3, 4}},
		{{23}, {4}}, {{2}, {}}, {{}, {2}}, {{}}, {},
	} {
		var ex dataset.Example
		for _, s := range shapes {
			ex.Inputs = append(ex.Inputs, dataset.Array{Shape: s})
		}
		key := string(appendShape(nil, &ex))
		if other, taken := seen[key]; taken {
			t.Errorf("shapes %v have the key of %s", shapes, other)
		}
		seen[key] = fmt.Sprint(shapes)
	}
}
