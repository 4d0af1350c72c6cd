package main

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"image"
	"image/png"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/install"
	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/internal/safetensors"
	"github.com/mfgs/mfgs/internal/wraptest"
	"github.com/mfgs/mfgs/models"
	"github.com/mfgs/mfgs/onnx"
	"github.com/mfgs/mfgs/onnx/head"
	"github.com/rogpeppe/go-internal/testscript"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"mfgs": measured, "curl": curl})
}

// widthsFile names a file for lines that are too wide; see measured.
const widthsFile = "MFGS_TEST_WIDTHS"

// measured is main. It notes lines of tables and texts on standard output that are wider than a terminal.
func measured() {
	path, args := os.Getenv(widthsFile), strings.Join(os.Args[1:], " ")
	if path == "" || isTerminal(os.Stdout) || strings.Contains(args, "json") || strings.Contains(args, "csv") ||
		strings.Contains(args, "arrow") || strings.HasPrefix(args, "serve") || strings.HasSuffix(args, " -") ||
		strings.HasPrefix(args, "man") || strings.HasPrefix(args, "completion") || strings.HasSuffix(args, "-completion") {
		main()
	}
	var out bytes.Buffer
	code := run(context.Background(), os.Args, os.Stdin, io.MultiWriter(os.Stdout, &out), os.Stderr)
	for line := range strings.Lines(out.String()) {
		if line = strings.TrimSuffix(line, "\n"); tooWide(line) {
			f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o666)
			if err != nil {
				panic(err)
			}
			fmt.Fprintf(f, "mfgs %s: %d columns: %s\n", args, utf8.RuneCountInString(line), line)
			f.Close()
		}
	}
	os.Exit(code)
}

// tooWide reports whether a line is wider than 80 columns, and not because of a path or another long word.
func tooWide(line string) bool {
	return utf8.RuneCountInString(line) > textWidth &&
		!slices.ContainsFunc(strings.Fields(line), func(word string) bool { return utf8.RuneCountInString(word) > 40 })
}

// TestScripts runs the scripts in testdata, which use scriptCommands besides the commands of testscript.
func TestScripts(t *testing.T) {
	t.Parallel()
	lib, err := install.Find(install.Config{})
	if err != nil {
		t.Fatal(err)
	}
	wide := filepath.Join(t.TempDir(), "wide")
	t.Cleanup(func() { // after the scripts, which run in parallel
		if lines, err := os.ReadFile(wide); err == nil {
			t.Errorf("lines that are too wide:\n%s", lines)
		}
	})
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		ContinueOnError:     os.Getenv("CONT") != "",
		Cmds:                scriptCommands,
		Setup: func(env *testscript.Env) error {
			env.Setenv(install.EnvLibrary, lib.Path)
			env.Setenv(install.EnvNoInstall, "1")
			env.Setenv(widthsFile, wide)
			env.Setenv("ADDRESS", freeAddress(t)) // of HTTP, for a server
			return nil
		},
	})
}

// invoke runs a command line in this process.
func invoke(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"mfgs"}, args...), strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

const moduleTestdata = "../../testdata/onnx"

var scriptCommands = map[string]func(ts *testscript.TestScript, neg bool, args []string){
	// code N COMMAND...: COMMAND exits with N and an error message of one line, or with a second line if N is 2.
	"code": func(ts *testscript.TestScript, neg bool, args []string) {
		err := ts.Exec(args[1], args[2:]...)
		got := 0
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			got = exit.ExitCode()
		} else if err != nil {
			ts.Fatalf("%v", err)
		}
		if strconv.Itoa(got) != args[0] {
			ts.Fatalf("exit code %d, want %s", got, args[0])
		}
		lines := strings.Split(strings.TrimSuffix(ts.ReadFile("stderr"), "\n"), "\n")
		if last := lines[len(lines)-1]; got == 1 && !strings.HasPrefix(last, "mfgs: ") ||
			got == 2 && (len(lines) < 2 || !strings.HasSuffix(last, "--help` for usage")) {
			ts.Fatalf("standard error ends with %q", last)
		}
		for _, line := range lines[:len(lines)-1] {
			if got == 1 && !aside(line) {
				ts.Fatalf("standard error holds %q", line)
			}
		}
	},
	// quiet: standard error has only warnings and progress.
	"quiet": func(ts *testscript.TestScript, neg bool, args []string) {
		for line := range strings.Lines(ts.ReadFile("stderr")) {
			if !aside(line) {
				ts.Fatalf("standard error holds %q", line)
			}
		}
	},
	// digits DIR: the model and the data of models/digits-mlp.
	"digits": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(os.CopyFS(ts.MkAbs(args[0]), models.DigitsMLP()))
	},
	// testmodel NAME FILE: a model of the module's testdata.
	"testmodel": func(ts *testscript.TestScript, neg bool, args []string) {
		data, err := os.ReadFile(filepath.Join(moduleTestdata, args[0]))
		ts.Check(err)
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), data, 0o666))
	},
	// posterior MODEL FILE: a diagonal posterior of the model's last layer, with its weights.
	"posterior": func(ts *testscript.TestScript, neg bool, args []string) {
		model, err := onnx.Open(ts.MkAbs(args[0]))
		ts.Check(err)
		defer model.Close()
		h, err := head.Find(model, head.Options{})
		ts.Check(err)
		w, b, err := h.Weights()
		ts.Check(err)
		variances := slices.Repeat([]float32{0.01}, len(w)+len(b))
		var file bytes.Buffer
		ts.Check(safetensors.Encode(&file, []safetensors.Tensor{
			{Name: "covariance", Shape: []int{len(variances)}, Data: variances},
			{Name: "weight", Shape: []int{h.Logits, h.Features}, Data: w}, {Name: "bias", Shape: []int{len(b)}, Data: b},
		}, nil))
		ts.Check(os.WriteFile(ts.MkAbs(args[1]), file.Bytes(), 0o666))
	},
	// pngs SPEC DIR [unlabelled]: the images of an IDX file as PNG files, in a folder a class.
	"pngs": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(writePNGs(ts.MkAbs(args[0]), ts.MkAbs(args[1]), len(args) > 2))
	},
	// tensors SPEC FILE: the images of an IDX file as JSON lines of ready arrays from -1
	// to 1, with their labels.
	"tensors": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(writeTensors(ts.MkAbs(args[0]), ts.MkAbs(args[1])))
	},
	// arrow STREAM LINES...: output of tensors, or lines of null, as an Arrow stream.
	"arrow": func(ts *testscript.TestScript, neg bool, args []string) {
		var lines []byte
		for _, arg := range args[1:] {
			lines = append(lines, ts.ReadFile(arg)...)
		}
		ts.Check(writeArrow(ts.MkAbs(args[0]), lines))
	},
	// rows STREAM FILE: the rows of an Arrow stream as JSON lines.
	"rows": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(readArrow(ts.MkAbs(args[0]), ts.MkAbs(args[1])))
	},
	// sameanswers ROWS LINES: output of rows equals predictions as JSON lines, except for input.
	"sameanswers": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(sameAnswers(ts.ReadFile(args[0]), ts.ReadFile(args[1])))
	},
	// forest CLASSES DIR [NAME...]: a forest without a linear last layer, with class names if there are some, as
	// model.onnx, tables of examples train.csv, val.csv, test.csv and, without labels, ood.csv, and the probabilities
	// for val.csv, expected.npy, and other ones, other.npy.
	"forest": func(ts *testscript.TestScript, neg bool, args []string) {
		classes, err := strconv.Atoi(args[0])
		ts.Check(err)
		ts.Check(writeForest(ts.MkAbs(args[1]), classes, args[2:]))
	},
	// lines DIR: a recogniser of text as model.onnx, lines of text val.jsonl and test.jsonl, and its alphabet.txt.
	"lines": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(writeRecogniser(ts.MkAbs(args[0])))
	},
	// sequences DIR: a tagger, the names of its tags, and validation and test data.
	"sequences": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(writeFiles(ts.MkAbs(args[0]), map[string][]byte{
			"model.onnx": wraptest.Tagger().File(), "tags.txt": []byte(strings.Join(wraptest.TagNames, "\n") + "\n"),
			"val.jsonl":  wraptest.JSONSequences(wraptest.Sequences(51, 300, 0)),
			"test.jsonl": wraptest.JSONSequences(wraptest.Sequences(52, 200, 0)),
		}))
	},
	// steps DIR: the same with a linear layer, and training data.
	"steps": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(writeFiles(ts.MkAbs(args[0]), map[string][]byte{
			"model.onnx": wraptest.StepTagger().File(), "tags.txt": []byte(strings.Join(wraptest.TagNames, "\n") + "\n"),
			"train.jsonl": wraptest.JSONSequences(wraptest.Sequences(53, 400, 0)),
			"val.jsonl":   wraptest.JSONSequences(wraptest.Sequences(54, 300, 0)),
			"test.jsonl":  wraptest.JSONSequences(wraptest.Sequences(55, 200, 0)),
		}))
	},
	// pixels DIR: networks that classify pixels as model.onnx and, of half the size, half.onnx, and folders train, val
	// and test of images and label maps.
	"pixels": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(writePixels(ts.MkAbs(args[0])))
	},
	// samemaps DIR ROWS: the maps of a folder are the predictions for pixels in a CSV file, row by row.
	"samemaps": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(sameMaps(ts.MkAbs(args[0]), ts.ReadFile(args[1])))
	},
	// onlyfiles DIR NAME...: these are all files and folders in a folder, hidden ones included.
	"onlyfiles": func(ts *testscript.TestScript, neg bool, args []string) {
		entries, err := os.ReadDir(ts.MkAbs(args[0]))
		ts.Check(err)
		for _, e := range entries {
			if !slices.Contains(args[1:], e.Name()) {
				ts.Fatalf("%s has %s, want %v", args[0], e.Name(), args[1:])
			}
		}
		if len(entries) != len(args)-1 {
			ts.Fatalf("%s has %d entries, want %v", args[0], len(entries), args[1:])
		}
	},
	// streams DIR: a recurrent network of one step, and training, validation and test data of sequences.
	"streams": func(ts *testscript.TestScript, neg bool, args []string) {
		ts.Check(writeFiles(ts.MkAbs(args[0]), map[string][]byte{
			"model.onnx":  onnxtest.Recurrent{Seed: 11}.File(),
			"train.jsonl": wraptest.JSONStreams(wraptest.Streams(71, 200)),
			"val.jsonl":   wraptest.JSONStreams(wraptest.Streams(72, 200)),
			"test.jsonl":  wraptest.JSONStreams(wraptest.Streams(73, 200)),
		}))
	},
	// features FILE N SEED [nan|targets]: precomputed features of a synthetic network, with a NaN, or with targets of a
	// multi-label head.
	"features": func(ts *testscript.TestScript, neg bool, args []string) {
		n, err := strconv.Atoi(args[1])
		ts.Check(err)
		seed, err := strconv.Atoi(args[2])
		ts.Check(err)
		ts.Check(writeFeatures(ts.MkAbs(args[0]), n, uint64(seed), append(args, "")[3]))
	},
	// idx FILE BYTE... : labels.
	"idx": func(ts *testscript.TestScript, neg bool, args []string) {
		data := []byte{0, 0, 8, 1}
		data = binary.BigEndian.AppendUint32(data, uint32(len(args)-1))
		for _, arg := range args[1:] {
			v, err := strconv.ParseUint(arg, 10, 8)
			ts.Check(err)
			data = append(data, byte(v))
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o666))
	},
	// idximages FILE N H W: grey images.
	"idximages": func(ts *testscript.TestScript, neg bool, args []string) {
		data := []byte{0, 0, 8, 3}
		size := 1
		for _, arg := range args[1:] {
			v, err := strconv.Atoi(arg)
			ts.Check(err)
			data = binary.BigEndian.AppendUint32(data, uint32(v))
			size *= v
		}
		for i := range size {
			data = append(data, byte(i*37))
		}
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o666))
	},
	// head FILE N: truncates a file to N bytes.
	"head": func(ts *testscript.TestScript, neg bool, args []string) {
		n, err := strconv.ParseInt(args[1], 10, 64)
		ts.Check(err)
		ts.Check(os.Truncate(ts.MkAbs(args[0]), n))
	},
	// flip FILE: changes the middle byte.
	"flip": func(ts *testscript.TestScript, neg bool, args []string) {
		data, err := os.ReadFile(ts.MkAbs(args[0]))
		ts.Check(err)
		data[len(data)/2] ^= 0x41
		ts.Check(os.WriteFile(ts.MkAbs(args[0]), data, 0o666))
	},
	// empty DIR: the folder is empty.
	"empty": func(ts *testscript.TestScript, neg bool, args []string) {
		entries, err := os.ReadDir(ts.MkAbs(args[0]))
		ts.Check(err)
		if len(entries) > 0 {
			ts.Fatalf("%s holds %v", args[0], entries)
		}
	},
	// json FILE [PATH [OP VALUE]]: the file is one JSON document that has PATH, with a value for which OP holds:
	// == VALUE, < VALUE, > VALUE, or len N.
	"json": func(ts *testscript.TestScript, neg bool, args []string) {
		var doc any
		if err := json.Unmarshal([]byte(ts.ReadFile(args[0])), &doc); err != nil {
			ts.Fatalf("%s is no JSON document: %v", args[0], err)
		}
		if len(args) == 1 {
			return
		}
		at, err := lookup(doc, args[1])
		if neg {
			if err == nil {
				ts.Fatalf("%s is there: %v", args[1], at)
			}
			return
		}
		ts.Check(err)
		if len(args) == 2 {
			return
		}
		number, isNumber := at.(float64)
		want, err := strconv.ParseFloat(args[3], 64)
		ok := false
		switch args[2] {
		case "==":
			ok = fmt.Sprint(at) == args[3]
		case "<":
			ok = isNumber && err == nil && number < want
		case ">":
			ok = isNumber && err == nil && number > want
		case "len":
			list, isList := at.([]any)
			ok = isList && strconv.Itoa(len(list)) == args[3]
		default:
			ts.Fatalf("no such comparison: %s", args[2])
		}
		if !ok {
			ts.Fatalf("%s is %v, want %s %s", args[1], at, args[2], args[3])
		}
	},
}

// aside reports whether a line of standard error is a warning or progress.
func aside(line string) bool { return strings.HasPrefix(line, "mfgs: warning: ") || isProgress(line) }

// isProgress reports whether a line of standard error is progress, which only slow runs print.
func isProgress(line string) bool { return strings.HasPrefix(line, "mfgs: progress: ") }

// lookup returns the value at a path such as methods.0.name in a JSON document.
func lookup(doc any, path string) (any, error) {
	for key := range strings.SplitSeq(path, ".") {
		switch v := doc.(type) {
		case map[string]any:
			next, ok := v[key]
			if !ok {
				return nil, fmt.Errorf("%s: no %q", path, key)
			}
			doc = next
		case []any:
			i, err := strconv.Atoi(key)
			if err != nil || i < 0 || i >= len(v) {
				return nil, fmt.Errorf("%s: no %q in a list of %d", path, key, len(v))
			}
			doc = v[i]
		default:
			return nil, fmt.Errorf("%s: no %q in %v", path, key, doc)
		}
	}
	return doc, nil
}

func writePNGs(spec, dir string, unlabelled bool) error {
	d, err := dataset.Open(context.Background(), spec, dataset.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	for e, err := range d.Examples(context.Background()) {
		if err != nil {
			return err
		}
		a := e.Inputs[0]
		h, w := a.Shape[0], a.Shape[1]
		img := &image.Gray{Pix: a.Data.([]uint8), Stride: w, Rect: image.Rect(0, 0, w, h)}
		folder := dir
		if !unlabelled {
			folder = filepath.Join(dir, strconv.Itoa(e.Label))
		}
		var b bytes.Buffer
		if err := errors.Join(
			os.MkdirAll(folder, 0o777),
			png.Encode(&b, img),
			os.WriteFile(filepath.Join(folder, fmt.Sprintf("%04d.png", e.Index)), b.Bytes(), 0o666),
		); err != nil {
			return err
		}
	}
	return nil
}

func writeTensors(spec, path string) error {
	d, err := dataset.Open(context.Background(), spec, dataset.Options{})
	if err != nil {
		return err
	}
	defer d.Close()
	var b bytes.Buffer
	for e, err := range d.Examples(context.Background()) {
		if err != nil {
			return err
		}
		a := e.Inputs[0]
		rows := make([][]float32, a.Shape[0])
		for i, v := range a.Data.([]uint8) {
			rows[i/a.Shape[1]] = append(rows[i/a.Shape[1]], float32(v)/127.5-1)
		}
		line, err := json.Marshal(map[string]any{"image": rows, "label": e.Label})
		if err != nil {
			return err
		}
		b.Write(append(line, '\n'))
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}

// writeForest writes what the command forest describes.
func writeForest(dir string, classes int, names []string) error {
	f := onnxtest.NewForest(classes)
	files := map[string][]byte{"model.onnx": f.File(13, names...)}
	for i, name := range []string{"train", "val", "test", "ood"} {
		x, labels := f.Draw(uint64(21+i), 200)
		switch name {
		case "val":
			var p, other []float32
			for _, v := range f.Probabilities(x) {
				p, other = append(p, float32(v)), append(other, float32(v+1)/2)
			}
			files["expected.npy"] = wraptest.NPY(wraptest.ArrayOf(p, 200, classes))
			files["other.npy"] = wraptest.NPY(wraptest.ArrayOf(other, 200, classes))
		case "ood":
			for j := range x {
				x[j] *= 5
			}
			labels = nil
		}
		files[name+".csv"] = onnxtest.ForestCSV(x, labels)
	}
	return writeFiles(dir, files)
}

// writeRecogniser writes what the command lines describes.
func writeRecogniser(dir string) error {
	return writeFiles(dir, map[string][]byte{
		"model.onnx": wraptest.Recogniser().File(), "alphabet.txt": []byte(strings.Join(wraptest.LineAlphabet, "\n") + "\n"),
		"val.jsonl":  wraptest.JSONLines(wraptest.Lines(31, 300, 0)),
		"test.jsonl": wraptest.JSONLines(wraptest.Lines(32, 200, 0)),
	})
}

// writePixels writes what the command pixels describes. Labels are drawn from the network's probabilities, and a sixth
// of the pixels has none.
func writePixels(dir string) error {
	const h, w = 6, 8
	models := map[string][]byte{"model.onnx": onnxtest.PixelsFile(1), "half.onnx": onnxtest.PixelsFile(2)}
	if err := writeFiles(dir, models); err != nil {
		return err
	}
	for part, n := range map[string]int{"train": 40, "val": 200, "test": 3} {
		r := rand.New(rand.NewPCG(61, uint64(n)))
		for i := range n {
			picture, labels := image.NewNRGBA(image.Rect(0, 0, w, h)), image.NewGray(image.Rect(0, 0, w, h))
			for at := range h * w {
				var colour [3]float64
				for c := range colour {
					v := r.IntN(256)
					picture.Pix[4*at+c], colour[c] = uint8(v), float64(v)/255
				}
				picture.Pix[4*at+3] = 255
				if labels.Pix[at] = 255; r.IntN(6) > 0 {
					labels.Pix[at] = uint8(drawnFrom(r, onnxtest.PixelLogits(colour)))
				}
			}
			for folder, m := range map[string]image.Image{"images": picture, "labels": labels} {
				var b bytes.Buffer
				err := png.Encode(&b, m)
				files := map[string][]byte{fmt.Sprintf("%03d.png", i): b.Bytes()}
				if err := errors.Join(err, writeFiles(filepath.Join(dir, part, folder), files)); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// sameMaps is the command samemaps.
func sameMaps(dir, rows string) error {
	records, err := csv.NewReader(strings.NewReader(rows)).ReadAll()
	if err != nil {
		return err
	}
	column := func(name string) int { return slices.Index(records[0], name) }
	seen := map[string]int{}
	for _, record := range records[1:] {
		stem := strings.TrimSuffix(record[column("input")], ".png")
		at := seen[stem]
		seen[stem]++
		for _, folder := range []string{"classes", "answers"} {
			b, err := os.ReadFile(filepath.Join(dir, folder, stem+".png"))
			if err != nil {
				return err
			}
			m, err := png.Decode(bytes.NewReader(b))
			if err != nil {
				return err
			}
			want := record[column("class")]
			if folder == "answers" && record[column("abstain")] == "true" {
				want = "255"
			}
			if got := fmt.Sprint(m.(*image.Gray).Pix[at]); got != want {
				return fmt.Errorf("%s/%s, pixel %d: %s, want %s", folder, stem, at, got, want)
			}
		}
		for _, folder := range []string{"confidence", "ood_score"} {
			b, err := os.ReadFile(filepath.Join(dir, folder, stem+".npy"))
			if err != nil {
				return err
			}
			const header = 128
			got := math.Float32frombits(binary.LittleEndian.Uint32(b[header+4*at:]))
			want, err := strconv.ParseFloat(record[column(folder)], 64)
			if err != nil || got != float32(want) || len(b) != header+4*6*8 {
				return fmt.Errorf("%s/%s of %d bytes, pixel %d: %v, want %v, %v", folder, stem, len(b), at, got, want, err)
			}
		}
	}
	if len(seen) != 3 || seen["000"] != 6*8 {
		return fmt.Errorf("rows of %v, want 48 of 3 pictures", seen)
	}
	return nil
}

// drawnFrom draws a class with the softmax of logits.
func drawnFrom(r *rand.Rand, logits [onnxtest.PixelClasses]float64) int {
	best, class := math.Inf(-1), 0
	for k, z := range logits { // Gumbel's
		if g := z - math.Log(-math.Log(r.Float64())); g > best {
			best, class = g, k
		}
	}
	return class
}

func writeFiles(dir string, files map[string][]byte) error {
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return err
	}
	for name, data := range files {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o666); err != nil {
			return err
		}
	}
	return nil
}

// writeFeatures writes 6 random features, logits of a linear layer of 3 classes, and labels drawn from its softmax at
// temperature 2, or targets from its sigmoids.
func writeFeatures(path string, n int, seed uint64, special string) error {
	const d, k = 6, 3
	weights := rand.New(rand.NewPCG(1, 2))
	var w [k][d]float32
	for i := range w {
		for j := range w[i] {
			w[i][j] = float32(2 * weights.NormFloat64())
		}
	}
	r := rand.New(rand.NewPCG(seed, 0))
	var phi, logits []float32
	var labels, targets []int64
	for range n {
		row := make([]float32, d)
		for j := range row {
			row[j] = float32(r.NormFloat64())
		}
		phi = append(phi, row...)
		best, label := -1e9, 0
		for i := range k {
			var a float32
			for j, v := range row {
				a += w[i][j] * v
			}
			logits = append(logits, a)
			// The largest of logits with Gumbel noise is a draw from the softmax.
			if g := float64(a)/2 - math.Log(r.ExpFloat64()); g > best {
				best, label = g, i
			}
			y := int64(0)
			if special == "targets" && r.Float64() < 1/(1+math.Exp(-float64(a)/2)) {
				y = 1
			}
			targets = append(targets, y)
		}
		labels = append(labels, int64(label))
	}
	shape := fmt.Sprintf("(%d,)", n)
	if special == "targets" {
		labels, shape = targets, fmt.Sprintf("(%d, %d)", n, k)
	}
	if special == "nan" {
		phi[n*d/2] = float32(math.NaN())
	}
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, a := range []struct {
		name, kind, shape string
		data              any
	}{
		{"features", "<f4", fmt.Sprintf("(%d, %d)", n, d), phi},
		{"logits", "<f4", fmt.Sprintf("(%d, %d)", n, k), logits},
		{"labels", "<i8", shape, labels},
	} {
		f, err := z.Create(a.name + ".npy")
		if err != nil {
			return err
		}
		header := fmt.Sprintf("{'descr': '%s', 'fortran_order': False, 'shape': %s, }", a.kind, a.shape)
		header += strings.Repeat(" ", 63-(10+len(header))%64) + "\n"
		length := binary.LittleEndian.AppendUint16([]byte("\x93NUMPY\x01\x00"), uint16(len(header)))
		if _, err := f.Write(append(length, header...)); err != nil {
			return err
		}
		if err := binary.Write(f, binary.LittleEndian, a.data); err != nil {
			return err
		}
	}
	if err := z.Close(); err != nil {
		return err
	}
	return os.WriteFile(path, b.Bytes(), 0o666)
}
