package arrow

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/apache/arrow-go/v18/arrow"
	"github.com/apache/arrow-go/v18/arrow/array"
	"github.com/apache/arrow-go/v18/arrow/ipc"
	"github.com/apache/arrow-go/v18/arrow/memory"
	"github.com/apache/arrow-go/v18/parquet"
	"github.com/apache/arrow-go/v18/parquet/compress"
	"github.com/apache/arrow-go/v18/parquet/file"
	"github.com/apache/arrow-go/v18/parquet/pqarrow"
	pqschema "github.com/apache/arrow-go/v18/parquet/schema"
	flatbuffers "github.com/google/flatbuffers/go"
	"github.com/mfgs/mfgs/featurize/dataset"
)

// written returns the path of a file with some content.
func written(t testing.TB, name string, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// drain reads a file to its end and returns the first error.
func drain(t testing.TB, path string, o dataset.Options) (first error) {
	t.Helper()
	d, err := dataset.Open(t.Context(), path, o)
	if err != nil {
		return err
	}
	defer d.Close()
	n := 0
	for _, err := range d.Examples(t.Context()) {
		if first == nil {
			first = err
		}
		if n++; n == 10_000 { // a few bytes may hold any number of equal rows
			break
		}
	}
	return first
}

// allocated returns the bytes that f takes.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// parquetOf writes a file of one column of bytes.
func parquetOf(t testing.TB, codec compress.Compression, values ...parquet.ByteArray) []byte {
	t.Helper()
	root, err := pqschema.NewGroupNode("schema", parquet.Repetitions.Required, pqschema.FieldList{
		pqschema.NewByteArrayNode("image", parquet.Repetitions.Required, -1)}, -1)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := file.NewParquetWriter(&b, root, file.WithWriterProps(parquet.NewWriterProperties(
		parquet.WithCompression(codec), parquet.WithDictionaryDefault(false))))
	group, err := w.AppendRowGroupChecked()
	if err != nil {
		t.Fatal(err)
	}
	c, err := group.NextColumn()
	if err == nil {
		_, err = c.(*file.ByteArrayColumnChunkWriter).WriteBatch(values, nil, nil)
	}
	if err == nil {
		err = c.Close()
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// tableOf writes a file of one column.
func tableOf(t testing.TB, values arrow.Array, o ...parquet.WriterProperty) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "x", Type: values.DataType()}}, nil)
	var b bytes.Buffer
	w, err := pqarrow.NewFileWriter(schema, &b, parquet.NewWriterProperties(o...), pqarrow.DefaultWriterProps())
	if err == nil {
		err = w.Write(array.NewRecordBatch(schema, []arrow.Array{values}, int64(values.Len())))
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// Many rows that refer to one large value are in memory one after another: a small file cannot fill it.
func TestRowsThatShareAValue(t *testing.T) {
	const images, size = 256, 4 << 20
	column := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	for range images {
		column.Append(make([]byte, size))
	}
	content := tableOf(t, column.NewArray(), parquet.WithCompression(compress.Codecs.Zstd),
		parquet.WithDictionaryPageSizeLimit(1<<30))
	column.Release()
	if len(content) > 4<<10 {
		t.Fatalf("a file of %d bytes, want a small one", len(content))
	}
	d, err := dataset.Open(t.Context(), written(t, "x.parquet", content), dataset.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	before, n := heap(), 0
	for e, err := range d.Examples(t.Context()) {
		if err != nil || len(e.Encoded) != size {
			t.Fatalf("example %d: %v", n, err)
		}
		if n++; n%64 == 1 {
			if took := heap() - before; took > 16*size {
				t.Fatalf("after %d images %d bytes are in memory", n, took)
			}
		}
	}
	if n != images {
		t.Errorf("%d images, want %d", n, images)
	}
}

// heap returns the bytes that are in use.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// streamOf writes a stream of one column of bytes.
func streamOf(t testing.TB, o ipc.Option, values ...[]byte) []byte {
	t.Helper()
	schema := arrow.NewSchema([]arrow.Field{{Name: "image", Type: arrow.BinaryTypes.Binary}}, nil)
	column := array.NewBinaryBuilder(memory.DefaultAllocator, arrow.BinaryTypes.Binary)
	column.AppendValues(values, nil)
	var b bytes.Buffer
	w := ipc.NewWriter(&b, ipc.WithSchema(schema), o)
	err := w.Write(array.NewRecordBatch(schema, []arrow.Array{column.NewArray()}, int64(len(values))))
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// A small file that decompresses to much is refused before there is room for it.
func TestDecompressionBombsAreRefused(t *testing.T) {
	zeros := make([]byte, freePage+1000)
	for name, content := range map[string][]byte{
		"zstd.parquet": parquetOf(t, compress.Codecs.Zstd, zeros),
		"zstd.arrows":  streamOf(t, ipc.WithZstd(), zeros),
	} {
		path := written(t, name, content)
		var err error
		size := allocated(func() { err = drain(t, path, dataset.Options{}) })
		if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "exceeds") &&
			!strings.Contains(err.Error(), "what is compressed has more than 1024 times its size") {
			t.Errorf("%s of %d bytes: %v", name, len(content), err)
		}
		if size > 16<<20 {
			t.Errorf("%s took %d bytes", name, size)
		}
	}
	// What suits the page's header in words but not in deed.
	big := make([]byte, 8<<20)
	for _, c := range []compress.Compression{compress.Codecs.Snappy, compress.Codecs.Zstd, compress.Codecs.Gzip,
		compress.Codecs.Brotli, compress.Codecs.Lz4Raw} {
		codec, err := compress.GetCodec(c)
		if err != nil {
			t.Fatal(err)
		}
		small := codec.Encode(nil, big)
		var got []byte
		size := allocated(func() { got, err = compress.Decode(codec, make([]byte, 100), small) })
		if err == nil || size > 6<<20 { // windows of decoders

			t.Errorf("%s: 100 bytes became %d, in %d: %v", c, len(got), size, err)
		}
		if got, err = compress.Decode(codec, make([]byte, len(big)), small); err != nil || !bytes.Equal(got, big) {
			t.Errorf("%s: %d bytes became %d: %v", c, len(big), len(got), err)
		}
	}
}

// A fixed shape whose number of elements is right only because it overflows is ignored: the size of the list is used.
func TestShapesThatOverflowAreIgnored(t *testing.T) {
	t.Parallel()
	for shape, want := range map[string][]int{
		"[5,1]": {5, 1}, "[3,6148914691236517207]": {5}, "[4294967296,4294967296,5]": {5}, "[-5,-1]": {5}, "[0]": {5},
	} {
		schema := arrow.NewSchema([]arrow.Field{{
			Name: "x", Type: arrow.FixedSizeListOf(5, arrow.PrimitiveTypes.Float32),
			Metadata: arrow.NewMetadata([]string{extensionName, extensionMetadata},
				[]string{fixedShapeTensor, `{"shape":` + shape + `}`}),
		}}, nil)
		if got := fieldOf(schema.Field(0)).shape; !slices.Equal(got, want) {
			t.Errorf("%s: %v, want %v", shape, got, want)
		}
	}
}

// Images that are longer than what is buffered of a page, and a page with many of them, are read whole.
func TestLongPages(t *testing.T) {
	t.Parallel()
	image := append(bytes.Repeat([]byte("noise in many bytes, "), 60_000), make([]byte, 100)...)
	for i := range image {
		image[i] ^= byte(i * i >> 7)
	}
	var values [][]byte
	var arrays []parquet.ByteArray
	for i := range 6 {
		values, arrays = append(values, image[i:]), append(arrays, image[i:])
	}
	for name, content := range map[string][]byte{
		"none.parquet": parquetOf(t, compress.Codecs.Uncompressed, arrays...),
		"snap.parquet": parquetOf(t, compress.Codecs.Snappy, arrays...),
		"zstd.parquet": parquetOf(t, compress.Codecs.Zstd, arrays...),
		"gzip.parquet": parquetOf(t, compress.Codecs.Gzip, arrays...),
		"lz4.arrows":   streamOf(t, ipc.WithLZ4(), values...),
	} {
		path := written(t, name, content)
		for _, spec := range []string{path, path + "[3:5]"} {
			d, err := dataset.Open(t.Context(), spec, dataset.Options{})
			if err != nil {
				t.Fatal(err)
			}
			at, _ := d.Slice()
			for e, err := range d.Examples(t.Context()) {
				if err != nil || e.Index != at || !bytes.Equal(e.Encoded, values[at]) {
					t.Fatalf("%s: example %d, %d: %d bytes, %v", name, at, e.Index, len(e.Encoded), err)
				}
				at++
			}
			if _, to := d.Slice(); at != to {
				t.Errorf("%s: read to %d, want %d", name, at, to)
			}
			d.Close()
		}
	}
}

// Inconsistent footers are refused before the library reads them.
func TestInconsistentFootersAreRefused(t *testing.T) {
	t.Parallel()
	str := func(s string) []byte { return append([]byte{byte(len(s))}, s...) }
	element := func(name string, children byte) []byte {
		b := append([]byte{0x48}, str(name)...) // field 4, name
		if children > 0 {
			b = append(b, 0x15, 2*children) // field 5, num_children
		}
		return append(b, 0)
	}
	schema := func(elements ...[]byte) []byte {
		return append(append([]byte{0x29, byte(len(elements)<<4) | 12}, bytes.Join(elements, nil)...), 0) // field 2
	}
	deep := append([]byte{0x29, 0xfc, 100}, bytes.Repeat(element("a", 1), 99)...)
	deep = append(append(deep, element("z", 0)...), 0)
	if err := checkFooter(schema(element("root", 1), element("x", 0))); err != nil {
		t.Errorf("a sound schema: %v", err)
	}
	for want, footer := range map[string][]byte{
		"a schema of 1000000 elements":               {0x29, 0xfc, 0xc0, 0x84, 0x3d, 0},
		"a list of 1000000 elements in":              {0x49, 0xf5, 0xc0, 0x84, 0x3d, 0},
		"a text of 1000000 bytes":                    {0x48, 0xc0, 0x84, 0x3d, 0},
		"element 0 of the schema has 63":             schema(element("root", 63), element("x", 0)),
		"element 1 of the schema has -1":             schema(element("root", 1), []byte{0x55, 1, 0}),
		"the schema is cut off":                      schema(element("root", 1))[:1],
		"element 1 of the schema has 0":              schema(element("root", 0), element("x", 0)),
		"nested deeper than 64":                      bytes.Repeat([]byte{0x1c}, 100),
		"deeper":                                     append([]byte{0x39}, bytes.Repeat([]byte{0x19}, 100)...),
		"element 65 of the schema has 1":             deep,
		"is cut off":                                 {0x15},
		"unknown type 14":                            {0x1e},
		"a schema of 1 elements, want at most 65536": append(schema(element("root", 0))[:len(schema(element("root", 0)))-1], 0x09, 4, 0x1c, 0),
	} {
		if want == "the schema is cut off" {
			footer = []byte{0x29, 0x0c, 0}
		}
		err := checkFooter(footer)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("% x: %v, want %q", footer[:min(len(footer), 20)], err, want)
		}
	}
	plain, err := os.ReadFile("testdata/table.parquet")
	if err != nil {
		t.Fatal(err)
	}
	long := bytes.Clone(plain)
	binary.LittleEndian.PutUint32(long[len(long)-8:], 1<<31)
	longer := bytes.Clone(plain)
	binary.LittleEndian.PutUint32(longer[len(longer)-8:], uint32(len(plain)))
	encrypted := append(bytes.Clone(plain[:len(plain)-4]), "PARE"...)
	for want, content := range map[string][]byte{
		"2147483648 bytes, want at most 67108864": long, "bytes in a file of": longer, "is encrypted": encrypted,
		"truncated, or not a Parquet file": plain[:len(plain)-1], "not a Parquet file: 5 bytes": plain[:5],
	} {
		path := written(t, "x.parquet", content)
		if err := drain(t, path, dataset.Options{}); err == nil || !strings.Contains(err.Error(), want) ||
			!strings.HasPrefix(err.Error(), path+": ") {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Deltas whose blocks, or values, are more than there are bytes for are refused.
func TestDeltasBeyondTheirBytesAreRefused(t *testing.T) {
	t.Parallel()
	head := func(values ...uint64) (b []byte) {
		for _, v := range values {
			b = binary.AppendUvarint(b, v)
		}
		return b
	}
	for _, c := range []struct {
		data []byte
		ok   bool
	}{
		{head(128, 4, 1, 7), true},
		{append(head(128, 4, 33, 7, 0), 1, 0, 0, 0, 1, 2, 3, 4), true},
		{append(head(128, 4, 33, 7, 0), 1, 0, 0, 0, 1, 2, 3), false},
		{append(head(128, 4, 33, 7, 0), 65, 0, 0, 0), false},
		{head(1<<32-128, 1, 5, 7), false},
		{head(128, 4, 1<<31, 7), false},
		{head(128, 0, 1, 7), false},
		{head(128, 3, 1, 7), false},
		{head(128), false},
	} {
		if _, err := checkDeltas(c.data, 1000); (err == nil) != c.ok {
			t.Errorf("% x: %v", c.data, err)
		}
	}
}

// A builder makes messages that no writer would.
func message(kind byte, body int64, content func(b *flatbuffers.Builder) flatbuffers.UOffsetT) []byte {
	b := flatbuffers.NewBuilder(0)
	c := content(b)
	b.StartObject(5)
	b.PrependByteSlot(1, kind, 0)
	b.PrependUOffsetTSlot(2, c, 0)
	b.PrependInt64Slot(3, body, 0)
	b.Finish(b.EndObject())
	return b.FinishedBytes()
}

// Inconsistent metadata of messages are refused before the library reads them.
func TestInconsistentMessagesAreRefused(t *testing.T) {
	vector := func(b *flatbuffers.Builder, of ...flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		b.StartVector(4, len(of), 4)
		for _, o := range of {
			b.PrependUOffsetT(o)
		}
		return b.EndVector(len(of))
	}
	field := func(b *flatbuffers.Builder, slot int, v flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		b.StartObject(7)
		b.PrependUOffsetTSlot(slot, v, 0)
		return b.EndObject()
	}
	schema := func(b *flatbuffers.Builder, fields flatbuffers.UOffsetT) flatbuffers.UOffsetT {
		b.StartObject(4)
		b.PrependUOffsetTSlot(1, fields, 0)
		return b.EndObject()
	}
	// Each field has the next one twice: 2^40 of them.
	doubled := func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		children := vector(b)
		for range 40 {
			f := field(b, 5, children)
			children = vector(b, f, f)
		}
		return schema(b, children)
	}
	deep := func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		children := vector(b)
		for range 100 {
			children = vector(b, field(b, 5, children))
		}
		return schema(b, children)
	}
	// A thousand fields with one name, of a megabyte.
	named := func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		f := field(b, 0, b.CreateString(strings.Repeat("a", 1<<20)))
		of := make([]flatbuffers.UOffsetT, 1000)
		for i := range of {
			of[i] = f
		}
		return schema(b, vector(b, of...))
	}
	views := func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		b.StartVector(8, 1, 8)
		b.PrependInt64(1 << 33)
		counts := b.EndVector(1)
		b.StartObject(5)
		b.PrependUOffsetTSlot(4, counts, 0)
		return b.EndObject()
	}
	rows := func(n int64) func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		return func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
			b.StartObject(5)
			b.PrependInt64Slot(0, n, 0)
			return b.EndObject()
		}
	}
	swapped := func(b *flatbuffers.Builder) flatbuffers.UOffsetT {
		b.StartObject(4)
		b.PrependInt16Slot(0, 1, 0)
		return b.EndObject()
	}
	for _, c := range []struct {
		want string
		data []byte
	}{
		{"more than 65536 columns", message(schemaMessage, 0, doubled)},
		{"nested deeper than 64", message(schemaMessage, 0, deep)},
		{"more than 67108864 bytes of names", message(schemaMessage, 0, named)},
		{"big-endian numbers", message(schemaMessage, 0, swapped)},
		{"a column of 8589934592 buffers", message(batchMessage, 0, views)},
		{"a batch of -1 rows", message(batchMessage, 0, rows(-1))},
		{"a batch of 1099511627776 rows", message(batchMessage, 0, rows(1<<40))},
		{"-1 bytes, want at most 1073741824", message(batchMessage, -1, rows(1))},
		{"4611686018427387904 bytes, want at most 1073741824", message(batchMessage, 1<<62, rows(1))},
		{"neither a schema", message(9, 0, rows(1))},
		{"refer to what is not there", []byte{255, 255, 255, 127, 0, 0, 0, 0}},
	} {
		var err error
		size := allocated(func() { _, err = inspect(c.data) })
		if err == nil || !strings.Contains(err.Error(), c.want) || size > 1<<20 {
			t.Errorf("%v, want %q; %d bytes", err, c.want, size)
		}
	}
	if h, err := inspect(message(batchMessage, 8, rows(3))); err != nil || h.rows != 3 || h.body != 8 {
		t.Errorf("a sound batch is %+v, %v", h, err)
	}
}

// A file that is cut off anywhere is refused or, where whole messages are left of a stream, shorter; and
// one with a byte changed is read or refused: neither ends the program.
func TestBrokenFiles(t *testing.T) {
	t.Parallel()
	for name, input := range map[string]string{"hf.parquet": "", "delta.parquet": "text", "lengths.parquet": "text",
		"features.parquet": "features", "hf.arrows": "", "binary.arrow": "", "grown.arrows": "kind", "views.arrows": "text",
		"polars.arrow": "count"} {
		o := dataset.Options{LabelClasses: []string{"cat", "dog", "emu", "a", "b"}}
		if input != "" {
			o.Inputs = []string{input}
		}
		whole, err := os.ReadFile("testdata/" + name)
		if err != nil {
			t.Fatal(err)
		}
		path := written(t, name, nil)
		try := func(content []byte) error {
			if err := os.WriteFile(path, content, 0o600); err != nil {
				t.Fatal(err)
			}
			return drain(t, path, o)
		}
		if err := try(whole); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for n := 1; n < len(whole); n += max(7, len(whole)/80) {
			err := try(whole[:n])
			if err == nil && !strings.HasSuffix(name, ".arrows") {
				t.Errorf("%s is read of %d bytes of %d", name, n, len(whole))
			}
			changed := bytes.Clone(whole)
			changed[n] ^= 0xff
			_ = try(changed)
		}
	}
}

// options are those that fuzzing tries.
var options = []dataset.Options{
	{}, {Unlabelled: true}, {Inputs: []string{"features", "logits"}}, {Inputs: []string{"x"}, Widths: []int{4}, Classes: 3},
	{Inputs: []string{"text"}, IgnoreUnknownLabels: true}, {Inputs: []string{"nested", "kind"}}, {MultiLabel: true},
}

// fuzz opens and reads files that begin as those in testdata, and holds their memory against a bound.
func fuzz(f *testing.F, ext string, names ...string) {
	for _, name := range names {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		for i := range options {
			f.Add(content, uint8(i))
		}
	}
	f.Fuzz(func(t *testing.T, content []byte, option uint8) {
		path := written(t, "x"+ext, content)
		o := options[int(option)%len(options)]
		size := allocated(func() { _ = drain(t, path, o) })
		// Each of some columns has a page or body of up to freePage bytes, with that length in its header.
		if most := uint64(20 * freePage); size > most {
			t.Errorf("%d bytes in a file of %d took %d", most, len(content), size)
		}
	})
}

func FuzzParquet(f *testing.F) {
	fuzz(f, ".parquet", "hf.parquet", "delta.parquet", "lengths.parquet", "features.parquet", "table.parquet", "gaps.parquet",
		"snappy.parquet", "gzip.parquet", "lz4.parquet")
}

func FuzzArrow(f *testing.F) {
	fuzz(f, ".arrows", "hf.arrows", "binary.arrow", "grown.arrows", "gaps.arrows", "views.arrows", "lz4.arrow", "zstd.feather",
		"polars.arrow")
}

func FuzzFooter(f *testing.F) {
	for _, name := range []string{"hf.parquet", "table.parquet"} {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		end := len(content) - 8
		f.Add(content[end-int(binary.LittleEndian.Uint32(content[end:])) : end])
	}
	f.Fuzz(func(t *testing.T, footer []byte) {
		if size := allocated(func() { _ = checkFooter(footer) }); size > 1<<20+64*uint64(len(footer)) {
			t.Errorf("%d bytes took %d", len(footer), size)
		}
	})
}

func FuzzMessage(f *testing.F) {
	for _, name := range []string{"hf.arrows", "views.arrows", "grown.arrows"} {
		content, err := os.ReadFile("testdata/" + name)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(content[8:])
	}
	f.Fuzz(func(t *testing.T, metadata []byte) {
		if size := allocated(func() { _, _ = inspect(metadata) }); size > 1<<20 {
			t.Errorf("%d bytes took %d", len(metadata), size)
		}
	})
}
