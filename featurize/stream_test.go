package featurize

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	goimage "image"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/mfgs/mfgs/calibrate/rows"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/featurize/preprocess"
	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

// n examples make a partial last batch for every batch size but 1 and 23.
const n = 23

func TestRowsAreThoseOfTheUncutNetworkOnOneExample(t *testing.T) {
	t.Parallel()
	colour, grey := photos(t, n, 8, 8, 3), photos(t, n, 8, 8, 1)
	image := func(shape []int64, data any) []tensor.Tensor {
		return []tensor.Tensor{{Name: "image", Shape: shape, Data: data}}
	}
	convInputs := func(i int) []tensor.Tensor { return image([]int64{1, 3, 8, 8}, chw(pixels(i, 8, 8, 3), 8, 8, 3)) }
	ready := random(3, n*192)
	readyInputs := func(i int) []tensor.Tensor { return image([]int64{1, 3, 8, 8}, ready[i*192:(i+1)*192]) }
	readyFile := write(t, t.TempDir(), "x.npy", npy(ready, n, 3, 8, 8))

	tests := []struct {
		name, model, uncut string
		data               string
		spec               *preprocess.Spec
		inputs             func(i int) []tensor.Tensor
	}{
		{"colour", "conv", "conv", colour, nil, convInputs},
		{"fixed batch of 1", "batch1", "conv", colour, nil, convInputs},
		{"fixed batch of 4", "batch4", "conv", colour, nil, convInputs},
		{"open sizes", "open", "conv", colour, nil, convInputs},
		{"float16", "float16", "float16", colour, nil, func(i int) []tensor.Tensor {
			bits := make(tensor.Float16Bits, 192)
			for j, v := range chw(pixels(i, 8, 8, 3), 8, 8, 3) {
				bits[j] = tensor.ToFloat16(float64(v))
			}
			return image([]int64{1, 3, 8, 8}, bits)
		}},
		{"uint8", "uint8", "uint8", colour, nil, func(i int) []tensor.Tensor {
			p, planes := pixels(i, 8, 8, 3), make([]uint8, 192)
			for j, v := range chw(p, 8, 8, 3) {
				planes[j] = uint8(v*255 + .5)
			}
			return image([]int64{1, 3, 8, 8}, planes)
		}},
		{"channels last", "nhwc", "nhwc", colour, nil, func(i int) []tensor.Tensor {
			x := make([]float32, 192)
			for j, v := range pixels(i, 8, 8, 3) {
				x[j] = float32(v) / 255
			}
			return image([]int64{1, 8, 8, 3}, x)
		}},
		{"grey", "grey", "grey", grey, nil,
			func(i int) []tensor.Tensor { return image([]int64{1, 1, 8, 8}, chw(pixels(i, 8, 8, 1), 8, 8, 1)) }},
		{"grey made colour", "conv", "conv", grey, nil, func(i int) []tensor.Tensor {
			x := chw(pixels(i, 8, 8, 1), 8, 8, 1)
			return image([]int64{1, 3, 8, 8}, slices.Concat(x, x, x))
		}},
		{"flattened", "flat", "flat", colour, &preprocess.Spec{Scale: 1. / 255, Layout: preprocess.NCHW}, func(i int) []tensor.Tensor {
			return image([]int64{1, 192}, chw(pixels(i, 8, 8, 3), 8, 8, 3))
		}},
		{"ready arrays", "conv", "conv", readyFile, nil, readyInputs},
		{"ready arrays, fixed batch", "batch4", "conv", readyFile, nil, readyInputs},
		{"ready arrays, open sizes", "open", "conv", readyFile, nil, readyInputs},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := uncut(t, tt.uncut, n, tt.inputs)
			for _, batch := range []int{0, 1, 7, 256} {
				e := extractor(t, tt.model, Config{Batch: batch, Preprocess: tt.spec})
				got, stats := stream(t, e, openData(t, tt.data, dataset.Options{}), StreamConfig{})
				same(t, &got.Batch, want)
				size := map[string]int{"batch1": 1, "batch4": 4}[tt.model]
				if size == 0 {
					size = max(batch, e.Batch())
				}
				if size != e.Batch() || got.Blocks[0] != min(size, n) || len(got.Blocks) != (n+size-1)/size {
					t.Errorf("batch %d: blocks of %d examples", batch, got.Blocks)
				}
				if want := positions(0, n); !slices.Equal(got.Positions, want) || len(stats.Bad) > 0 || stats.Cached {
					t.Errorf("batch %d: positions %d, stats %+v", batch, got.Positions, stats)
				}
				if slices.ContainsFunc(got.Labels, func(l int) bool { return l != -1 }) {
					t.Errorf("labels %d of unlabelled data", got.Labels)
				}

				// Run, on all examples at once, gives the same.
				var inputs []tensor.Tensor
				for i := range n {
					inputs = concat(inputs, tt.inputs(i))
				}
				rows, err := e.Run(t.Context(), inputs)
				if err != nil {
					t.Fatal(err)
				}
				same(t, rows.Rows(), want)
			}
		})
	}
}

func positions(from, to int) []int {
	var p []int
	for i := from; i < to; i++ {
		p = append(p, i)
	}
	return p
}

// concat joins tensors along the batch axis.
func concat(a, b []tensor.Tensor) []tensor.Tensor {
	if a == nil {
		return b
	}
	for i := range a {
		a[i].Shape = append([]int64{a[i].Shape[0] + b[i].Shape[0]}, a[i].Shape[1:]...)
		switch x := a[i].Data.(type) {
		case []float32:
			a[i].Data = slices.Concat(x, b[i].Data.([]float32))
		case []uint8:
			a[i].Data = slices.Concat(x, b[i].Data.([]uint8))
		case []int64:
			a[i].Data = slices.Concat(x, b[i].Data.([]int64))
		case tensor.Float16Bits:
			a[i].Data = slices.Concat(x, b[i].Data.(tensor.Float16Bits))
		}
	}
	return a
}

func TestInputsOfSeveralNamesComeFromAnNPZ(t *testing.T) {
	t.Parallel()
	weight := random(5, n*5)
	ids := make([]int64, n*5)
	labels := make([]int64, n)
	for i := range ids {
		ids[i] = int64(pixels(i, 1, 1, 1)[0] % 20)
		labels[i/5] = int64(i % 4)
	}
	want := uncut(t, "tokens", n, func(i int) []tensor.Tensor {
		return []tensor.Tensor{
			{Name: "weight", Shape: []int64{1, 5}, Data: weight[i*5 : (i+1)*5]},
			{Name: "ids", Shape: []int64{1, 5}, Data: ids[i*5 : (i+1)*5]},
		}
	})
	e := extractor(t, "tokens", Config{Batch: 7})
	if names := e.InputNames(); !slices.Equal(names, []string{"ids", "weight"}) || e.Preprocess() != nil {
		t.Fatalf("inputs %q, preprocessing %v", names, e.Preprocess())
	}
	options := dataset.Options{Inputs: e.InputNames(), Classes: 4}
	file := npz(t, "weight", npy(weight, n, 5), "other", npy(weight, n, 5), "labels", npy(labels, n), "ids", npy(ids, n, 5))
	got, _ := stream(t, e, openData(t, write(t, t.TempDir(), "x.npz", file), options), StreamConfig{})
	same(t, &got.Batch, want)
	for i, l := range got.Labels {
		if l != int(labels[i]) {
			t.Fatalf("labels %d, want %d", got.Labels, labels)
		}
	}

	// A missing input is an error of the whole stream, not of one record.
	file = npz(t, "weights", npy(weight, n, 5), "ids", npy(ids, n, 5))
	ds := openData(t, write(t, t.TempDir(), "x.npz", file), dataset.Options{})
	_, err := pass(t.Context(), e.Rows, ds, StreamConfig{MaxBad: n}, collect(&collected{}))
	testerr.OneLine(t, err, `"weight"`, "x.npz[0]", "name the arrays")
}

func TestBadRecordsLeaveGaps(t *testing.T) {
	t.Parallel()
	broken := []int{0, 5, 6, 11, 22}
	dir := photos(t, n, 8, 8, 3, broken...)
	var want []int
	for i := range n {
		if !slices.Contains(broken, i) {
			want = append(want, i)
		}
	}
	rows := uncut(t, "conv", len(want), func(i int) []tensor.Tensor {
		return []tensor.Tensor{{Shape: []int64{1, 3, 8, 8}, Data: chw(pixels(want[i], 8, 8, 3), 8, 8, 3)}}
	})
	for _, name := range []string{"conv", "batch1", "batch4", "open"} {
		for _, batch := range []int{1, 2, 7, 256} {
			e := extractor(t, name, Config{Batch: batch})
			last := 0
			got, stats := stream(t, e, openData(t, dir, dataset.Options{}),
				StreamConfig{MaxBad: len(broken), Progress: func(done, total int) {
					if done < last || done > total || total != n {
						t.Errorf("progress %d of %d after %d", done, total, last)
					}
					last = done
				}})
			if last != n {
				t.Errorf("progress ends at %d of %d", last, n)
			}
			if !slices.Equal(got.Positions, want) {
				t.Fatalf("%s, batches of %d: positions %d, want %d", name, batch, got.Positions, want)
			}
			same(t, &got.Batch, rows)
			for i, p := range want {
				if got.Names[i] != fmt.Sprintf("%04d.png", p) {
					t.Fatalf("names %q", got.Names)
				}
			}
			if len(stats.Bad) != len(broken) {
				t.Fatalf("bad records %v", stats.Bad)
			}
			for i, p := range broken {
				if !strings.HasPrefix(stats.Bad[i].Message, fmt.Sprintf("%04d.png: broken PNG", p)) {
					t.Errorf("bad record %d is reported as %v", p, stats.Bad[i])
				}
			}
		}
	}
}

func TestMoreBadRecordsThanAllowedEndTheStream(t *testing.T) {
	noLeaks(t)
	ds := openData(t, photos(t, n, 8, 8, 3, 3, 9, 17), dataset.Options{})
	for _, batch := range []int{1, 4, 256} {
		e := extractor(t, "conv", Config{Batch: batch})
		for allowed, words := range [][]string{
			{"0003.png: broken PNG", "use MaxBad N"},
			{"0009.png: broken PNG", "2 unreadable records", "MaxBad allows 1"},
			{"0017.png: broken PNG", "3 unreadable records", "MaxBad allows 2"},
		} {
			_, err := pass(t.Context(), e.Rows, ds, StreamConfig{MaxBad: allowed}, collect(&collected{}))
			testerr.OneLine(t, err, words...)
			var bad *TooManyBadError
			if !errors.As(err, &bad) || bad.Allowed != allowed || len(bad.Bad) != allowed+1 {
				t.Errorf("got %#v", err)
			}
		}
	}
}

func TestNothingButBadRecordsIsAnError(t *testing.T) {
	t.Parallel()
	ds := openData(t, photos(t, 3, 8, 8, 3, 0, 1, 2), dataset.Options{})
	stats, err := pass(t.Context(), extractor(t, "conv", Config{}).Rows, ds, StreamConfig{MaxBad: 3}, collect(&collected{}))
	testerr.OneLine(t, err, ds.Spec(), "holds no examples that can be read (first: ", "0000.png: broken PNG")
	if len(stats.Bad) != 3 {
		t.Errorf("stats %+v", stats)
	}
}

func TestALimitIsSpreadEvenly(t *testing.T) {
	t.Parallel()
	const all = 1000
	dir := t.TempDir()
	ds := openData(t, write(t, dir, "images-idx3-ubyte", idx(pixels(1, all, 8, 8), all, 8, 8))+"[100:1000]", dataset.Options{})
	e := extractor(t, "grey", Config{Batch: 64})
	for _, limit := range []int{1, 2, 7, 100, 450, 899, 900, 901} {
		total := 0
		got, _ := stream(t, e, ds, StreamConfig{Limit: limit, Progress: func(_, n int) { total = n }})
		if want := min(limit, 900); got.N != want || total != want {
			t.Fatalf("limit %d: %d examples of %d", limit, got.N, total)
		}
		stride := 900. / float64(got.N)
		previous := 100 - stride/2
		for i, p := range got.Positions {
			if gap := float64(p) - previous; i > 0 && (gap < stride-1 || gap > stride+1) {
				t.Fatalf("limit %d: a step of %v to position %d, want %.3g", limit, gap, p, stride)
			}
			previous = float64(p)
		}
		if first, last := got.Positions[0], got.Positions[got.N-1]; float64(first) > 100+stride ||
			float64(last) < 1000-stride-1 {
			t.Errorf("limit %d: positions %d to %d of 100 to 999", limit, first, last)
		}
	}
}

func TestAnExampleOfTheWrongShapeEndsTheStream(t *testing.T) {
	noLeaks(t)
	odd := photos(t, n, 8, 8, 3)
	write(t, odd, "0015.png", pngOf(t, pixels(0, 9, 8, 3), 9, 8, 3))
	tests := []struct {
		name, model, data string
		words             []string
	}{
		{"one of many", "conv", odd, []string{"0015.png", "9×8 colour image", "[N,3,8,8]", "give Preprocess"}},
		// The first settles an open size, whichever is prepared first.
		{"open sizes", "open", odd, []string{"0015.png", "9×8 colour image", "[3 8 8]"}},
		{"all", "conv", photos(t, n, 16, 16, 3), []string{"0000.png", "16×16 colour image", "[N,3,8,8]", "give Preprocess"}},
		{"grey flattened", "flat", write(t, t.TempDir(), "x-idx3", idx(pixels(1, 4, 7, 7), 4, 7, 7)), []string{"x-idx3[0]", "7×7 grey image", "[N,192]"}},
		{"array", "conv", write(t, t.TempDir(), "x.npy", npy(random(1, 4*48), 4, 3, 4, 4)), []string{"x.npy[0]", "array [3,4,4] of float32", "[N,3,8,8]"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, batch := range []int{1, 4, 256} {
				e := extractor(t, tt.model, Config{Batch: batch})
				_, err := pass(t.Context(), e.Rows, openData(t, tt.data, dataset.Options{}), StreamConfig{MaxBad: n},
					collect(&collected{}))
				testerr.OneLine(t, err, tt.words...)
				var shape *preprocess.ShapeError
				if !errors.As(err, &shape) {
					t.Errorf("got a %T", err)
				}
			}
		})
	}
}

func TestAnOpenSizeIsChosenForEveryStream(t *testing.T) {
	t.Parallel()
	e := extractor(t, "open", Config{})
	for _, size := range []int{8, 12, 5} {
		stream(t, e, openData(t, photos(t, 3, size, size, 3), dataset.Options{}), StreamConfig{})
		img := goimage.NewNRGBA(goimage.Rect(0, 0, size, size))
		if inputs, err := e.Images([]goimage.Image{img, img}); err != nil || inputs[0].Shape[2] != int64(size) {
			t.Errorf("%v, %v", inputs, err)
		}
	}
	_, err := e.Images([]goimage.Image{goimage.NewNRGBA(goimage.Rect(0, 0, 8, 8)),
		goimage.NewNRGBA(goimage.Rect(0, 0, 8, 9))})
	testerr.OneLine(t, err, "image 1", "9×8")
}

func TestAModelThatMixesExamplesIsRefused(t *testing.T) {
	t.Parallel()
	e := extractor(t, "merged", Config{})
	ds := openData(t, write(t, t.TempDir(), "x.npy", npy(random(1, 5*12), 5, 2, 6)), dataset.Options{})
	_, err := pass(t.Context(), e.Rows, ds, StreamConfig{}, collect(&collected{}))
	testerr.OneLine(t, err, "mfgs_features [10,6] float32", "want mfgs_features [5,6]", "first axis")
}

func TestABadLabelEndsTheStream(t *testing.T) {
	noLeaks(t)
	dir := t.TempDir()
	path := write(t, dir, "x-images-idx3", idx(pixels(1, n, 8, 8), n, 8, 8))
	labels := make([]byte, n)
	labels[20] = 4
	write(t, dir, "x-labels-idx1", idx(labels, n))
	for _, batch := range []int{1, 4, 256} {
		e := extractor(t, "grey", Config{Batch: batch})
		_, err := pass(t.Context(), e.Rows, openData(t, path, dataset.Options{Classes: 4}), StreamConfig{MaxBad: n},
			collect(&collected{}))
		testerr.OneLine(t, err, "[20]", "label 4 is outside [0,4)")
	}
}

func TestAnErrorOfYieldEndsTheStream(t *testing.T) {
	noLeaks(t)
	ds := openData(t, photos(t, n, 8, 8, 3), dataset.Options{})
	e := extractor(t, "conv", Config{Batch: 2})
	stop := errors.New("enough")
	for _, at := range []int{1, 5, 12} {
		calls := 0
		_, err := pass(t.Context(), e.Rows, ds, StreamConfig{}, func(*rows.Batch) error {
			if calls++; calls == at {
				return stop
			}
			return nil
		})
		if err != stop || calls != at {
			t.Errorf("%v after %d calls, want %v after %d", err, calls, stop, at)
		}
	}
}

func TestACancelledStreamReturnsItsCause(t *testing.T) {
	cause := errors.New("the user went home")
	const prompt = 5 * time.Second // each would take far longer in full
	slow := write(t, t.TempDir(), "x.npy", npy(random(1, 6*6), 6, 6))
	// 200 images that take about 50 ms each.
	large, dir := pngOf(t, make([]byte, 1500*1500*3), 1500, 1500, 3), t.TempDir()
	for i := range 200 {
		if err := os.Link(write(t, filepath.Dir(dir), "large.png", large), filepath.Join(dir, fmt.Sprintf("%d.png", i))); err != nil {
			t.Fatal(err)
		}
	}
	shrink := &preprocess.Spec{Resize: &preprocess.Resize{Width: 8, Height: 8}}

	tests := []struct {
		name, model, data string
		config            Config
		after             time.Duration
		cache             bool
	}{
		{"before it begins", "conv", dir, Config{Preprocess: shrink}, 0, false},
		{"while decoding", "conv", dir, Config{Preprocess: shrink, Batch: 200}, 200 * time.Millisecond, false},
		{"while inferring", "slow", slow, Config{Batch: 1}, 200 * time.Millisecond, false},
		{"while inferring the only batch", "slow", slow, Config{}, 200 * time.Millisecond, false},
		{"while a cache is filled", "slow", slow, Config{Batch: 1}, 200 * time.Millisecond, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			noLeaks(t)
			e := extractor(t, tt.model, tt.config)
			ctx, cancel := context.WithCancelCause(t.Context())
			if tt.after == 0 {
				cancel(cause)
			} else {
				time.AfterFunc(tt.after, func() { cancel(cause) })
			}
			c := StreamConfig{}
			if tt.cache {
				c.Cache = &Cache{Dir: t.TempDir()}
			}
			start := time.Now()
			_, err := pass(ctx, e.Rows, openData(t, tt.data, dataset.Options{}), c, func(*rows.Batch) error {
				t.Error("a block came")
				return nil
			})
			if !errors.Is(err, cause) {
				t.Errorf("got %v", err)
			}
			if took := time.Since(start) - tt.after; took > prompt {
				t.Errorf("it took %v", took)
			}
			if tt.cache {
				if left, err := os.ReadDir(c.Cache.Dir); err != nil || len(left) > 0 {
					t.Errorf("the cache holds %v (%v)", left, err)
				}
			}
		})
	}

	t.Run("by yield", func(t *testing.T) {
		noLeaks(t)
		e := extractor(t, "conv", Config{Batch: 2})
		ctx, cancel := context.WithCancelCause(t.Context())
		calls := 0
		_, err := pass(ctx, e.Rows, openData(t, photos(t, n, 8, 8, 3), dataset.Options{}), StreamConfig{},
			func(*rows.Batch) error {
				if calls++; calls == 2 {
					cancel(cause)
				}
				return nil
			})
		if err != cause || calls != 2 {
			t.Errorf("%v after %d calls", err, calls)
		}
	})
}

// A consumer that is slow must hold the others back.
func TestBatchesDoNotPileUp(t *testing.T) {
	noLeaks(t)
	const (
		examples = 200_000
		batch    = 64
		perBatch = batch * 192 * (1 + 4) // bytes as read, and as floats
	)
	path := write(t, t.TempDir(), "x.npy", npy(make([]uint8, examples*192), examples, 3, 8, 8))
	e := extractor(t, "conv", Config{Batch: batch})
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := heap()
	stop := errors.New("seen enough")
	calls := 0
	_, err := pass(t.Context(), e.Rows, openData(t, path, dataset.Options{}), StreamConfig{}, func(*rows.Batch) error {
		if calls++; calls < 5 {
			return nil
		}
		time.Sleep(300 * time.Millisecond) // time to read far ahead
		if grown := int64(heap()) - int64(before); grown > 40*perBatch {
			t.Errorf("%d bytes are held, %d batches' worth", grown, grown/perBatch)
		}
		return stop
	})
	if err != stop {
		t.Fatal(err)
	}
}

func TestConcurrentStreamsAndRunsDoNotDisturbEachOther(t *testing.T) {
	t.Parallel()
	e := extractor(t, "open", Config{Batch: 3})
	errs := make(chan error, 6)
	for g := range cap(errs) {
		size := 6 + g
		dir := photos(t, n, size, size, 3)
		want := uncut(t, "open", n, func(i int) []tensor.Tensor {
			return []tensor.Tensor{
				{Shape: []int64{1, 3, int64(size), int64(size)}, Data: chw(pixels(i, size, size, 3), size, size, 3)}}
		})
		ds := openData(t, dir, dataset.Options{})
		go func() {
			got := &collected{}
			_, err := pass(context.Background(), e.Rows, ds, StreamConfig{}, collect(got))
			if err == nil && (got.N != n ||
				!slices.EqualFunc(got.Logits, want.Logits,
					func(a, b float32) bool { return a-b < 1e-4 && b-a < 1e-4 })) {
				err = fmt.Errorf("size %d: other rows came", size)
			}
			errs <- err
		}()
	}
	for range cap(errs) {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestRunChecksItsInputs(t *testing.T) {
	t.Parallel()
	e := extractor(t, "tokens", Config{})
	ids := tensor.Tensor{Name: "ids", Shape: []int64{2, 5}, Data: make([]int64, 10)}
	weight := tensor.Tensor{Name: "weight", Shape: []int64{2, 5}, Data: make([]float32, 10)}
	with := func(t tensor.Tensor, shape []int64, data any) tensor.Tensor {
		return tensor.Tensor{Name: t.Name, Shape: shape, Data: data}
	}
	tests := []struct {
		name   string
		inputs []tensor.Tensor
		words  []string
	}{
		{"none", nil, []string{"got 0 inputs, want 2", "ids", "weight"}},
		{"too few", []tensor.Tensor{ids}, []string{"got 1 inputs, want 2"}},
		{"no batch axis", []tensor.Tensor{ids, with(weight, nil, make([]float32, 1))}, []string{`"weight"`, "no batch axis"}},
		{"different counts", []tensor.Tensor{ids, with(weight, []int64{3, 5}, make([]float32, 15))}, []string{`"weight"`, "3 examples", "2"}},
		{"too few values", []tensor.Tensor{ids, with(weight, []int64{2, 5}, make([]float32, 9))}, []string{`"weight"`, "9 values", "want 10"}},
		{"no slice", []tensor.Tensor{ids, with(weight, []int64{2, 5}, 3)}, []string{`"weight"`}},
		{"negative", []tensor.Tensor{with(ids, []int64{-1, -5}, make([]int64, 5)), weight}, []string{`"ids"`, "[-1 -5]"}},
		{"overflow", []tensor.Tensor{with(ids, []int64{1 << 62, 4}, make([]int64, 0)), weight}, []string{`"ids"`}},
		{"many examples of nothing", []tensor.Tensor{with(ids, []int64{1 << 40, 0}, []int64{}), with(weight, []int64{1 << 40, 0}, []float32{})},
			[]string{`"ids"`, "positive"}},
		{"wrong type", []tensor.Tensor{with(ids, []int64{2, 5}, make([]int32, 10)), weight}, []string{`"ids"`, "int64", "int32"}},
		{"wrong shape", []tensor.Tensor{with(ids, []int64{2, 6}, make([]int64, 12)), weight}, []string{`"ids"`, "5", "6"}},
		{"wrong name", []tensor.Tensor{with(tensor.Tensor{Name: "words"}, []int64{2, 5}, make([]int64, 10)), weight}, []string{`"words"`, "ids"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := e.Run(t.Context(), tt.inputs)
			testerr.OneLine(t, err, tt.words...)
		})
	}
	rows, err := e.Run(t.Context(),
		[]tensor.Tensor{with(weight, []int64{0, 5}, []float32{}), with(ids, []int64{0, 5}, []int64{})})
	if err != nil || rows.N != 0 {
		t.Errorf("of no examples came %v, %v", rows, err)
	}
}

func TestImagesAreWhatFilesGive(t *testing.T) {
	t.Parallel()
	e := extractor(t, "conv", Config{})
	ds := openData(t, photos(t, 5, 8, 8, 3), dataset.Options{})
	want, _ := stream(t, e, ds, StreamConfig{})
	var images []goimage.Image
	for i := range 5 {
		img, _, err := goimage.Decode(bytes.NewReader(pngOf(t, pixels(i, 8, 8, 3), 8, 8, 3)))
		if err != nil {
			t.Fatal(err)
		}
		images = append(images, img)
	}
	inputs, err := e.Images(images)
	if err != nil {
		t.Fatal(err)
	}
	rows, err := e.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	same(t, rows.Rows(), &want.Batch)

	_, err = e.Images(nil)
	testerr.OneLine(t, err, "no images")
	_, err = e.Images([]goimage.Image{images[0], goimage.NewGray(goimage.Rect(0, 0, 3, 3))})
	testerr.OneLine(t, err, "image 1", "3×3", "give Preprocess")
	_, err = extractor(t, "tokens", Config{}).Images(images)
	testerr.OneLine(t, err, "2 inputs")
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	_, err := newExtractor("tokens", Config{Preprocess: &preprocess.Spec{}})
	testerr.OneLine(t, err, "2 inputs", "preprocessing")
	_, err = newExtractor("conv", Config{Batch: -1})
	testerr.OneLine(t, err, "-1")
	_, err = newExtractor("conv", Config{Preprocess: &preprocess.Spec{Crop: &preprocess.Crop{Size: 4}}})
	testerr.OneLine(t, err, "4×4", "[N,3,8,8]")
	_, err = newExtractor("conv", Config{Provider: "abacus"})
	testerr.OneLine(t, err, "abacus")
}

func TestTheBatchSizeFitsTheInput(t *testing.T) {
	t.Parallel()
	crop := &preprocess.Spec{Resize: &preprocess.Resize{Size: 8}, Crop: &preprocess.Crop{Size: 8}}
	for _, tt := range []struct {
		model string
		spec  *preprocess.Spec
		want  int
	}{
		{"conv", nil, 256}, {"tokens", nil, 256}, {"batch4", nil, 4},
		{"open", nil, 16},   // which may get 224×224
		{"open", crop, 256}, // which does not
	} {
		if got := extractor(t, tt.model, Config{Preprocess: tt.spec}).Batch(); got != tt.want {
			t.Errorf("%s: batches of %d, want %d", tt.model, got, tt.want)
		}
	}
}

// Where sizes are open, those of the images make batches smaller.
func TestLargeImagesMakeSmallBatches(t *testing.T) {
	t.Parallel()
	for side, want := range map[int]int{8: 16, 400: 4, 1000: 1} {
		const n = 18
		most := 0
		ds := openData(t, photos(t, n, side, side, 3), dataset.Options{})
		_, err := pass(t.Context(), extractor(t, "open", Config{}).Rows, ds, StreamConfig{}, func(b *rows.Batch) error {
			most = max(most, b.N)
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if most != want {
			t.Errorf("images of %d×%d: batches of %d, want %d", side, side, most, want)
		}
	}
}

func BenchmarkStream(b *testing.B) {
	const examples = 20_000
	path := write(b, b.TempDir(), "x-idx3", idx(make([]byte, examples*64), examples, 8, 8))
	ds := openData(b, path, dataset.Options{})
	for _, batch := range []int{256, 1} {
		b.Run(fmt.Sprintf("batch=%d", batch), func(b *testing.B) {
			e := extractor(b, "grey", Config{Batch: batch})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := pass(b.Context(), e.Rows, ds, StreamConfig{},
					func(*rows.Batch) error { return nil }); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(examples)*float64(b.N)/b.Elapsed().Seconds(), "examples/s")
		})
	}
}

// BenchmarkStreamOfPhotos decodes and shrinks, which takes longer than the network.
func BenchmarkStreamOfPhotos(b *testing.B) {
	ds := openData(b, photos(b, 64, 256, 256, 3), dataset.Options{})
	e := extractor(b, "conv", Config{Preprocess: &preprocess.Spec{Resize: &preprocess.Resize{Width: 8, Height: 8}}})
	b.ReportAllocs()
	for b.Loop() {
		if _, err := pass(b.Context(), e.Rows, ds, StreamConfig{}, func(*rows.Batch) error { return nil }); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(64*float64(b.N)/b.Elapsed().Seconds(), "examples/s")
}

// unsuitable is a long stream of JSON lines with words where the model wants numbers. It counts those that were read.
type unsuitable struct {
	line string
	read atomic.Int32
}

const unsuitableLines = 100_000

func (r *unsuitable) Read(p []byte) (int, error) {
	if r.read.Load() == unsuitableLines {
		return 0, io.EOF
	}
	r.read.Add(1)
	return copy(p, r.line), nil
}

// The caller can end the pass at the first record that cannot be read.
func TestSkippedRecordsAreCountedBeforeManyMoreAreRead(t *testing.T) {
	const batch = 4
	w := network(t, "testdata/conv.onnx", Config{Batch: batch})
	list := func(of string, n int) string { return "[" + strings.Repeat(of+",", n-1) + of + "]" }
	lines, stats := &unsuitable{line: `{"image":` + list(list(list(`"x"`, 8), 8), 3) + "}\n"}, &rows.Stats{}
	ds := openData(t, "jsonl:-", dataset.Options{Stream: dataset.NewStream(lines, "-"), Inputs: w.InputNames()})
	for r, err := range w.Results(t.Context(), ds, StreamConfig{MaxBad: math.MaxInt, Stats: stats}) {
		if err != nil || r.N != 0 || len(stats.Bad) != batch {
			t.Errorf("%d results after %d records that cannot be read: %v", r.N, len(stats.Bad), err)
		}
		break
	}
	if lines.read.Load() == unsuitableLines {
		t.Errorf("all %d lines were read", unsuitableLines)
	}
}
