package oip

import (
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/wrap/serve/oip/inference"
)

// Nothing is allocated for what a request only says that it has.
func TestClaimsAloneTakeNoMemory(t *testing.T) {
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

// Tensors of one request share the limits.
func TestTensorsShareTheLimits(t *testing.T) {
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

// What is asked for before tensors are made is at least what they then take, but for what they share.
func TestMemoryIsAskedForBeforeTensorsAreMade(t *testing.T) {
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
	// The texts of all tensors are no more than the body, and are asked for with the first that has any.
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
