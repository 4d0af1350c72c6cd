package models

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/realdata"
	"google.golang.org/protobuf/encoding/protowire"
)

// figures are those of the plain softmax in the READMEs.
type figures struct {
	n, wrong int
	nll, ece float64
}

func (f figures) row() string {
	return fmt.Sprintf("%.2f %% | %.3g | %.2f %%", 100*float64(f.wrong)/float64(f.n), f.nll, 100*f.ece)
}

func TestDigitsAreTheOriginals(t *testing.T) {
	fsys := DigitsMLP()
	images, labels := readIDX(t, fsys, "digits-images-idx3-ubyte.gz"), readIDX(t, fsys, "digits-labels-idx1-ubyte.gz")
	if !slices.Equal(images.shape, []int{1797, 8, 8}) || !slices.Equal(labels.shape, []int{1797}) {
		t.Fatalf("images are %v and labels %v, want [1797 8 8] and [1797]", images.shape, labels.shape)
	}
	// The published number of examples of each digit in the original's test set of 1,797.
	var count [10]int
	for _, label := range labels.data {
		count[label]++
	}
	if want := [10]int{178, 182, 177, 183, 181, 182, 181, 179, 174, 180}; count != want {
		t.Errorf("digits occur %v times, want %v", count, want)
	}
	// The first two pixel rows of the original's first example, a 0, occur once, with exact grey levels 0..16.
	first := []byte{0, 0, 5, 13, 9, 1, 0, 0, 0, 0, 13, 15, 10, 15, 5, 0}
	found := 0
	for i, label := range labels.data {
		if label == 0 && slices.Equal(levels(t, images.at(i))[:16], first) {
			found++
		}
	}
	if found != 1 {
		t.Errorf("the first digit of the original was found %d times, want once", found)
	}
}

func TestOODImagesAreWhatTheirNamesSay(t *testing.T) {
	fsys := DigitsMLP()
	digits, labels := readIDX(t, fsys, "digits-images-idx3-ubyte.gz"), readIDX(t, fsys, "digits-labels-idx1-ubyte.gz")
	drawings, names := readIDX(t, fsys, "drawings-images-idx3-ubyte.gz"), OODNames()
	if !slices.Equal(drawings.shape, []int{600, 8, 8}) || len(names) != 600 {
		t.Fatalf("images are %v with %d names, want [600 8 8] with 600", drawings.shape, len(names))
	}
	isDigit := map[string]bool{}
	for i := range labels.data {
		isDigit[string(digits.at(i))] = true
	}
	letters := [2]map[string]bool{{}, {}}
	for i, name := range names {
		image := drawings.at(i)
		levels(t, image)
		if isDigit[string(image)] {
			t.Errorf("image %d, %q, is one of the digits", i, name)
		}
		half := i / 300
		kind, of, _ := strings.Cut(name, " ")
		position := i % 300
		source := []int{1200, 1500}[half] + position - 200 // of the digit it was made from
		switch {
		case position < 200 && kind == "letter":
			letters[half][of] = true
		case position >= 200 && position < 250 && kind == "inverted" && of == fmt.Sprint(labels.data[source]):
			inked := levels(t, digits.at(source))
			for j, v := range levels(t, image) {
				if v != 16-inked[j] {
					t.Fatalf("image %d, %q, is not digit %d inverted", i, name, source)
				}
			}
		case position >= 250 && kind == "scrambled" && of == fmt.Sprint(labels.data[source]):
			if !slices.Equal(slices.Sorted(slices.Values(image)), slices.Sorted(slices.Values(digits.at(source)))) {
				t.Errorf("image %d, %q, does not have the pixels of digit %d", i, name, source)
			}
		default:
			t.Errorf("image %d is named %q, which does not belong there", i, name)
		}
	}
	if len(letters[0]) != 8 || len(letters[1]) != 8 {
		t.Errorf("the halves hold %d and %d letters, want 8 each", len(letters[0]), len(letters[1]))
	}
	for letter := range letters[0] {
		if letters[1][letter] {
			t.Errorf("letter %s stands in both halves", letter)
		}
	}
}

// The files of the specs exist, and their ranges are within the data.
func TestSpecsNameFilesAndRanges(t *testing.T) {
	end := 0
	for _, spec := range []string{DigitsTrain, DigitsVal, DigitsTest, OODVal, OODTest} {
		name, slice, ok := strings.Cut(spec, "[")
		var a, b int
		if _, err := fmt.Sscanf(slice, "%d:%d]", &a, &b); err != nil || !ok {
			t.Errorf("%s: no slice", spec)
		}
		if a == 0 {
			end = 0
		}
		if n := readIDX(t, DigitsMLP(), name).shape[0]; a != end || b <= a || b > n {
			t.Errorf("%s: does not follow on %d within %d examples", spec, end, n)
		}
		end = b
	}
	if _, err := fs.Stat(DigitsMLP(), DigitsModel); err != nil {
		t.Error(err)
	}
}

func TestDigitsFiguresHold(t *testing.T) {
	fsys := DigitsMLP()
	model, err := fs.ReadFile(fsys, DigitsModel)
	if err != nil {
		t.Fatal(err)
	}
	images, labels := readIDX(t, fsys, "digits-images-idx3-ubyte.gz"), readIDX(t, fsys, "digits-labels-idx1-ubyte.gz")
	readme := readFile(t, "digits-mlp/README.md")
	for _, part := range []struct {
		name string
		a, b int
	}{{"train", 0, 1200}, {"val", 1200, 1500}, {"test", 1500, 1797}} {
		got := evaluate(t, model, images.slice(part.a, part.b), labels.slice(part.a, part.b))
		if want := fmt.Sprintf("| %s | %s |", part.name, got.row()); !strings.Contains(readme, want) {
			t.Errorf("the README has no line %q, which is what the model gives", want)
		}
	}
}

func TestMNISTFiguresHold(t *testing.T) {
	t.Parallel()
	data := realdata.Dir(t)
	images := readIDX(t, os.DirFS(data), "mnist/t10k-images-idx3-ubyte.gz")
	labels := readIDX(t, os.DirFS(data), "mnist/t10k-labels-idx1-ubyte.gz")
	for _, model := range []string{
		"mnist-mlp/model.onnx", "mnist-mlp/seed1.onnx", "mnist-mlp/seed2.onnx", "mnist-mlp/seed3.onnx", "mnist-mlp/seed4.onnx",
		"mnist-mlp/seed5.onnx", "mnist-mlp/seed6.onnx", "mnist-mlp/seed7.onnx", "mnist-mlp/seed8.onnx", "mnist-mlp/seed9.onnx",
		"mnist-methods/dropout0.onnx", "mnist-methods/dropout1.onnx", "mnist-methods/dropout2.onnx",
	} {
		folder, name := filepath.Split(model)
		got := evaluate(t, []byte(readFile(t, model)), images, labels)
		if want := fmt.Sprintf("| `%s` | %s |", name, got.row()); !strings.Contains(readFile(t, folder+"README.md"), want) {
			t.Errorf("%sREADME.md has no line %q, which is what the model gives", folder, want)
		}
	}
}

// The networks of few epochs do not interpolate: they have training errors.
func TestShortMNISTFiguresHold(t *testing.T) {
	t.Parallel()
	data := os.DirFS(realdata.Dir(t))
	readme := readFile(t, "mnist-mlp/README.md")
	read := func(name string) array { return readIDX(t, data, "mnist/"+name+"-ubyte.gz") }
	images, labels := read("train-images-idx3"), read("train-labels-idx1")
	testImages, testLabels := read("t10k-images-idx3"), read("t10k-labels-idx1")
	for i, name := range []string{"short0.onnx", "short1.onnx", "short2.onnx", "short3.onnx", "short4.onnx"} {
		model := []byte(readFile(t, "mnist-mlp/"+name))
		for _, part := range []struct {
			name           string
			images, labels array
		}{
			{"train", images.slice(0, 55_000), labels.slice(0, 55_000)},
			{"val", images.slice(55_000, 60_000), labels.slice(55_000, 60_000)},
			{"test", testImages, testLabels},
		} {
			if part.name == "train" && i > 0 { // one takes as long as everything else
				continue
			}
			got := evaluate(t, model, part.images, part.labels)
			if want := fmt.Sprintf("| `%s` | %s | %s |", name, part.name, got.row()); !strings.Contains(readme, want) {
				t.Errorf("the README has no line %q, which is what the model gives", want)
			}
			if part.name == "train" && (got.wrong == 0 || got.nll < 1e-3) {
				t.Errorf("%s interpolates: %d errors and a loss of %v on its training data", name, got.wrong, got.nll)
			}
		}
	}
}

// Every model is beside the script that made it.
func TestEveryFolderIsReproducible(t *testing.T) {
	models, err := filepath.Glob("*/*.onnx")
	if err != nil || len(models) != 31 {
		t.Fatalf("found models %v (%v), want 31", models, err)
	}
	for _, model := range models {
		for _, beside := range []string{"train.py", "README.md"} {
			if info, err := os.Stat(filepath.Join(filepath.Dir(model), beside)); err != nil || info.Size() == 0 {
				t.Errorf("%s has no %s beside it", model, beside)
			}
		}
	}
}

func readFile(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

type array struct {
	shape []int
	data  []byte
}

func (a array) size() int { return len(a.data) / a.shape[0] }

func (a array) at(i int) []byte { return a.data[i*a.size() : (i+1)*a.size()] }

func (a array) slice(from, to int) array {
	shape := slices.Clone(a.shape)
	shape[0] = to - from
	return array{shape, a.data[from*a.size() : to*a.size()]}
}

func readIDX(t *testing.T, fsys fs.FS, name string) array {
	t.Helper()
	file, err := fsys.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	data, err := io.ReadAll(unzipped)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(data, []byte{0, 0, 8}) {
		t.Fatalf("%s: not an IDX file of bytes", name)
	}
	var shape []int
	size := 1
	rank := int(data[3])
	for i := range rank {
		shape = append(shape, int(binary.BigEndian.Uint32(data[4+4*i:])))
		size *= shape[i]
	}
	if data = data[4+4*rank:]; len(data) != size {
		t.Fatalf("%s: %d bytes of data, want %d for shape %v", name, len(data), size, shape)
	}
	return array{shape, data}
}

// levels recovers the grey levels 0..16 from stored pixels.
func levels(t *testing.T, pixels []byte) []byte {
	t.Helper()
	out := make([]byte, len(pixels))
	for i, p := range pixels {
		v := math.Round(float64(p) * 16 / 255)
		if math.RoundToEven(v*255/16) != float64(p) {
			t.Fatalf("pixel %d is none of the 17 grey levels", p)
		}
		out[i] = byte(v)
	}
	return out
}

// evaluate runs a ReLU network over images in plain Go and float64, independently of the rest of the module. The
// calibration error is ℓ1 over ten bins (l, u].
func evaluate(t *testing.T, model []byte, images, labels array) figures {
	t.Helper()
	layers := parseLayers(t, model)
	var right, confidence [10]float64
	f := figures{n: images.shape[0]}
	for i := range f.n {
		x := make([]float64, images.size())
		for j, v := range images.at(i) {
			x[j] = float64(float32(v) / 255)
		}
		for l, layer := range layers {
			if l > 0 {
				for j := range x {
					x[j] = max(x[j], 0)
				}
			}
			x = layer.apply(x)
		}
		top := slices.Max(x)
		var sum float64
		for _, v := range x {
			sum += math.Exp(v - top)
		}
		label := int(labels.data[i])
		f.nll += top + math.Log(sum) - x[label]
		bin := max(int(math.Ceil(10/sum))-1, 0)
		confidence[bin] += 1 / sum
		if slices.Index(x, top) == label {
			right[bin]++
		} else {
			f.wrong++
		}
	}
	f.nll /= float64(f.n)
	for b := range right {
		f.ece += math.Abs(confidence[b]-right[b]) / float64(f.n)
	}
	return f
}

// layer is one Gemm: weight [in,out], bias [out].
type layer struct{ weight, bias []float64 }

func (l layer) apply(x []float64) []float64 {
	out := slices.Clone(l.bias)
	for j, v := range x {
		if v == 0 { // most of MNIST's pixels
			continue
		}
		for k, w := range l.weight[j*len(out):][:len(out)] {
			out[k] += w * v
		}
	}
	return out
}

// transposed converts [out,in] to [in,out].
func transposed(rows []float64, out int) []float64 {
	in := len(rows) / out
	t := make([]float64, len(rows))
	for k := range out {
		for j := range in {
			t[j*out+k] = rows[k*in+j]
		}
	}
	return t
}

// parseLayers reads the initializers of an exported nn.Sequential: weight [out,in] and bias of each layer in order.
func parseLayers(t *testing.T, model []byte) []layer {
	t.Helper()
	const graphField, initializerField = 7, 5 // of ModelProto, of GraphProto
	const rawDataField = 9                    // of TensorProto
	var tensors [][]float64
	for _, graph := range fields(t, model, graphField) {
		for _, tensor := range fields(t, graph, initializerField) {
			raw := fields(t, tensor, rawDataField)
			if len(raw) != 1 {
				t.Fatalf("an initializer has %d raw_data, want 1", len(raw))
			}
			values := make([]float64, len(raw[0])/4)
			for i := range values {
				values[i] = float64(math.Float32frombits(binary.LittleEndian.Uint32(raw[0][4*i:])))
			}
			tensors = append(tensors, values)
		}
	}
	if len(tensors) == 0 || len(tensors)%2 != 0 {
		t.Fatalf("found %d initializers, want a weight and a bias for each layer", len(tensors))
	}
	var layers []layer
	for pair := range slices.Chunk(tensors, 2) {
		layers = append(layers, layer{transposed(pair[0], len(pair[1])), pair[1]})
	}
	return layers
}

// fields returns the contents of every length-delimited field of this number.
func fields(t *testing.T, message []byte, number protowire.Number) [][]byte {
	t.Helper()
	var found [][]byte
	for len(message) > 0 {
		num, typ, n := protowire.ConsumeTag(message)
		if n < 0 {
			t.Fatal(protowire.ParseError(n))
		}
		size := protowire.ConsumeFieldValue(num, typ, message[n:])
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		if num == number && typ == protowire.BytesType {
			content, _ := protowire.ConsumeBytes(message[n:])
			found = append(found, content)
		}
		message = message[n+size:]
	}
	return found
}
