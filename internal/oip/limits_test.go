package oip

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/oip/inference"
)

// Nothing is allocated for data that a request only announces.
func TestAnnouncedSizesAllocateNothing(t *testing.T) {
	type input = inference.ModelInferRequest_InferInputTensor
	message := func(datatype string, n int64, c *inference.InferTensorContents, raw ...[]byte) func() error {
		m := &inference.ModelInferRequest{RawInputContents: raw,
			Inputs: []*input{{Name: "x", Datatype: datatype, Shape: []int64{n}, Contents: c}}}
		return func() error { _, err := RequestFromProto(m, Limits{}); return err }
	}
	text := func(datatype string, n int64, data string) func() error {
		body := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":%q,"shape":[%d],"data":%s}]}`, datatype, n, data)
		return func() error { _, err := ReadRequest([]byte(body), "", Limits{}); return err }
	}
	bytes := func(datatype string, n int64, size int) func() error {
		head := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":%q,"shape":[%d],"parameters":{"binary_data_size":%d}}]}`,
			datatype, n, size)
		body := head + strings.Repeat("\x00", min(size, 100))
		return func() error { _, err := ReadRequest([]byte(body), strconv.Itoa(len(head)), Limits{}); return err }
	}
	const claimed = 4 << 20
	for name, read := range map[string]func() error{
		"JSON":            text("FP64", claimed, "[1]"),
		"strings":         text("BYTES", claimed, `["a"]`),
		"beyond elements": text("UINT8", 1<<40, "[1]"),
		"bytes":           bytes("FP64", claimed, 8*claimed),
		"few bytes":       bytes("FP64", claimed, 8),
		"byte strings":    bytes("BYTES", claimed, 4),
		"raw":             message("FP64", claimed, nil, []byte("12345678")),
		"raw strings":     message("BYTES", claimed, nil, []byte("1234")),
		"contents":        message("INT8", claimed, &inference.InferTensorContents{IntContents: []int32{1}}),
		"no contents":     message("BYTES", claimed, nil),
	} {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := read()
		runtime.ReadMemStats(&after)
		if taken := after.TotalAlloc - before.TotalAlloc; err == nil || taken > 256<<10 {
			t.Errorf("%s: %d bytes were allocated for %v", name, taken, err)
		}
	}
}

// MessageSize bounds the memory of a message and the bytes that it is parsed from, within a fifth if elements are
// numbers.
func TestMessageSizeBoundsTheMemoryOfAMessage(t *testing.T) {
	type contents = inference.InferTensorContents
	const n = 1 << 16
	for name, c := range map[string]struct {
		contents *contents
		most     float64 // times what it takes
	}{
		"bools":   {&contents{BoolContents: make([]bool, n)}, 1.2},
		"int32":   {&contents{IntContents: make([]int32, n)}, 1.2},
		"int64":   {&contents{Int64Contents: make([]int64, n)}, 1.2},
		"uint32":  {&contents{UintContents: make([]uint32, n)}, 1.2},
		"uint64":  {&contents{Uint64Contents: make([]uint64, n)}, 1.2},
		"fp32":    {&contents{Fp32Contents: make([]float32, n)}, 1.2},
		"fp64":    {&contents{Fp64Contents: make([]float64, n)}, 1.2},
		"strings": {&contents{BytesContents: make([][]byte, n)}, 2},
	} {
		for shape, request := range map[string]*inference.ModelInferRequest{
			"": {Inputs: []*inference.ModelInferRequest_InferInputTensor{{Name: "x", Contents: c.contents}}},
			" and a shape": {Inputs: []*inference.ModelInferRequest_InferInputTensor{
				{Name: "x", Contents: c.contents, Shape: make([]int64, n)}}},
		} {
			raw, err := proto.Marshal(request)
			if err != nil {
				t.Fatal(err)
			}
			size, err := MessageSize(raw, Limits{})
			if err != nil {
				t.Fatal(err)
			}
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			err = proto.Unmarshal(raw, &inference.ModelInferRequest{})
			runtime.ReadMemStats(&after)
			took := float64(len(raw)) + float64(after.TotalAlloc-before.TotalAlloc)
			if name == "strings" {
				took = float64(len(raw) + 24*n + 8*len(request.Inputs[0].Shape)) // what the list grew from is not kept
			}
			if err != nil || float64(size) < 0.95*took || float64(size) > c.most*took {
				t.Errorf("%s%s: %d bytes, where %.0f are taken, %v", name, shape, size, took, err)
			}
		}
	}
}

// Messages with too many parts are refused before they are parsed.
func TestMessagesOfTooManyPartsAreRefused(t *testing.T) {
	t.Parallel()
	type request = inference.ModelInferRequest
	type input = inference.ModelInferRequest_InferInputTensor
	type output = inference.ModelInferRequest_InferRequestedOutputTensor
	parameters := func(n int) map[string]*inference.InferParameter {
		m := map[string]*inference.InferParameter{}
		for i := range n {
			m[strconv.Itoa(i)] = &inference.InferParameter{}
		}
		return m
	}
	for name, c := range map[string]struct {
		most    int
		message func(n int) *request
	}{
		"4 inputs":               {4, func(n int) *request { return &request{Inputs: slices.Repeat([]*input{{}}, n)} }},
		"4 outputs":              {4, func(n int) *request { return &request{Outputs: slices.Repeat([]*output{{}}, n)} }},
		"4 raw_input_contents":   {4, func(n int) *request { return &request{RawInputContents: make([][]byte, n)} }},
		"256 parameters":         {256, func(n int) *request { return &request{Parameters: parameters(n)} }},
		"256 parameters of an i": {256, func(n int) *request { return &request{Inputs: []*input{{Parameters: parameters(n)}}} }},
		"256 parameters of an o": {256, func(n int) *request { return &request{Outputs: []*output{{}, {Parameters: parameters(n)}}} }},
	} {
		for _, n := range []int{c.most, c.most + 1} {
			raw, err := proto.Marshal(c.message(n))
			if err != nil {
				t.Fatal(err)
			}
			_, err = MessageSize(raw, small)
			if n > c.most && (StatusOf(err) != TooLarge || !strings.Contains(err.Error(), "more than "+name)) ||
				n == c.most && err != nil {
				t.Errorf("%d of %s: %v", n, name, err)
			}
		}
	}
	_, err := MessageSize([]byte{requestInputs<<3 | 2, 9}, small)
	if StatusOf(err) != Invalid || !strings.Contains(err.Error(), "no message") {
		t.Errorf("of a message that ends early: %v", err)
	}
}

// Tensors of one request share the limits.
func TestTensorsShareTheLimits(t *testing.T) {
	t.Parallel()
	two := func(datatype string, n int) []byte {
		data := "[" + strings.TrimSuffix(strings.Repeat("1,", n), ",") + "]"
		one := func(name string) string {
			return fmt.Sprintf(`{"name":%q,"datatype":%q,"shape":[%d],"data":%s}`, name, datatype, n, data)
		}
		return []byte(`{"inputs":[` + one("a") + "," + one("b") + `]}`)
	}
	for _, c := range []struct {
		datatype string
		n        int
		want     string
	}{
		{"FP32", 50, ""},
		{"FP32", 51, `input "b": shape [51]: tensors of one message have at most 100 elements in all`},
		{"FP64", 32, ""},
		{"FP64", 33, `input "b": shape [33] of FP64: tensors of one message have at most 520 bytes in all`},
	} {
		l := Limits{Bytes: 520, Elements: 100}
		_, err := ReadRequest(two(c.datatype, c.n), "", l)
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%d of %s: %v, want %q", c.n, c.datatype, err, c.want)
		}
	}
}

// The memory that is reserved for tensors is at least what they allocate.
func TestMemoryIsReservedBeforeTensorsAreAllocated(t *testing.T) {
	type input = inference.ModelInferRequest_InferInputTensor
	const n = 1 << 16
	message := func(datatype string, c *inference.InferTensorContents, raw ...[]byte) func(Limits) error {
		m := &inference.ModelInferRequest{RawInputContents: raw,
			Inputs: []*input{{Name: "x", Datatype: datatype, Shape: []int64{n}, Contents: c}}}
		return func(l Limits) error { _, err := RequestFromProto(m, l); return err }
	}
	text := func(datatype, element string) func(Limits) error {
		data := strings.TrimSuffix(strings.Repeat(element+",", n), ",")
		body := fmt.Appendf(nil, `{"inputs":[{"name":"x","datatype":%q,"shape":[%d],"data":[%s]}]}`, datatype, n, data)
		return func(l Limits) error { _, err := ReadRequest(body, "", l); return err }
	}
	binary := func(datatype, element string, awry int) func(Limits) error {
		head := fmt.Sprintf(`{"inputs":[{"name":"x","datatype":%q,"shape":[%d],"parameters":{"binary_data_size":%d}}]}`,
			datatype, n, n*len(element))
		head += strings.Repeat(" ", awry+(-len(head)&7))
		body := []byte(head + strings.Repeat(element, n))
		return func(l Limits) error { _, err := ReadRequest(body, strconv.Itoa(len(head)), l); return err }
	}
	long := strings.Repeat("x", 100)
	for name, c := range map[string]struct {
		read   func(Limits) error
		shared bool
	}{
		"JSON":          {read: text("FP64", "1")},
		"truth":         {read: text("BOOL", "true")},
		"empty strings": {read: text("BYTES", `""`)},
		"short strings": {read: text("BYTES", `"ab"`)},
		"long strings":  {read: text("BYTES", `"`+long+`"`)},
		"bytes":         {read: binary("FP32", "\x00\x00\x00\x00", 0), shared: true},
		"bytes awry":    {read: binary("FP32", "\x00\x00\x00\x00", 1)},
		"empty texts":   {read: binary("BYTES", "\x00\x00\x00\x00", 0)},
		"long texts":    {read: binary("BYTES", "\x64\x00\x00\x00"+long, 0)},
		"raw":           {read: message("INT64", nil, make([]byte, 8*n)), shared: true},
		"raw strings":   {read: message("BYTES", nil, make([]byte, 4*n))},
		"small numbers": {read: message("INT8", &inference.InferTensorContents{IntContents: make([]int32, n)})},
		"strings":       {read: message("BYTES", &inference.InferTensorContents{BytesContents: make([][]byte, n)})},
		"numbers":       {read: message("FP32", &inference.InferTensorContents{Fp32Contents: make([]float32, n)}), shared: true},
	} {
		asked := int64(0)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := c.read(Limits{Reserve: func(bytes int64) error { asked += bytes; return nil }})
		runtime.ReadMemStats(&after)
		took := int64(after.TotalAlloc - before.TotalAlloc)
		if err != nil || took > asked+64<<10 || (asked == 0) != c.shared {
			t.Errorf("%s: %d bytes were asked for, and %d taken, %v", name, asked, took, err)
		}
		none := Errorf(Overloaded, "no memory")
		runtime.ReadMemStats(&before)
		err = c.read(Limits{Reserve: func(int64) error { return none }})
		runtime.ReadMemStats(&after)
		if took := after.TotalAlloc - before.TotalAlloc; !c.shared && (StatusOf(err) != Overloaded || took > 64<<10) {
			t.Errorf("%s: without memory %v, and %d bytes are taken", name, err, took)
		}
	}
	// The texts of all tensors are at most as long as the body, and their memory is requested with the first that has
	// any.
	texts := `{"name":"%s","datatype":"BYTES","shape":[2],"data":["` + strings.Repeat("x", 1000) + `",""]}`
	for name, first := range map[string]string{
		"texts":   texts,
		"numbers": `{"name":"%s","datatype":"FP32","shape":[1],"data":[1]}`,
	} {
		body := fmt.Appendf(nil, `{"inputs":[`+first+`,`+texts+`]}`, "a", "b")
		var asked []int64
		l := Limits{Reserve: func(bytes int64) error { asked = append(asked, bytes); return nil }}
		_, err := ReadRequest(body, "", l)
		want := []int64{2*stringBytes + int64(len(body)), 2 * stringBytes}
		if name == "numbers" {
			want = []int64{4, want[0]}
		}
		if err != nil || !slices.Equal(asked, want) {
			t.Errorf("%s and texts: %d bytes were asked for, want %d, %v", name, asked, want, err)
		}
	}
}
