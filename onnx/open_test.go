package onnx

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/mfgs/mfgs/internal/onnx/graph"
	"github.com/mfgs/mfgs/internal/onnx/onnxpb"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx/tensor"
)

func eachFixture(t *testing.T, do func(t *testing.T, path string)) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(onnxtest.Fixtures, "*.onnx"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no fixtures: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".onnx"), func(t *testing.T) { do(t, path) })
	}
}

// plain decodes a model as protobuf alone does, weights and all: the slow twin of scanning.
func plain(t *testing.T, b []byte) *onnxpb.Model {
	t.Helper()
	m := new(onnxpb.Model)
	if err := proto.Unmarshal(b, m); err != nil {
		t.Fatal(err)
	}
	// Bytes writes large float_data as raw data, the same bytes.
	eachTensor(m, func(x *onnxpb.Tensor) error {
		if n := 4 * len(x.FloatData); n >= spanMin && x.GetDataType() == int32(tensor.Float32) {
			packed := onnxtest.Marshal(t, &onnxpb.Tensor{FloatData: x.FloatData})
			x.RawData, x.FloatData = packed[len(packed)-n:], nil
		}
		return nil
	})
	return m
}

func TestBytesGivesBackWhatWasRead(t *testing.T) {
	t.Parallel()
	eachFixture(t, func(t *testing.T, path string) {
		if filepath.Base(path) == "external.onnx" {
			return // Bytes takes its weights in: see TestExternalData
		}
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		fromMemory, err := Parse("model", b)
		if err != nil {
			t.Fatal(err)
		}
		fromFile, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range []*Model{fromMemory, fromFile} {
			got, err := m.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			want, err := graph.Inline(plain(t, b))
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(plain(t, got), want) {
				t.Error("the model has changed")
			}
			if sum := sha256.Sum256(b); m.SHA256() != hex.EncodeToString(sum[:]) {
				t.Errorf("SHA-256 %s is not the file's", m.SHA256())
			}
		}
	})
}

func TestUnknownFieldsSurvive(t *testing.T) {
	t.Parallel()
	unknown := protowire.AppendTag(nil, 12345, protowire.BytesType)
	unknown = protowire.AppendString(unknown, "of a newer version")
	pb := onnxtest.Network()
	pb.Graph.Node[0].Attribute = []*onnxpb.Attribute{onnxpb.IntAttribute("axis", 0)}
	messages := []proto.Message{pb, pb.Graph, pb.Graph.Node[0], pb.Graph.Node[0].Attribute[0], pb.Graph.Initializer[0],
		pb.Graph.Input[0], pb.Graph.Input[0].Type}
	for _, m := range messages {
		m.ProtoReflect().SetUnknown(unknown)
	}
	m, err := Parse("model", onnxtest.Marshal(t, pb))
	if err != nil {
		t.Fatal(err)
	}
	b, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	if !proto.Equal(plain(t, b), pb) {
		t.Error("unknown fields were lost")
	}
	if n := bytes.Count(b, unknown); n != len(messages) {
		t.Errorf("%d unknown fields are left of %d", n, len(messages))
	}
}

func TestLargeTensorsStayInTheFile(t *testing.T) {
	t.Parallel()
	kept := 0
	eachFixture(t, func(t *testing.T, path string) {
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		eachTensor(m.pb, func(x *onnxpb.Tensor) error {
			if n := max(len(x.RawData), 4*len(x.FloatData), 8*len(x.DoubleData)); n >= spanMin {
				t.Errorf("tensor %q holds %d bytes in memory", x.GetName(), n)
			}
			if x.Span != nil {
				kept++
			}
			return nil
		})
	})
	// Initializers, Constant nodes, both branches of an If, and a function.
	if kept < 8 {
		t.Errorf("only %d tensors were left in files", kept)
	}
}

func TestOpenTakesMemoryForTheGraphOnly(t *testing.T) {
	path := onnxtest.SparseModel(t, 64<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	m, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Runnable(); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 1<<20 {
		t.Errorf("allocated %d KiB for a model of one node", got>>10)
	}
	runtime.KeepAlive(m)
}

// Every inconsistent model is refused, with an error that names the inconsistency.
func TestParseRefuses(t *testing.T) {
	t.Parallel()
	initializer := func(change func(*onnxpb.Tensor)) func(*onnxpb.Model) {
		return func(m *onnxpb.Model) { change(m.Graph.Initializer[0]) }
	}
	for _, tt := range []struct {
		what   string
		change func(*onnxpb.Model)
		want   string
	}{
		{"no graph", func(m *onnxpb.Model) { m.Graph = nil }, "no graph"},
		{"no operator set", func(m *onnxpb.Model) { m.OpsetImport = nil }, "no operator set"},
		{"dimensions that overflow", initializer(func(w *onnxpb.Tensor) {
			w.Dims = []int64{1 << 31, 1 << 31,
				1 << 31}
		}), "is impossible"},
		{"dimensions that wrap to the right size",
			initializer(func(w *onnxpb.Tensor) { w.Dims = []int64{1 << 32, 1 << 32, 512} }), "is impossible"},
		{"a negative dimension", initializer(func(w *onnxpb.Tensor) { w.Dims = []int64{-16, -32} }), "is impossible"},
		{"a payload too short", initializer(func(w *onnxpb.Tensor) { w.RawData = w.RawData[:2000] }),
			"needs 2048 bytes and has 2000"},
		{"a small payload too long", initializer(func(w *onnxpb.Tensor) { w.Dims = []int64{1}; w.RawData = w.RawData[:8] }),
			"needs 4 bytes and has 8"},
		{"no payload", initializer(func(w *onnxpb.Tensor) { w.RawData = nil }), "needs 512 elements and has 0"},
		{"too few numbers", initializer(func(w *onnxpb.Tensor) { w.RawData, w.FloatData = nil, make([]float32, 100) }),
			"needs 512 elements and has 100"},
		{"two payloads", initializer(func(w *onnxpb.Tensor) { w.FloatData = make([]float32, 512) }),
			"more than one payload"},
		{"another type", initializer(func(w *onnxpb.Tensor) { w.DataType = proto.Int32(int32(tensor.Float64)) }),
			"needs 4096 bytes and has 2048"},
		{"strings as raw data", initializer(func(w *onnxpb.Tensor) { w.DataType = proto.Int32(int32(tensor.String)) }),
			"strings cannot be raw data"},
		{"a tensor in a subgraph", func(m *onnxpb.Model) {
			m.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("body"), G: &onnxpb.Graph{
				Node: []*onnxpb.Node{onnxtest.Node("Constant", "", "c", &onnxpb.Attribute{Name: proto.String("value"),
					T: &onnxpb.Tensor{Name: proto.String("deep"), Dims: []int64{1 << 62}}})}}}}
		}, `tensor "deep": its shape [4611686018427387904] is impossible`},
		{"external data in memory", initializer(func(w *onnxpb.Tensor) {
			w.RawData, w.DataLocation = nil, proto.Int32(1)
			w.ExternalData = []*onnxpb.Entry{{Key: proto.String("location"), Value: proto.String("w.bin")}}
		}), "cannot have external data"},
		{"a span of its own", initializer(func(w *onnxpb.Tensor) {
			w.RawData = nil
			w.Span = &onnxpb.Span{Offset: proto.Int64(0), Length: proto.Int64(2048)}
		}), "needs 512 elements and has 0"},
		{"two inputs of one name", func(m *onnxpb.Model) { m.Graph.Input = append(m.Graph.Input, m.Graph.Input[0]) },
			`two graph inputs are named "x"`},
		{"two initializers of one name",
			func(m *onnxpb.Model) {
				m.Graph.Initializer = append(m.Graph.Initializer,
					m.Graph.Initializer[0])
			}, `two initializers are named "w"`},
		{"a tensor made twice", func(m *onnxpb.Model) {
			m.Graph.Node = append(m.Graph.Node,
				onnxtest.Node("Relu", "x", "y"))
		}, `"y" is computed twice`},
		{"a node that makes an input", func(m *onnxpb.Model) {
			m.Graph.Node = append(m.Graph.Node,
				onnxtest.Node("Relu", "y", "x"))
		}, `"x" is computed twice`},
		{"an input from nowhere", func(m *onnxpb.Model) { m.Graph.Node[0].Input[0] = "nowhere" },
			`reads "nowhere", which no node computes`},
		{"an output from nowhere", func(m *onnxpb.Model) { m.Graph.Output[0].Name = proto.String("z") },
			`no node computes the output "z"`},
		{"a cycle", func(m *onnxpb.Model) {
			m.Graph.Node = []*onnxpb.Node{onnxtest.Node("MatMul", "b w", "y"), onnxtest.Node("Relu", "y", "a"),
				onnxtest.Node("Relu", "a", "b")}
		}, "the graph has a cycle"},
		{"a node that reads itself", func(m *onnxpb.Model) { m.Graph.Node[0].Input[0] = "y" }, "the graph has a cycle"},
		{"a cycle through a subgraph", func(m *onnxpb.Model) {
			m.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("body"),
				G: &onnxpb.Graph{Node: []*onnxpb.Node{onnxtest.Node("Relu", "y", "inner")}}}}
		}, "the graph has a cycle"},
		{"subgraphs without end", func(m *onnxpb.Model) {
			g := new(onnxpb.Graph)
			for range 200 {
				g = &onnxpb.Graph{Node: []*onnxpb.Node{{Attribute: []*onnxpb.Attribute{{G: g}}}}}
			}
			m.Graph.Node[0].Attribute = []*onnxpb.Attribute{{G: g}}
		}, "nested more than"},
	} {
		t.Run(tt.what, func(t *testing.T) {
			pb := onnxtest.Network()
			tt.change(pb)
			m, err := Parse("model", onnxtest.Marshal(t, pb))
			if err == nil {
				t.Fatalf("accepted: %v", m)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.HasPrefix(err.Error(), "model: ") ||
				strings.Contains(err.Error(), "\n") {
				t.Errorf("refused with %q, want one line with %q", err, tt.want)
			}
		})
	}
}

func TestParseRefusesOtherFiles(t *testing.T) {
	t.Parallel()
	length := func(n uint64) []byte { // a graph that says it has n bytes
		return protowire.AppendVarint(protowire.AppendTag(nil, 7, protowire.BytesType), n)
	}
	crowd := func(field protowire.Number, n int) []byte { // of no bytes, each of which would take hundreds in memory
		fields := bytes.Repeat(protowire.AppendBytes(protowire.AppendTag(nil, field, protowire.BytesType), nil), n)
		return append(length(uint64(len(fields))), fields...)
	}
	for _, tt := range []struct {
		name string
		data []byte
		want string
	}{
		{"empty", nil, "not an ONNX model: the file is empty"},
		{"text", []byte("<!DOCTYPE html><html><head><title>404</title>"), "not an ONNX model"},
		{"LFS pointer", []byte("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n"), "git lfs pull"},
		{"zeros", make([]byte, 100), "invalid protobuf tag"},
		{"huge length", length(1 << 62), "needs 4611686018427387904 bytes and 0 are left"},
		{"length that wraps", length(1<<64 - 1), "bytes and 0 are left"},
		{"endless number", bytes.Repeat([]byte{0xff}, 100), "invalid protobuf number"},
		{"group", protowire.AppendTag(nil, 7, protowire.StartGroupType), "invalid protobuf wire type"},
		{"crowd of nodes", crowd(1, maxGraphNodes+1), "the model has more than 131072 nodes"},
		{"crowd of types", crowd(13, maxMessages+1), "more than 4194304 protobuf messages"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := Parse("model", tt.data)
			if err == nil {
				t.Fatalf("accepted: %v", m)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("refused with %q, want %q", err, tt.want)
			}
		})
	}
}

func TestParseRefusesEveryTruncation(t *testing.T) {
	t.Parallel()
	b := onnxtest.Fixture(t, "torch_softmax.onnx")
	for n := range len(b) {
		if _, err := Parse("model", b[:n]); err == nil {
			t.Errorf("the first %d of %d bytes were accepted", n, len(b))
		}
	}
}

func TestOpenNamesThePath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	junk := filepath.Join(dir, "junk.onnx")
	if err := os.WriteFile(junk, []byte("junk"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{junk, dir, filepath.Join(dir, "missing.onnx")} {
		if _, err := Open(path); err == nil || !strings.Contains(err.Error(), filepath.Base(path)) {
			t.Errorf("opening %s: %v", path, err)
		}
	}
}

func TestOneFileIsWhatBytesGives(t *testing.T) {
	t.Parallel()
	m, err := Open(filepath.Join(onnxtest.Fixtures, "external.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	want, err := m.Bytes()
	if err != nil {
		t.Fatal(err)
	}
	files, err := m.Files("model.onnx")
	if err != nil || len(files) != 1 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	var got bytes.Buffer
	if err := files[0].Write(&got); err != nil || !bytes.Equal(got.Bytes(), want) || files[0].Size != int64(len(want)) {
		t.Errorf("%d bytes, said to be %d, are not what Bytes gives (%v)", got.Len(), files[0].Size, err)
	}
}

func TestRunnableRefersToWeightsInPlace(t *testing.T) {
	t.Parallel()
	eachFixture(t, func(t *testing.T, path string) {
		m, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		full, err := m.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		if !proto.Equal(followed(t, m), plain(t, full)) {
			t.Error("the graph is not the model")
		}
	})
}

// followed is what Runnable gives, with the references to files followed by hand.
func followed(t *testing.T, m *Model) *onnxpb.Model {
	t.Helper()
	graph, folder, err := m.Runnable()
	if err != nil {
		t.Fatal(err)
	}
	got := plain(t, graph)
	eachTensor(got, func(x *onnxpb.Tensor) error {
		if x.GetDataLocation() != 1 {
			return nil
		}
		var location string
		var offset, length int
		for _, e := range x.ExternalData {
			switch e.GetKey() {
			case "location":
				location = e.GetValue()
			case "offset":
				fmt.Sscan(e.GetValue(), &offset)
			case "length":
				fmt.Sscan(e.GetValue(), &length)
			}
		}
		b, err := os.ReadFile(filepath.Join(folder, location))
		if err != nil {
			t.Fatal(err)
		}
		x.RawData, x.ExternalData, x.DataLocation = b[offset:][:length], nil, nil
		return nil
	})
	return got
}

func TestModelFromMemoryIsRunnableInOnePiece(t *testing.T) {
	t.Parallel()
	b := onnxtest.Fixture(t, "torch_large.onnx")
	m, err := Parse("model", b)
	if err != nil {
		t.Fatal(err)
	}
	graph, folder, err := m.Runnable()
	if err != nil || folder != "" || m.Path() != "" {
		t.Fatalf("folder %q, path %q, error %v", folder, m.Path(), err)
	}
	if !proto.Equal(plain(t, graph), plain(t, b)) {
		t.Error("the graph is not the model")
	}
}

func TestExternalData(t *testing.T) {
	t.Parallel()
	entry := func(list ...string) (entries []*onnxpb.Entry) {
		for i := 0; i < len(list); i += 2 {
			entries = append(entries, &onnxpb.Entry{Key: &list[i], Value: &list[i+1]})
		}
		return entries
	}
	weights := onnxtest.Network().Graph.Initializer[0].RawData
	// A hub cache: model and data are links into a folder of blobs. Beside it, things no model may
	// reach.
	dir := t.TempDir()
	blobs, snapshot, outside := filepath.Join(dir, "blobs"), filepath.Join(dir, "snapshot"), filepath.Join(dir,
		"outside")
	for _, d := range []string{blobs, snapshot, outside, filepath.Join(blobs, "sub")} {
		if err := os.Mkdir(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, data := range map[string][]byte{
		filepath.Join(blobs, "blob2"): append([]byte("skip"), weights...), filepath.Join(blobs, "sub",
			"data"): weights, filepath.Join(outside, "secret"): weights,
		filepath.Join(outside, "linked"): weights, filepath.Join(blobs, "with\x01control and space"): weights,
		filepath.Join(blobs, "_ORT_MEM_ADDR_"): weights} {
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{
		filepath.Join(snapshot, "model.onnx"): "../blobs/blob1", filepath.Join(snapshot,
			"model.onnx.data"): "../blobs/blob2",
		filepath.Join(blobs, "link_out"): "../outside/secret", filepath.Join(blobs,
			"folder_out"): "../outside", filepath.Join(blobs, "absolute_out"): filepath.Join(outside, "secret"),
		filepath.Join(blobs, "link_in"): "sub/data", filepath.Join(blobs, "loop"): "loop", filepath.Join(blobs,
			"device"): "/dev/null",
		filepath.Join(blobs, "chain"): "folder_out/back", filepath.Join(outside,
			"back"): "../blobs/sub/data", filepath.Join(blobs, "to_hard"): "hard"} {
		if err := os.Symlink(to, link); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Link(filepath.Join(outside, "linked"), filepath.Join(blobs, "hard")); err != nil {
		t.Fatal(err)
	}
	open := func(entries []*onnxpb.Entry) (*Model, error) {
		pb := onnxtest.Network()
		w := pb.Graph.Initializer[0]
		w.RawData, w.DataLocation, w.ExternalData = nil, proto.Int32(1), entries
		onnxtest.WriteModel(t, filepath.Join(blobs, "blob1"), pb)
		return Open(filepath.Join(snapshot, "model.onnx"))
	}
	for name, entries := range map[string][]*onnxpb.Entry{
		"beside the link":          entry("location", "model.onnx.data", "offset", "4", "length", "2048"),
		"without a length":         entry("location", "model.onnx.data", "offset", "4"),
		"beside the model":         entry("location", "blob2", "offset", "4", "checksum", "ignored"),
		"in a folder":              entry("location", "sub/data"),
		"a link that stays":        entry("location", "link_in"),
		"a path with dots only":    entry("location", "./sub/./data"),
		"a link by way of outside": entry("location", "chain"),
		"an odd name":              entry("location", "with\x01control and space"),
	} {
		t.Run(name, func(t *testing.T) {
			m, err := open(entries)
			if err != nil {
				t.Fatal(err)
			}
			b, err := m.Bytes()
			if err != nil {
				t.Fatal(err)
			}
			if !proto.Equal(plain(t, b), onnxtest.Network()) {
				t.Error("the weights are others")
			}
		})
	}
	for _, tt := range []struct {
		name    string
		entries []*onnxpb.Entry
		want    string
	}{
		{"absolute", entry("location", filepath.Join(blobs, "sub", "data")), "leaves the model's folder"},
		{"parent", entry("location", "../outside/secret"), "leaves the model's folder"},
		{"parent in the middle", entry("location", "sub/../blob2"), "leaves the model's folder"},
		{"link out", entry("location", "link_out"), "is a link that leaves"},
		{"absolute link out", entry("location", "absolute_out"), "is a link that leaves"},
		{"folder that is a link out", entry("location", "folder_out/secret"), "is a link that leaves"},
		{"folder that is a link out, in the middle", entry("location", "sub/../folder_out/secret"),
			"leaves the model's folder"},
		{"device", entry("location", "device"), "is a link that leaves"},
		{"hard link", entry("location", "hard"), `"hard" has 2 hard links`},
		{"link to a hard link", entry("location", "to_hard"), "has 2 hard links"},
		{"drive", entry("location", `C:\secret`), "not a relative path with forward slashes"},
		{"drive and slashes", entry("location", "c:/secret"), "not a relative path with forward slashes"},
		{"drive's own folder", entry("location", "c:secret"), "not a relative path with forward slashes"},
		{"backslashes", entry("location", `..\outside\secret`), "not a relative path with forward slashes"},
		{"share", entry("location", `\\host\share\secret`), "not a relative path with forward slashes"},
		{"share with slashes", entry("location", "//host/share/secret"), "leaves the model's folder"},
		{"NUL", entry("location", "sub/data\x00.bin"), "not a relative path with forward slashes"},
		{"home", entry("location", "~/secret"), "is missing next to the model"},
		{"address of a file", entry("location", "file://"+filepath.Join(outside, "secret")),
			"is missing next to the model"},
		{"the folder itself", entry("location", "."), "is a link that leaves"},
		{"two locations", entry("location", "sub/data", "location", "../outside/secret"), "leaves the model's folder"},
		{"loop", entry("location", "loop"), "too many links"},
		{"memory address", entry("location", "_ORT_MEM_ADDR_"), "memory address"},
		{"memory address in a path", entry("location", "*/_ORT_MEM_ADDR_/*"), "memory address"},
		{"no location", entry("offset", "0"), "without a location"},
		{"missing", entry("location", "nothing"), "is missing next to the model"},
		{"folder", entry("location", "sub"), "not a regular file"},
		{"offset beyond the end", entry("location", "blob2", "offset", "5"),
			"reaches to byte 5+2048 and \"blob2\" has 2052"},
		{"offset that overflows", entry("location", "blob2", "offset", "9223372036854775807", "length", "2048"),
			"reaches to byte"},
		{"length beyond the end", entry("location", "blob2", "length", "9223372036854775807"), "reaches to byte"},
		{"length of another shape", entry("location", "blob2", "length", "2000"), "needs 2048 bytes and has 2000"},
		{"negative offset", entry("location", "blob2", "offset", "-1"), "is not a size"},
		{"offset beyond int64", entry("location", "blob2", "offset", "18446744073709551616"), "is not a size"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m, err := open(tt.entries)
			if err == nil {
				t.Fatalf("accepted: %v", m)
			}
			if !strings.Contains(err.Error(), tt.want) {
				t.Errorf("refused with %q, want %q", err, tt.want)
			}
		})
	}
}

// External data is looked for, and refused, wherever a tensor may stand.
func TestExternalDataAnywhere(t *testing.T) {
	t.Parallel()
	secret := func() *onnxpb.Tensor {
		key, value := "location", "../secret"
		return &onnxpb.Tensor{Name: proto.String("t"), Dims: []int64{1}, DataType: proto.Int32(int32(tensor.Float32)),
			DataLocation: proto.Int32(1),
			ExternalData: []*onnxpb.Entry{{Key: &key, Value: &value}}}
	}
	constant := func() *onnxpb.Node {
		return onnxtest.Node("Constant", "", "c", &onnxpb.Attribute{Name: proto.String("value"), T: secret()})
	}
	branch := func(g *onnxpb.Graph) *onnxpb.Node {
		return onnxtest.Node("If", "x", "z", &onnxpb.Attribute{Name: proto.String("then_branch"), G: g})
	}
	for name, change := range map[string]func(*onnxpb.Model){
		"initializer": func(m *onnxpb.Model) { m.Graph.Initializer = append(m.Graph.Initializer, secret()) },
		"unread initializer": func(m *onnxpb.Model) {
			m.Graph.Initializer = append([]*onnxpb.Tensor{secret()}, m.Graph.Initializer...)
		},
		"attribute": func(m *onnxpb.Model) { m.Graph.Node = append(m.Graph.Node, constant()) },
		"list in an attribute": func(m *onnxpb.Model) {
			m.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("list"),
				Tensors: []*onnxpb.Tensor{secret()}}}
		},
		"sparse initializer's values": func(m *onnxpb.Model) {
			m.Graph.SparseInitializer = []*onnxpb.SparseTensor{{Values: secret(), Dims: []int64{8}}}
		},
		"sparse initializer's indices": func(m *onnxpb.Model) {
			m.Graph.SparseInitializer = []*onnxpb.SparseTensor{{Indices: secret(), Dims: []int64{8}}}
		},
		"sparse attribute": func(m *onnxpb.Model) {
			m.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("s"),
				SparseTensor: &onnxpb.SparseTensor{Values: secret()}}}
		},
		"list of sparse attributes": func(m *onnxpb.Model) {
			m.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("s"),
				SparseTensors: []*onnxpb.SparseTensor{{Indices: secret()}}}}
		},
		"subgraph's initializer": func(m *onnxpb.Model) {
			m.Graph.Node = append(m.Graph.Node, branch(&onnxpb.Graph{Initializer: []*onnxpb.Tensor{secret()}}))
		},
		"subgraph's node": func(m *onnxpb.Model) {
			m.Graph.Node = append(m.Graph.Node,
				branch(&onnxpb.Graph{Node: []*onnxpb.Node{branch(&onnxpb.Graph{Node: []*onnxpb.Node{constant()}})}}))
		},
		"list of subgraphs": func(m *onnxpb.Model) {
			m.Graph.Node[0].Attribute = []*onnxpb.Attribute{{Name: proto.String("list"),
				Graphs: []*onnxpb.Graph{{Initializer: []*onnxpb.Tensor{secret()}}}}}
		},
		"function": func(m *onnxpb.Model) {
			m.Functions = []*onnxpb.Function{onnxtest.Function("F", "a", "c",
				constant())}
		},
		"function's default": func(m *onnxpb.Model) {
			f := onnxtest.Function("F", "a", "a")
			f.AttributeProto = []*onnxpb.Attribute{{Name: proto.String("d"), T: secret()}}
			m.Functions = []*onnxpb.Function{f}
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "model"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "secret"), make([]byte, 4), 0o644); err != nil {
				t.Fatal(err)
			}
			pb := onnxtest.Network()
			change(pb)
			path := filepath.Join(dir, "model", "m.onnx")
			onnxtest.WriteModel(t, path, pb)
			if _, err := Open(path); err == nil || !strings.Contains(err.Error(), "leaves the model's folder") {
				t.Errorf("error %v, want that it leaves the model's folder", err)
			}
			if _, err := Parse("m", onnxtest.Marshal(t, pb)); err == nil ||
				!strings.Contains(err.Error(), "cannot have external data") {
				t.Errorf("in memory: %v", err)
			}
		})
	}
}

// A model is reached by links of any kind: only what it refers to itself must stay beside it.
func TestOpenFollowsLinksToTheModel(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, d := range []string{"real", "other"} {
		if err := os.Mkdir(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"external.onnx", "external.onnx.data"} {
		if err := os.WriteFile(filepath.Join(dir, "real", name), onnxtest.Fixture(t, name), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, to := range map[string]string{"folder": "real", "other/model.onnx": "../real/external.onnx"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{"real/external.onnx", "folder/external.onnx", "other/model.onnx",
		"folder/../real/external.onnx"} {
		m, err := Open(filepath.Join(dir, path))
		if err != nil {
			t.Errorf("%s: %v", path, err)
		} else if m.SelfContained() {
			t.Errorf("%s: its weights are not where they were", path)
		}
	}
	// The model file itself may have other names; with external data it is the folder's it lies in.
	if err := os.Link(filepath.Join(dir, "real", "external.onnx"),
		filepath.Join(dir, "real", "again.onnx")); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(filepath.Join(dir, "real", "again.onnx")); err != nil {
		t.Error(err)
	}
}

func TestAccessors(t *testing.T) {
	t.Parallel()
	m, err := Open(filepath.Join(onnxtest.Fixtures, "cntk.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	got := fmt.Sprintf("%d %d %s %s %v %v", m.Opset(), m.IRVersion(), m.Producer(), m.Inputs()[0].Name, m.Inputs(),
		m.Outputs())
	if want := "8 3 by hand x [[1,5] float32] [[1,4] float32]"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if slices.ContainsFunc(m.Inputs(), func(v ValueInfo) bool { return v.Name == "w" }) {
		t.Error("a weight counts as an input")
	}
}

func TestSizeCountsExternalData(t *testing.T) {
	t.Parallel()
	var want int64
	for _, name := range []string{"external.onnx", "external.onnx.data"} {
		info, err := os.Stat(filepath.Join("../testdata/onnx", name))
		if err != nil {
			t.Fatal(err)
		}
		want += info.Size()
	}
	external, err := Open("../testdata/onnx/external.onnx")
	if err != nil {
		t.Fatal(err)
	}
	if got := external.Size(); got != want {
		t.Errorf("%d bytes, want %d", got, want)
	}
}
