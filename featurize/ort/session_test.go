package ort

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/mfgs/mfgs/internal/testerr"
	"github.com/mfgs/mfgs/onnx/tensor"
)

func graph(t testing.TB, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".onnx"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func session(t testing.TB, c SessionConfig) *Session {
	t.Helper()
	s, err := NewSession(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func TestInputsAndOutputsAreListed(t *testing.T) {
	t.Parallel()
	for name, want := range map[string][2]string{
		"linear":   {"[x [N,3] float32]", "[y [N,2] float32 total [N] float32]"}, // W is an initializer
		"subtract": {"[a [N] float32 b [N] float32]", "[difference [N] float32]"},
		"scalar":   {"[x [N] float32 s [] float32]", "[y [] float32]"},
		"loop":     {"[n [] int64 x [N] float32]", "[y [N] float32]"},
		"half":     {"[x [N] float16]", "[y [N] float16]"},
	} {
		s := session(t, SessionConfig{Graph: graph(t, name)})
		if got := [2]string{fmt.Sprint(s.Inputs()), fmt.Sprint(s.Outputs())}; got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	if got := (Info{Name: "x", Type: tensor.Float32}).String(); got != "x [...] float32" {
		t.Errorf("an unknown rank is written %q", got)
	}
}

func TestOutputsComeInTheOrderAskedFor(t *testing.T) {
	t.Parallel()
	x := tensor.Tensor{Name: "x", Shape: []int64{2, 3}, Data: []float32{1, 0, 0, 0, 1, 1}}
	y := tensor.Tensor{Name: "y", Shape: []int64{2, 2}, Data: []float32{1.5, 1.5, 8.5, 9.5}}
	total := tensor.Tensor{Name: "total", Shape: []int64{2}, Data: []float32{3, 18}}
	for _, test := range []struct {
		outputs []string
		want    []tensor.Tensor
	}{
		{nil, []tensor.Tensor{y, total}},
		{[]string{"total", "y"}, []tensor.Tensor{total, y}},
		{[]string{"total"}, []tensor.Tensor{total}},
	} {
		s := session(t, SessionConfig{Graph: graph(t, "linear"), Outputs: test.outputs})
		got, err := s.Run(t.Context(), []tensor.Tensor{x})
		if err != nil || !reflect.DeepEqual(got, test.want) {
			t.Errorf("outputs %q: got %v, %v; want %v", test.outputs, got, err, test.want)
		}
	}
}

func TestInputsAreTakenByNameOrPosition(t *testing.T) {
	t.Parallel()
	a, b := []float32{5, 7}, []float32{1, 2}
	for _, test := range []struct {
		session []string
		inputs  []tensor.Tensor
	}{
		{nil, []tensor.Tensor{{Data: a}, {Data: b}}},
		{nil, []tensor.Tensor{{Name: "a", Data: a}, {Name: "b", Data: b}}},
		{nil, []tensor.Tensor{{Name: "b", Data: b}, {Name: "a", Data: a}}},
		{nil, []tensor.Tensor{{Name: "a", Data: a}, {Data: b}}},
		{[]string{"b", "a"}, []tensor.Tensor{{Data: b}, {Data: a}}},
	} {
		for i := range test.inputs {
			test.inputs[i].Shape = []int64{2}
		}
		s := session(t, SessionConfig{Graph: graph(t, "subtract"), Inputs: test.session})
		got, err := s.Run(t.Context(), test.inputs)
		if err != nil || !reflect.DeepEqual(got[0].Data, []float32{4, 5}) {
			t.Errorf("%q %v: got %v, %v", test.session, test.inputs, got, err)
		}
	}
}

// oneOfEach has a tensor [2,2] of every element type, as the model types wants.
func oneOfEach() []tensor.Tensor {
	data := []any{
		[]float32{1.5, -2, float32(math.Inf(1)), 0}, []float64{1e300, -2, 3, 4},
		[]int8{-128, 127, 0, 1}, []int16{-32768, 32767, 0, 1}, []int32{math.MinInt32, math.MaxInt32, 0, 1},
		[]int64{math.MinInt64, math.MaxInt64, 0, 1},
		[]uint8{0, 255, 1, 2}, []uint16{0, 65535, 1, 2}, []uint32{0, math.MaxUint32, 1, 2},
		[]uint64{0, math.MaxUint64, 1, 2},
		[]bool{true, false, false, true},
		tensor.Float16Bits{0x3c00, 0xc000, 0x7bff, 0x0001}, tensor.BFloat16Bits{0x3f80, 0xc000, 0x7f7f, 0x0001},
		[]string{"", "one", "zwölf", "a longer string than the others"},
	}
	var tensors []tensor.Tensor
	for _, d := range data {
		t := tensor.Tensor{Shape: []int64{2, 2}, Data: d}
		t.Name = t.Type().String()
		tensors = append(tensors, t)
	}
	return tensors
}

func TestEveryElementTypePasses(t *testing.T) {
	t.Parallel()
	inputs := oneOfEach()
	held := 0
	for typ := range tensor.Type(100) {
		if typ.Holds() {
			held++
		}
	}
	if len(inputs) != held {
		t.Fatalf("%d types are tested, there are %d", len(inputs), held)
	}
	s := session(t, SessionConfig{Graph: graph(t, "types")})
	outputs, err := s.Run(t.Context(), inputs)
	if err != nil {
		t.Fatal(err)
	}
	for i, out := range outputs {
		want := inputs[i]
		want.Name += "_copy"
		if !reflect.DeepEqual(out, want) {
			t.Errorf("got %v, want %v", out, want)
		}
		if info := s.Outputs()[i]; info.Type != out.Type() {
			t.Errorf("%s came as %s", info, out.Type())
		}
	}
	// The outputs share no memory with the next call.
	if _, err := s.Run(t.Context(), inputs); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(outputs[0].Data, inputs[0].Data) {
		t.Error("the second call changed the first one's outputs")
	}
}

func TestRunIntoWritesToTheCallersMemory(t *testing.T) {
	t.Parallel()
	t.Run("float32", func(t *testing.T) {
		s := session(t, SessionConfig{Graph: graph(t, "linear")})
		y, total := make([]float32, 4), make([]float32, 2)
		inputs := []tensor.Tensor{{Shape: []int64{2, 3}, Data: []float32{1, 0, 0, 0, 1, 1}}}
		outputs := []tensor.Tensor{{Name: "total", Shape: []int64{2}, Data: total}, {Name: "y", Shape: []int64{2, 2}, Data: y}}
		if err := s.RunInto(t.Context(), inputs, outputs); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(y, []float32{1.5, 1.5, 8.5, 9.5}) || !slices.Equal(total, []float32{3, 18}) {
			t.Errorf("got %v and %v", y, total)
		}
	})
	t.Run("every type", func(t *testing.T) {
		inputs := slices.DeleteFunc(oneOfEach(), func(t tensor.Tensor) bool { return t.Name == "string" })
		var in, out []string
		outputs := slices.Clone(inputs)
		for i, input := range inputs {
			in, out = append(in, input.Name), append(out, input.Name+"_copy")
			data, err := input.Type().Make(input.Len())
			if err != nil {
				t.Fatal(err)
			}
			outputs[i].Name, outputs[i].Data = "", data
		}
		types := graph(t, "types")
		s, err := NewSession(SessionConfig{Graph: types, Inputs: append(in, "string"), Outputs: out})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if err := s.RunInto(t.Context(),
			append(slices.Clone(inputs), tensor.Tensor{Shape: []int64{2, 2}, Data: make([]string, 4)}),
			outputs); err != nil {
			t.Fatal(err)
		}
		for i := range outputs {
			if !reflect.DeepEqual(outputs[i].Data, inputs[i].Data) {
				t.Errorf("got %v, want %v", outputs[i].Data, inputs[i].Data)
			}
		}
	})
	t.Run("float16 of open shape", func(t *testing.T) {
		s := session(t, SessionConfig{Graph: graph(t, "half")})
		x, y := tensor.Float16Bits{0x3c00, 0xc000, 0x7bff}, make(tensor.Float16Bits, 3)
		inputs := []tensor.Tensor{{Shape: []int64{3}, Data: x}}
		if err := s.RunInto(t.Context(), inputs, []tensor.Tensor{{Shape: []int64{3}, Data: y}}); err != nil ||
			!slices.Equal(x, y) {
			t.Errorf("got %v, %v", y, err)
		}
		_, err := s.Run(t.Context(), inputs)
		testerr.OneLine(t, err, `output "y" is float16 of open shape`, "Cast", "RunInto")
	})
}

func TestAHugeDeclaredOutputIsNotAllocated(t *testing.T) {
	t.Parallel()
	s := session(t, SessionConfig{Graph: graph(t, "half_huge")})
	_, err := s.Run(t.Context(), []tensor.Tensor{{Shape: []int64{1}, Data: tensor.Float16Bits{0}}})
	testerr.OneLine(t, err, `output "y"`, "too large")
}

func TestScalars(t *testing.T) {
	t.Parallel()
	s := session(t, SessionConfig{Graph: graph(t, "scalar")})
	for n := range 3 {
		x := []float32{1, 2, 3}[:n+1]
		got, err := s.Run(t.Context(),
			[]tensor.Tensor{{Shape: []int64{int64(n + 1)}, Data: x}, {Name: "s", Data: []float32{2}}})
		want := []float32{2, 6, 12}[n]
		if err != nil || len(got[0].Shape) != 0 || !reflect.DeepEqual(got[0].Data, []float32{want}) {
			t.Errorf("got %v, %v; want %v", got, err, want)
		}
	}
}

func TestAnEmptyBatchGivesEmptyOutputs(t *testing.T) {
	t.Parallel()
	s := session(t, SessionConfig{Graph: graph(t, "subtract")})
	empty := tensor.Tensor{Shape: []int64{0}, Data: []float32{}}
	got, err := s.Run(t.Context(), []tensor.Tensor{empty, empty})
	if err != nil || !slices.Equal(got[0].Shape, []int64{0}) {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestExternalWeightsAreReadFromTheFolder(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("testdata/external/model.onnx")
	if err != nil {
		t.Fatal(err)
	}
	s := session(t, SessionConfig{Graph: data, Folder: "testdata/external"})
	got, err := s.Run(t.Context(), []tensor.Tensor{{Shape: []int64{256}, Data: make([]float32, 256)}})
	if err != nil {
		t.Fatal(err)
	}
	for i, v := range got[0].Data.([]float32) {
		if v != float32(i) {
			t.Fatalf("weight %d is %v", i, v)
		}
	}
	_, err = NewSession(SessionConfig{Graph: data, Folder: t.TempDir()})
	testerr.OneLine(t, err, "ONNX Runtime rejects the model", "weights.bin")
}

func TestUnsuitableModelsAndConfigsAreRefused(t *testing.T) {
	t.Parallel()
	linear := graph(t, "linear")
	for name, test := range map[string]struct {
		c     SessionConfig
		words []string
	}{
		"nothing":          {SessionConfig{}, []string{"not an ONNX model"}},
		"text":             {SessionConfig{Graph: []byte("hello, world")}, []string{"not an ONNX model"}},
		"truncated":        {SessionConfig{Graph: linear[:len(linear)-7]}, []string{"not an ONNX model"}},
		"unknown input":    {SessionConfig{Graph: linear, Inputs: []string{"z"}}, []string{`no input "z", only x`}},
		"unknown output":   {SessionConfig{Graph: linear, Outputs: []string{"z"}}, []string{`no output "z", only y, total`}},
		"output twice":     {SessionConfig{Graph: linear, Outputs: []string{"y", "y"}}, []string{`"y" is listed twice`}},
		"sequence":         {SessionConfig{Graph: graph(t, "sequence")}, []string{`output "s" is not a tensor`}},
		"sequence input":   {SessionConfig{Graph: graph(t, "sequence_in")}, []string{`input "s" is not a tensor`}},
		"negative threads": {SessionConfig{Graph: linear, Threads: -1}, []string{"threads: want 0 to 1024, got -1"}},
		"too many threads": {SessionConfig{Graph: linear, Threads: 100_000}, []string{"threads: want 0 to 1024, got 100000"}},
		"unknown provider": {SessionConfig{Graph: linear, Provider: "tpu"}, []string{`unknown provider "tpu"`, "cpu, cuda"}},
		"broken node":      {SessionConfig{Graph: []byte(strings.ReplaceAll(string(linear), "Gemm", "Gem!"))}, []string{"ONNX Runtime rejects the model", "Gem!"}},
	} {
		t.Run(name, func(t *testing.T) {
			s, err := NewSession(test.c)
			if s != nil {
				t.Error("got a session")
			}
			testerr.OneLine(t, err, test.words...)
		})
	}
	t.Run("sequence left out", func(t *testing.T) {
		session(t, SessionConfig{Graph: graph(t, "sequence"), Outputs: []string{"y"}})
	})
}

func TestEveryProviderWorksOrSaysWhyNot(t *testing.T) {
	t.Parallel()
	for _, provider := range append(Providers(), "") {
		s, err := NewSession(SessionConfig{Graph: graph(t, "linear"), Provider: provider})
		if err == nil {
			s.Close()
			continue
		}
		var missing *ProviderError
		if !errors.As(err, &missing) || missing.Provider != provider || provider == CPU || provider == "" {
			t.Errorf("%q: got %v", provider, err)
		}
		testerr.OneLine(t, err, "provider "+provider, missing.Library.Path, "use provider cpu")
	}
}

func TestUnsuitableTensorsAreRefused(t *testing.T) {
	t.Parallel()
	linear := session(t, SessionConfig{Graph: graph(t, "linear")})
	subtract := session(t, SessionConfig{Graph: graph(t, "subtract")})
	x := tensor.Tensor{Name: "x", Shape: []int64{2, 3}, Data: make([]float32, 6)}
	with := func(change func(*tensor.Tensor)) []tensor.Tensor {
		t := x
		change(&t)
		return []tensor.Tensor{t}
	}
	for name, test := range map[string]struct {
		s      *Session
		inputs []tensor.Tensor
		words  []string
	}{
		"none":               {linear, nil, []string{"want 1 inputs (x), got 0"}},
		"too many":           {linear, []tensor.Tensor{x, x}, []string{"got 2"}},
		"unknown name":       {linear, with(func(t *tensor.Tensor) { t.Name = "z" }), []string{`no input "z", only x`}},
		"twice":              {subtract, []tensor.Tensor{{Name: "a"}, {Name: "a"}}, []string{`input "a" is given twice`}},
		"twice by position":  {subtract, []tensor.Tensor{{Name: "b"}, {}}, []string{`input "b" is given twice`}},
		"no data":            {linear, with(func(t *tensor.Tensor) { t.Data = nil }), []string{`input "x"`, "<nil> is not the data of a tensor"}},
		"a number":           {linear, with(func(t *tensor.Tensor) { t.Data = 1.5 }), []string{"float64 is not the data of a tensor"}},
		"another type":       {linear, with(func(t *tensor.Tensor) { t.Data = make([]float64, 6) }), []string{`input "x": want float32, got float64`}},
		"float16":            {linear, with(func(t *tensor.Tensor) { t.Data = make(tensor.Float16Bits, 6) }), []string{"want float32, got float16"}},
		"another rank":       {linear, with(func(t *tensor.Tensor) { t.Shape = []int64{6} }), []string{`input "x": want shape [N,3], got [6]`}},
		"another dimension":  {linear, with(func(t *tensor.Tensor) { t.Shape = []int64{3, 2} }), []string{"want shape [N,3], got [3,2]"}},
		"negative dimension": {linear, with(func(t *tensor.Tensor) { t.Shape = []int64{-2, 3} }), []string{"negative dimension"}},
		"overflow":           {linear, with(func(t *tensor.Tensor) { t.Shape = []int64{math.MaxInt64 / 2, 3} }), []string{"too many elements"}},
		"too little data":    {linear, with(func(t *tensor.Tensor) { t.Data = make([]float32, 5) }), []string{"shape [2,3] has 6 elements, the data 5"}},
		"too much data":      {linear, with(func(t *tensor.Tensor) { t.Data = make([]float32, 7) }), []string{"has 6 elements, the data 7"}},
		"unequal lengths": {subtract,
			[]tensor.Tensor{{Shape: []int64{2}, Data: make([]float32, 2)},
				{Shape: []int64{3}, Data: make([]float32, 3)}},
			[]string{"onnx runtime: ", "Sub"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := test.s.Run(t.Context(), test.inputs)
			testerr.OneLine(t, err, test.words...)
		})
	}
	y, total := tensor.Tensor{Shape: []int64{2, 2}, Data: make([]float32, 4)}, tensor.Tensor{Shape: []int64{2},
		Data: make([]float32, 2)}
	for name, test := range map[string]struct {
		outputs []tensor.Tensor
		words   []string
	}{
		"none":          {nil, []string{"want 2 outputs (y, total), got 0"}},
		"another type":  {[]tensor.Tensor{y, {Shape: []int64{2}, Data: make([]int64, 2)}}, []string{`output "total": want float32, got int64`}},
		"no data":       {[]tensor.Tensor{y, {Shape: []int64{2}}}, []string{`output "total"`}},
		"another shape": {[]tensor.Tensor{{Shape: []int64{1, 4}, Data: make([]float32, 4)}, total}, []string{"onnx runtime: "}},
		"scalar":        {[]tensor.Tensor{y, {Data: make([]float32, 1)}}, []string{"neither strings nor scalars"}},
	} {
		t.Run("output "+name, func(t *testing.T) {
			testerr.OneLine(t, linear.RunInto(t.Context(), []tensor.Tensor{x}, test.outputs), test.words...)
		})
	}
}

// forever is an evaluation that does not end by itself in the life of a test.
func forever() []tensor.Tensor {
	return []tensor.Tensor{{Name: "n", Data: []int64{1 << 40}}, {Name: "x", Shape: []int64{1}, Data: []float32{0}}}
}

func TestARunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	s := session(t, SessionConfig{Graph: graph(t, "loop"), Threads: 1})
	ask := errors.New("enough")
	for name, test := range map[string]struct {
		ctx  func() (context.Context, context.CancelFunc)
		want error
	}{
		"before": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			return ctx, cancel
		}, context.Canceled},
		"cancelled": {func() (context.Context, context.CancelFunc) {
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(50*time.Millisecond, cancel)
			return ctx, cancel
		}, context.Canceled},
		"deadline": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeout(t.Context(), 50*time.Millisecond)
		}, context.DeadlineExceeded},
		"cause": {func() (context.Context, context.CancelFunc) {
			return context.WithTimeoutCause(t.Context(), 50*time.Millisecond, ask)
		}, ask},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := test.ctx()
			defer cancel()
			start := time.Now()
			_, err := s.Run(ctx, forever())
			if !errors.Is(err, test.want) {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if took := time.Since(start); took > 5*time.Second {
				t.Errorf("it took %v to end", took)
			}
		})
	}
	// Nothing of it sticks to the session.
	got, err := s.Run(t.Context(), []tensor.Tensor{{Name: "n", Data: []int64{1000}},
		{Name: "x", Shape: []int64{2}, Data: []float32{0, 1}}})
	if err != nil || !reflect.DeepEqual(got[0].Data, []float32{1000, 1001}) {
		t.Errorf("afterwards: got %v, %v", got, err)
	}
}

func TestOneSessionServesManyGoroutines(t *testing.T) {
	t.Parallel()
	s := session(t, SessionConfig{Graph: graph(t, "linear"), Threads: 2})
	loop := session(t, SessionConfig{Graph: graph(t, "loop"), Threads: 1})
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 50 {
				v := float32(100*g + i)
				n := 1 + i%4
				x := make([]float32, 3*n)
				for j := range n {
					x[3*j] = v
				}
				inputs := []tensor.Tensor{{Shape: []int64{int64(n), 3}, Data: x}}
				var y []float32
				if i%2 == 0 {
					out, err := s.Run(t.Context(), inputs)
					if err != nil {
						t.Error(err)
						return
					}
					y = out[0].Data.([]float32)
				} else {
					y = make([]float32, 2*n)
					out := []tensor.Tensor{{Shape: []int64{int64(n), 2}, Data: y},
						{Shape: []int64{int64(n)}, Data: make([]float32, n)}}
					if err := s.RunInto(t.Context(), inputs, out); err != nil {
						t.Error(err)
						return
					}
				}
				for j := range n {
					if y[2*j] != v+0.5 || y[2*j+1] != 2*v-0.5 {
						t.Errorf("goroutine %d, call %d: got %v for %v", g, i, y, v)
						return
					}
				}
			}
		})
		// Beside them, calls that are cancelled do not touch those that are not.
		wg.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Duration(10+g)*time.Millisecond)
			defer cancel()
			if _, err := loop.Run(ctx, forever()); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		})
	}
	wg.Wait()
}

func TestCloseWaitsForRunsAndRefusesMore(t *testing.T) {
	t.Parallel()
	s, err := NewSession(SessionConfig{Graph: graph(t, "loop"), Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	started := make(chan struct{})
	wg.Go(func() {
		close(started)
		_, err := s.Run(t.Context(),
			[]tensor.Tensor{{Name: "n", Data: []int64{20_000}}, {Name: "x", Shape: []int64{1}, Data: []float32{0}}})
		if err != nil && !errors.Is(err, ErrClosed) {
			t.Error(err)
		}
	})
	<-started
	for range 2 {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	_, err = s.Run(t.Context(), forever())
	if !errors.Is(err, ErrClosed) {
		t.Errorf("got %v, want ErrClosed", err)
	}
}

// Calls, failing calls and sessions leave no memory of the runtime behind.
func TestTheRuntimesMemoryDoesNotLeak(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("reads /proc/self/statm")
	}
	resident := func() int {
		runtime.GC()
		data, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		pages, err := strconv.Atoi(strings.Fields(string(data))[1])
		if err != nil {
			t.Fatal(err)
		}
		return pages * os.Getpagesize()
	}
	const n = 1 << 18 // 1 MiB
	s := session(t, SessionConfig{Graph: graph(t, "subtract")})
	good := []tensor.Tensor{{Shape: []int64{n}, Data: make([]float32, n)},
		{Shape: []int64{n}, Data: make([]float32, n)}}
	types := session(t, SessionConfig{Graph: graph(t, "types")})
	each, linear := oneOfEach(), graph(t, "linear")
	refused := []tensor.Tensor{{Shape: []int64{2}, Data: make([]float32, 2)},
		{Shape: []int64{3}, Data: make([]float32, 3)}}
	round := func(times int) {
		for range times {
			if _, err := s.Run(t.Context(), good); err != nil {
				t.Fatal(err)
			}
			if s, err := NewSession(SessionConfig{Graph: linear}); err != nil {
				t.Fatal(err)
			} else if err := s.Close(); err != nil {
				t.Fatal(err)
			}
			for range 50 {
				if _, err := s.Run(t.Context(), refused); err == nil {
					t.Fatal("unequal lengths pass")
				}
				if _, err := types.Run(t.Context(), each); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
	round(20)
	before := resident()
	round(100)
	// One large output lost in each call would be 100 MiB; the handles of the
	// small tensors of 10,000 calls, about 30.
	if grown := resident() - before; grown > 15<<20 {
		t.Errorf("100 rounds grew the process by %d MiB", grown>>20)
	}
}

func FuzzReadInfos(f *testing.F) {
	files, err := filepath.Glob("testdata/*.onnx")
	if err != nil || len(files) == 0 {
		f.Fatal("no models to start from", err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		inputs, outputs, err := readInfos(data)
		if err != nil && !errors.Is(err, errNotONNX) {
			t.Errorf("unexpected error %v", err)
		}
		if err == nil && len(outputs) == 0 {
			t.Error("a model without outputs passes")
		}
		for _, info := range slices.Concat(inputs, outputs) {
			if slices.ContainsFunc(info.Shape, func(d int64) bool { return d < -1 }) {
				t.Errorf("%v has a negative dimension", info)
			}
			_ = info.String()
		}
	})
}

func BenchmarkRun(b *testing.B) {
	for _, spin := range []bool{false, true} {
		b.Run(fmt.Sprintf("spin=%v", spin), func(b *testing.B) {
			s := session(b, SessionConfig{Graph: graph(b, "linear"), Spin: spin})
			x := []tensor.Tensor{{Shape: []int64{1, 3}, Data: make([]float32, 3)}}
			b.ReportAllocs()
			for b.Loop() {
				if _, err := s.Run(b.Context(), x); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
