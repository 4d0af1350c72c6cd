package dataset

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/testerr"
)

// pack encodes numbers as NumPy would.
func pack(t testing.TB, data any) []byte {
	t.Helper()
	b, err := binary.Append(nil, binary.LittleEndian, data)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestFeaturesAreReadInBlocks(t *testing.T) {
	t.Parallel()
	phi, logits := make([]float32, 10*3), make([]float64, 10*2)
	for i := range phi {
		phi[i] = float32(i)
	}
	for i := range logits {
		logits[i] = float64(i) / 3
	}
	phi[7], logits[5] = float32(math.NaN()), math.Inf(1)
	labels := []uint8{0, 1, 1, 0, 1, 0, 0, 1, 1, 0}
	for _, name := range []string{"features", "phi"} {
		path := write(t, t.TempDir(), "f.npz", zipped(t, map[string][]byte{
			name + ".npy": npy("<f4", "(10, 3)", pack(t, phi)), "logits.npy": npy("<f8", "(10, 2)", pack(t, logits)), "y.npy": npy("|u1", "(10,)", labels),
		}))
		for _, s := range [][2]int{{0, 10}, {0, 4}, {3, 10}, {5, 6}} {
			for _, size := range []int{1, 4, 100} {
				f, err := OpenFeatures(path+"["+strconv.Itoa(s[0])+":"+strconv.Itoa(s[1])+"]", Options{Classes: 2})
				if err != nil {
					t.Fatal(err)
				}
				if f.Len() != s[1]-s[0] || f.Dim() != 3 || f.Logits() != 2 || f.Classes() != 2 || !f.HasLabels() {
					t.Errorf("%d × %d, %d", f.Len(), f.Dim(), f.Logits())
				}
				at := s[0]
				for b, err := range f.Blocks(context.Background(), size) {
					if err != nil {
						t.Fatal(err)
					}
					if b.Positions[0] != at || b.N < 1 || b.Positions[0]/size != (b.Positions[0]+b.N-1)/size ||
						len(b.Features) != 3*b.N || len(b.Logits) != 2*b.N || len(b.Labels) != b.N {
						t.Fatalf("block of %d from %d, want it from %d", b.N, b.Positions[0], at)
					}
					for i := range b.Features {
						if math.Float32bits(b.Features[i]) != math.Float32bits(phi[3*at+i]) {
							t.Errorf("phi %d is %v", 3*at+i, b.Features[i])
						}
					}
					for i := range b.Logits {
						if b.Logits[i] != float32(logits[2*at+i]) {
							t.Errorf("logit %d is %v", 2*at+i, b.Logits[i])
						}
					}
					for i, y := range b.Labels {
						if y != int(labels[at+i]) {
							t.Errorf("label %d is %d", at+i, y)
						}
					}
					at += b.N
				}
				if at != s[1] {
					t.Errorf("%v in blocks of %d ends at %d", s, size, at)
				}
				if print, err := f.Fingerprint(context.Background()); err != nil || len(print) != 64 {
					t.Errorf("%q, %v", print, err)
				}
				f.Close()
			}
		}
	}
}

// Fingerprints of precomputed features depend on content, slice and labels.
func TestFeaturesFingerprint(t *testing.T) {
	t.Parallel()
	members := func(last byte) map[string][]byte {
		logits := ramp(4 * 4)
		logits[15] = last
		return map[string][]byte{"features.npy": npy("<f4", "(4, 2)", ramp(4*8)), "logits.npy": npy("<f4", "(4, 1)", logits), "y.npy": npy("|u1", "(4,)", []byte{0, 1, 1, 0})}
	}
	path, moved := write(t, t.TempDir(), "f.npz", zipped(t, members(1))), write(t, t.TempDir(), "g.npz", zipped(t, members(1)))
	print := func(spec string, o Options) string {
		t.Helper()
		f, err := OpenFeatures(spec, o)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		s, err := f.Fingerprint(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	base := print(path, Options{})
	if print(moved, Options{}) != base || print(path+"[0:4]", Options{}) != base {
		t.Error("the same examples have two fingerprints")
	}
	seen := map[string]string{base: "base"}
	for what, got := range map[string]string{
		"a slice": print(path+"[1:3]", Options{}), "another slice": print(path+"[1:4]", Options{}), "a later slice": print(path+"[2:4]", Options{}),
		"no labels wanted": print(path, Options{Unlabelled: true}),
		"another number":   print(write(t, t.TempDir(), "f.npz", zipped(t, members(2))), Options{}),
	} {
		if other, dup := seen[got]; dup {
			t.Errorf("%s has the fingerprint of %s", what, other)
		}
		seen[got] = what
	}
}

func TestFeaturesOfOneLogitHaveTwoClasses(t *testing.T) {
	t.Parallel()
	path := write(t, t.TempDir(), "f.npz", zipped(t, map[string][]byte{
		"features.npy": npy("<f2", "(2, 1)", ramp(4)), "logits.npy": npy("<f4", "(2, 1)", ramp(8)),
	}))
	f, err := OpenFeatures(path, Options{Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Classes() != 2 || f.Logits() != 1 || f.HasLabels() {
		t.Errorf("%d classes, %d logits, labelled %t", f.Classes(), f.Logits(), f.HasLabels())
	}
}

func TestFeaturesAreRefused(t *testing.T) {
	t.Parallel()
	x, l, y := npy("<f4", "(2, 2)", ramp(16)), npy("<f4", "(2, 3)", ramp(24)), npy("|u1", "(2,)", []byte{2, 0})
	for _, c := range []struct {
		name    string
		members map[string][]byte
		want    string
	}{
		{"no features", map[string][]byte{"logits.npy": l}, `no array "features"; there are logits`},
		{"no logits", map[string][]byte{"features.npy": x}, `no array "logits"; there are features`},
		{"counts differ", map[string][]byte{"features.npy": x, "logits.npy": npy("<f4", "(3, 3)", ramp(36))}, "3 rows of logits for 2 of features"},
		{"whole numbers", map[string][]byte{"features.npy": npy("<i4", "(2, 2)", ramp(16)), "logits.npy": l}, "features: int32 of shape [2 2]; want floats"},
		{"rank", map[string][]byte{"features.npy": npy("<f4", "(2, 2, 1)", ramp(16)), "logits.npy": l}, "features: float32 of shape [2 2 1]; want floats"},
		{"too wide", map[string][]byte{"features.npy": npy("<f2", "(1, 1048577)", make([]byte, 2<<20+2)), "logits.npy": l}, "n at most 1048576"},
		{"label count", map[string][]byte{"features.npy": x, "logits.npy": l, "y.npy": npy("|u1", "(1,)", ramp(1))}, "1 labels for 2 rows"},
		{"label out of range", map[string][]byte{"features.npy": x, "logits.npy": l, "y.npy": npy("|u1", "(2,)", []byte{2, 3})}, "label 3 of example 1 is outside [0,3)"},
		{"class count", map[string][]byte{"features.npy": x, "logits.npy": npy("<f4", "(2, 4)", ramp(32)), "y.npy": y}, "4 logits per example for a head of 3 classes"},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, t.TempDir(), "f.npz", zipped(t, c.members))
			f, err := OpenFeatures(path, Options{Classes: 3})
			if err == nil {
				defer f.Close()
				for _, e := range f.Blocks(context.Background(), 512) {
					err = e
				}
			}
			testerr.OneLine(t, err, "f.npz", c.want)
		})
	}
	_, err := OpenFeatures("npy:testdata/fortran.npy", Options{})
	testerr.OneLine(t, err, "fortran.npy", "features come as arrays of an .npz, or as lists of records")
}

// In records features are lists by their names, and read as arrays are, in blocks of a shard's
// positions.
func TestFeaturesOfRecords(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	for i := range 10 {
		fmt.Fprintf(&text, "{\"phi\":[%d,0.5,-1],\"id\":\"x\",\"logits\":[%d,1e3],\"label\":%d}\n", i, i*i, i%2)
	}
	path := write(t, t.TempDir(), "f.jsonl", []byte(text.String()))
	f, err := OpenFeatures(path+"[1:10]", Options{Classes: 2})
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if f.Len() != 9 || f.Dim() != 3 || f.Logits() != 2 || !f.HasLabels() {
		t.Errorf("%d × %d, %d", f.Len(), f.Dim(), f.Logits())
	}
	var sizes []int
	at := 1
	for b, err := range f.Blocks(t.Context(), 4) {
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, b.N)
		for i := range b.N {
			if b.Positions[i] != at || b.Features[3*i] != float32(at) || b.Features[3*i+1] != 0.5 ||
				b.Logits[2*i] != float32(at*at) || b.Logits[2*i+1] != 1000 || b.Labels[i] != at%2 {
				t.Errorf("example %d is %+v", at, b)
			}
			at++
		}
	}
	if !slices.Equal(sizes, []int{3, 4, 2}) {
		t.Errorf("blocks of %v", sizes)
	}
	for want, text := range map[string]string{
		"x.jsonl[1]: 2 features and 1 logits, and the first example has 1 and 1": `{"features":[1],"logits":[1]}
{"features":[1,2],"logits":[1]}`,
		`no key "features" for the model's input; there are logits, x`: `{"x":[1],"logits":[1]}`,
		"features of shape [1 1]; want a list of numbers":              `{"features":[[1]],"logits":[1]}`,
		"features: []string; want real numbers":                        `{"features":["a"],"logits":[1]}`,
		"label 2 of example 0 is outside [0,2)":                        `{"features":[1],"logits":[1],"label":2}`,
		"2 logits per example for a head of 3 classes":                 `{"features":[1],"logits":[1,2]}`,
	} {
		path := write(t, t.TempDir(), "x.jsonl", []byte(text))
		o := Options{Classes: 2}
		if strings.Contains(want, "3 classes") {
			o.Classes = 3
		}
		f, err := OpenFeatures(path, o)
		if err == nil {
			for _, e := range f.Blocks(t.Context(), 4) {
				err = e
			}
			f.Close()
		}
		testerr.OneLine(t, err, want)
	}
}
