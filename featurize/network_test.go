package featurize

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/ort"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// network runs a model of the repository whole.
func network(t testing.TB, path string, c Config) *Network {
	t.Helper()
	var err error
	if c.Model, err = onnx.Open(path); err != nil {
		t.Fatal(err)
	}
	w, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { w.Close() })
	return w
}

// oneByOne is the slow twin: it runs one example at a time in a separate session or, for a fixed batch, as many
// copies of the example.
func oneByOne(t testing.TB, path string, copies, n int, input func(from, to int) tensor.Tensor) Results {
	t.Helper()
	m, err := onnx.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	graph, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	s, err := ort.NewSession(ort.SessionConfig{Graph: graph})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	all := Results{N: n, Columns: make([][]float32, len(m.Outputs()))}
	for i := range n {
		out, err := s.Run(t.Context(), []tensor.Tensor{input(i, i+1).Pad(copies)})
		if err != nil {
			t.Fatal(err)
		}
		for c, o := range out {
			data := o.Data.([]float32)
			all.Columns[c] = append(all.Columns[c], data[:len(data)/copies]...)
		}
	}
	return all
}

// alike compares results: ONNX Runtime adds in another order for another batch.
func alike(t testing.TB, got, want Results) {
	t.Helper()
	if got.N != want.N || len(got.Columns) != len(want.Columns) {
		t.Fatalf("%d columns of %d examples, want %d of %d", len(got.Columns), got.N, len(want.Columns), want.N)
	}
	for c := range want.Columns {
		if !slices.EqualFunc(got.Columns[c], want.Columns[c],
			func(a, b float32) bool { return approx.Equal(float64(a), float64(b), 1e-5) }) {
			t.Fatalf("column %d is %v, want %v", c, got.Columns[c], want.Columns[c])
		}
	}
}

// Any number of examples, in batches of any size, of models whose outputs are [N,width] and [N].
func TestANetworkGivesAllOutputsOfAllExamples(t *testing.T) {
	t.Parallel()
	x := random(4, 40*192)
	for _, tt := range []struct {
		path   string
		copies int
		shape  []int64 // of an example
	}{
		{"testdata/conv.onnx", 1, []int64{3, 8, 8}},
		{"testdata/batch1.onnx", 1, []int64{3, 8, 8}},
		{"testdata/batch4.onnx", 4, []int64{3, 8, 8}},
		{"../testdata/onnx/torch_binary.onnx", 1, []int64{5}},
		{"../testdata/onnx/outputs_aux.onnx", 1, []int64{5}},
	} {
		input := func(from, to int) tensor.Tensor {
			size := 1
			for _, d := range tt.shape {
				size *= int(d)
			}
			return tensor.Tensor{Shape: append([]int64{int64(to - from)}, tt.shape...), Data: x[from*size : to*size]}
		}
		for _, batch := range []int{0, 1, 3, 16} {
			w := network(t, tt.path, Config{Batch: batch})
			for _, n := range []int{0, 1, 3, 4, 8, 37} {
				t.Run(fmt.Sprintf("%s/batch=%d/n=%d", tt.path, batch, n), func(t *testing.T) {
					got, err := w.Run(t.Context(), []tensor.Tensor{input(0, n)})
					if err != nil {
						t.Fatal(err)
					}
					alike(t, got, oneByOne(t, tt.path, tt.copies, n, input))
				})
			}
		}
	}
}

// Results are the caller's: no later call writes to them.
func TestConcurrentRunsGiveTheSameBytes(t *testing.T) {
	t.Parallel()
	x := random(5, 37*192)
	for _, path := range []string{"testdata/conv.onnx", "testdata/batch4.onnx"} {
		w := network(t, path, Config{Batch: 16})
		input := func(n int) []tensor.Tensor {
			return []tensor.Tensor{{Shape: []int64{int64(n), 3, 8, 8}, Data: x[:n*192]}}
		}
		want := map[int]Results{}
		for _, n := range []int{1, 7, 16, 37} {
			var err error
			if want[n], err = w.Run(t.Context(), input(n)); err != nil {
				t.Fatal(err)
			}
		}
		var wg sync.WaitGroup
		for g := range 12 {
			wg.Go(func() {
				for i := range 20 {
					n := []int{1, 7, 16, 37}[(g+i)%4]
					got, err := w.Run(context.Background(), input(n))
					if err != nil {
						t.Error(err)
						return
					}
					for c := range got.Columns {
						if !slices.Equal(got.Columns[c], want[n].Columns[c]) {
							t.Errorf("%d examples: column %d differs", n, c)
							return
						}
					}
				}
			})
		}
		wg.Wait()
	}
}

// Inside an operator's loop, between operators, and between batches.
func TestACancelledRunEndsAndHarmsNoOther(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	cancelled := func(w *Network, inputs []tensor.Tensor) {
		t.Helper()
		ctx, cancel := context.WithCancelCause(t.Context())
		at := make(chan time.Time, 1)
		time.AfterFunc(50*time.Millisecond, func() { at <- time.Now(); cancel(gone) })
		if _, err := w.Run(ctx, inputs); err != gone {
			t.Fatalf("error %v, want the cause", err)
		}
		if late := time.Since(<-at); late > 2*time.Second { // a tenth of one, on an idle machine
			t.Errorf("ended %v after it was cancelled", late)
		}
	}
	w := network(t, "testdata/slow.onnx", Config{})
	for range 3 {
		cancelled(w, []tensor.Tensor{{Shape: []int64{1, 6}, Data: random(1, 6)}})
	}

	w = network(t, "testdata/conv.onnx", Config{Batch: 16})
	const many = 100_000 // take far longer than 50 ms
	x := random(2, many*192)
	few := []tensor.Tensor{{Shape: []int64{40, 3, 8, 8}, Data: x[:40*192]}}
	want, err := w.Run(t.Context(), few)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		cancelled(w, []tensor.Tensor{{Shape: []int64{many, 3, 8, 8}, Data: x}})
		got, err := w.Run(t.Context(), few)
		if err != nil {
			t.Fatal(err)
		}
		alike(t, got, want)
	}
}

func TestANetworkStreamsADataset(t *testing.T) {
	t.Parallel()
	dir := photos(t, n, 8, 8, 3, 2, 11)
	var x []float32
	for i := range n {
		if i != 2 && i != 11 {
			x = append(x, chw(pixels(i, 8, 8, 3), 8, 8, 3)...)
		}
	}
	for _, path := range []string{"testdata/conv.onnx", "testdata/batch4.onnx"} {
		w := network(t, path, Config{Batch: 7})
		all, err := w.Run(t.Context(), []tensor.Tensor{{Shape: []int64{n - 2, 3, 8, 8}, Data: x}})
		if err != nil {
			t.Fatal(err)
		}
		got := Results{Columns: make([][]float32, 2)}
		var positions []int
		stats, err := pass(t.Context(), w.Results, openData(t, dir, dataset.Options{}), StreamConfig{MaxBad: 2},
			func(r Results) error {
				e := r.Examples
				if len(e.Positions) != r.N || len(e.Labels) != r.N || len(e.Names) != r.N ||
					!strings.HasSuffix(e.Names[0], ".png") {
					t.Errorf("%d results of the examples %+v", r.N, e)
				}
				got.N += r.N
				positions = append(positions, e.Positions...)
				for c := range r.Columns {
					got.Columns[c] = append(got.Columns[c], r.Columns[c]...)
				}
				return nil
			})
		if err != nil || stats.Examples != n-2 || len(stats.Bad) != 2 || len(positions) != n-2 ||
			slices.Contains(positions, 11) {
			t.Errorf("%+v, positions %v, %v", stats, positions, err)
		}
		alike(t, got, all)
	}
}

func TestModelsThatCannotBeRunWholeAreRefused(t *testing.T) {
	t.Parallel()
	for path, words := range map[string][]string{
		"../testdata/onnx/float64.onnx":                {`output "y" is [N,4] float64`, "want float32"},
		"../testdata/onnx/tail_groups.onnx":            {`output "y" is [unk__0,2,2] float32`, "[N,width]"},
		"../testdata/onnx/gemm_left_untransposed.onnx": {`output "y" is [4,N] float32`, "declared width"},
		"../testdata/onnx/old_opset.onnx":              {`output "y" is […] float32`, "[N,width]"},
		"testdata/list.onnx":                           {"is a sequence", "export the model"},
	} {
		m, err := onnx.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := New(Config{Model: m})
		if err == nil {
			w.Close()
		}
		testerr.OneLine(t, err, words...)
	}

	// Whose declarations are not kept, shows when it is run.
	w := network(t, "../testdata/onnx/tail_fixed_batch_squeezed.onnx", Config{})
	_, err := w.Run(t.Context(), []tensor.Tensor{{Shape: []int64{3, 5}, Data: random(1, 15)}})
	testerr.OneLine(t, err, "y [4] float32 for 1 examples", "want y [1]", "first axis")
	// Other errors are returned unchanged.
	w = network(t, "testdata/conv.onnx", Config{})
	_, err = w.Run(t.Context(), []tensor.Tensor{{Shape: []int64{1, 2, 8, 8}, Data: random(1, 128)}})
	testerr.OneLine(t, err, "image", "[N,3,8,8]", "[1,2,8,8]")
	w.Close()
	if _, err := w.Run(t.Context(),
		[]tensor.Tensor{{Shape: []int64{1, 3, 8, 8}, Data: random(1, 192)}}); err != ort.ErrClosed {
		t.Errorf("closed: %v", err)
	}
}

// A batch is run again if an error is about its shapes, not after any failure.
func TestOnlyErrorsAboutShapesLeadToASecondRun(t *testing.T) {
	t.Parallel()
	for message, want := range map[string]bool{
		"shape mismatch attempting to re-use buffer. {4} != {1}":                                 true,
		"Expected shape from model of {1} does not match actual shape of {4} for output y":       true,
		"Got invalid dimensions for input: x":                                                    true,
		"Failed to allocate memory for requested buffer of size 1073741824":                      false,
		"CUDA failure 2: out of memory ; GPU=0 ; hostname=h ; expr=cudaMalloc((void**)&p, size)": false,
		"Exiting due to terminate flag being set to true.":                                       false,
	} {
		if got := aboutShapes.MatchString(message); got != want {
			t.Errorf("%q: %t", message, got)
		}
	}
}

func TestACacheKeepsRowsOnly(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	w := network(t, "testdata/conv.onnx", Config{})
	w.Results(t.Context(), openData(t, photos(t, 1, 8, 8, 3), dataset.Options{}), StreamConfig{Cache: &Cache{}})
}

func TestANetworkThatIsNotCutHasNoFeatures(t *testing.T) {
	w := network(t, "testdata/conv.onnx", Config{})
	for method, call := range map[string]func() int{"FeatureDim": w.FeatureDim, "Logits": w.Logits} {
		func() {
			defer func() {
				if text, ok := recover().(string); !ok || text != "featurize: "+method+" needs a network that was cut at its head" {
					t.Errorf("%s panics with %q", method, text)
				}
			}()
			call()
		}()
	}
}

// Passes of a deterministic network are equal, and are next to each other for each example, whatever the batches.
func TestPassesStandOneAfterAnother(t *testing.T) {
	t.Parallel()
	const passes = 3
	ds := openData(t, photos(t, 11, 8, 8, 3), dataset.Options{})
	collected := func(batch, passes int) (all Results) {
		w := network(t, "testdata/conv.onnx", Config{Batch: batch})
		_, err := pass(t.Context(), w.Results, ds, StreamConfig{Passes: passes}, func(r Results) error {
			all.N += r.N
			all.Columns = append(all.Columns, make([][]float32, len(r.Columns))...)[:len(r.Columns)]
			for c, values := range r.Columns {
				all.Columns[c] = append(all.Columns[c], values...)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return all
	}
	once := collected(4, 1)
	want := Results{N: once.N}
	for _, column := range once.Columns {
		var repeated []float32
		for row := range slices.Chunk(column, len(column)/once.N) {
			repeated = append(repeated, slices.Repeat(row, passes)...)
		}
		want.Columns = append(want.Columns, repeated)
	}
	for _, batch := range []int{1, 4, 16} {
		alike(t, collected(batch, passes), want)
	}
}

// Inputs that insist on batches of two sizes cannot be run, whichever comes first.
func TestInputsMustAgreeAboutTheBatch(t *testing.T) {
	t.Parallel()
	made := func(batches ...int64) []input {
		var all []input
		for i, b := range batches {
			info := onnx.ValueInfo{Name: fmt.Sprint("x", i), Type: tensor.Float32,
				Shape: []onnx.Dim{{Value: b}, {Value: 3}}}
			in, err := newInput(info, Config{}, len(batches) == 1)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, in)
		}
		return all
	}
	for _, test := range []struct {
		batches []int64
		asked   int
		fixed   bool
		want    int // 0: refused
	}{
		{[]int64{4, 8}, 0, false, 0},
		{[]int64{8, 4}, 0, false, 0},
		{[]int64{4, -1, 4}, 0, true, 4},
		{[]int64{-1, 4}, 7, true, 4},
		{[]int64{-1, -1}, 7, false, 7},
		{[]int64{-1, -1}, -1, false, 0},
	} {
		fixed, batch, err := batchSize(made(test.batches...), test.asked)
		if fixed != test.fixed || batch != test.want || (err != nil) != (test.want == 0) {
			t.Errorf("inputs of %d examples, %d asked for: fixed %t, %d, %v; want %t, %d", test.batches, test.asked, fixed, batch, err, test.fixed, test.want)
		}
	}
}
