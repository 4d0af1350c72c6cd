package main

import (
	"bytes"
	"fmt"
	goimage "image"
	"image/png"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/calibrate/approx"
	"github.com/mfgs/mfgs/calibrate/metrics"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/wrap/bench"
)

// rainbow is a gallery of n small images of one colour each, with their places as labels.
func rainbow(n, channels int) *gallery {
	g := &gallery{width: 4, height: 3, channels: channels}
	for i := range n {
		g.pixels = append(g.pixels, bytes.Repeat([]byte{byte(i), byte(2 * i), byte(3 * i)}[:channels], 4*3)...)
		g.labels = append(g.labels, byte(i))
	}
	return g
}

func TestSomeImagesAreSpreadEvenly(t *testing.T) {
	few := rainbow(10, 3).some(4)
	if !slices.Equal(few.labels, []byte{0, 2, 5, 7}) || few.len() != 4 || few.image(3)[2] != 21 || few.channels != 3 {
		t.Errorf("labels %v, pixels %v", few.labels, few.pixels)
	}
	if all := rainbow(3, 1); all.some(3) != all || all.some(9) != all {
		t.Error("where there are no more, others are taken than all")
	}
}

// Spoiled images are those of package corrupt, with their labels, and what there is of them is kept.
func TestSpoiledImagesAreWrittenOnce(t *testing.T) {
	for _, channels := range []int{1, 3} {
		dir := t.TempDir()
		g := rainbow(6, channels)
		ways := spoilings()
		if len(ways) != 1+15*corrupt.Severities {
			t.Fatalf("%d ways", len(ways))
		}
		for _, way := range []spoiling{ways[0], ways[3], ways[75]} {
			spec, err := g.writeSpoiled(dir, way)
			if err != nil {
				t.Fatal(err)
			}
			back, err := readGallery(t.Context(), spec)
			if err != nil {
				t.Fatal(err)
			}
			want := g.image(5)
			if way.severity > 0 {
				im := corrupt.Image{Width: 4, Height: 3, Channels: channels, Pixels: want}
				if im, err = corrupt.Apply(way.kind, way.severity, im, 5); err != nil {
					t.Fatal(err)
				}
				want = im.Pixels
			}
			if !slices.Equal(back.image(5), want) || !slices.Equal(back.labels, g.labels) || back.channels != channels {
				t.Errorf("%d channels, %v: image 5 is %v, want %v; labels %v", channels, way, back.image(5), want, back.labels)
			}

			// A change at the end is not seen, one at the beginning is, and a file that is too short.
			whole, err := os.ReadFile(spec)
			if err != nil {
				t.Fatal(err)
			}
			for _, test := range []struct {
				at   int
				kept bool
			}{{len(whole) - 1, true}, {len(whole) - 6*4*3*channels, false}} {
				changed := slices.Clone(whole)
				changed[test.at] ^= 255
				if err := os.WriteFile(spec, changed, 0o666); err != nil {
					t.Fatal(err)
				}
				if _, err := g.writeSpoiled(dir, way); err != nil {
					t.Fatal(err)
				}
				now, err := os.ReadFile(spec)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(now, changed) != test.kept || !test.kept && !bytes.Equal(now, whole) {
					t.Errorf("%v: changed at %d of %d, kept %v", way, test.at, len(whole), !test.kept)
				}
			}
			if err := os.Truncate(spec, int64(len(whole)-1)); err != nil {
				t.Fatal(err)
			}
			if _, err := g.writeSpoiled(dir, way); err != nil {
				t.Fatal(err)
			}
			if now, err := os.ReadFile(spec); err != nil || !bytes.Equal(now, whole) {
				t.Errorf("%v: a short file stays: %v", way, err)
			}
		}
	}
}

func TestTheSpecIsNamedForItsWay(t *testing.T) {
	names := map[string]bool{}
	for _, way := range spoilings() {
		names[fileName(way.String())] = true
	}
	if len(names) != 76 || !names["as-they-are"] || !names["jpeg-compression-5"] {
		t.Errorf("%d names: %v", len(names), names)
	}
}

// However two figures go together, the interval of their mean is not narrower than it should be, and
// of figures that are the same it is theirs.
func TestAMeanOfDifferencesIsNotSurerThanItIs(t *testing.T) {
	const n = 400
	x := uniform(n, 3)
	for name, y := range map[string][]byte{"same": x, "other": uniform(n, 4)} {
		of := func(draw []int, x []byte) (sum float64) {
			for _, i := range draw {
				sum += float64(x[i]) / n
			}
			return sum
		}
		interval := func(stat func([]int) float64) metrics.Interval {
			of := func(d [][]int) float64 { return stat(d[0]) }
			i, err := metrics.Bootstrap([]int{n}, of, metrics.BootstrapOptions{Seed: 1})
			if err != nil {
				t.Fatal(err)
			}
			return i
		}
		a := metrics.Difference{Difference: 1, Interval: interval(func(d []int) float64 { return of(d, x) })}
		b := metrics.Difference{Difference: 4, Interval: interval(func(d []int) float64 { return of(d, y) })}
		joint := interval(func(d []int) float64 { return (of(d, x) + of(d, y)) / 2 })
		got := meanDifference([]metrics.Difference{a, b})
		if got.Difference != 2.5 {
			t.Errorf("%s: mean %v", name, got.Difference)
		}
		narrower := got.Interval[1]-got.Interval[0] < joint[1]-joint[0]-1e-9
		if same := name == "same"; narrower || same && !approx.Equal(got.Interval[0], joint[0], 1e-9) ||
			!same && got.Interval[1]-got.Interval[0] < 1.2*(joint[1]-joint[0]) {
			t.Errorf("%s: interval %v, of both together %v", name, got.Interval, joint)
		}
	}
}

// Where mf0 is worse beyond chance is told, severity by severity and kind by kind.
func TestWhereMF0IsBeyondTemperatureScaling(t *testing.T) {
	f := &shifted{set: &benchmark{name: "X"}, seeds: []int{0, 1}, trials: shiftTrials(false)}
	for _, trial := range f.trials {
		var rows []row
		for _, way := range spoilings() {
			r := row{place: shiftPlace("X", way.severity, trial)}
			for seed := range 2 {
				nll, wrong := .5, .25
				a := answer{figures: figures{NLL: &nll, Error: &wrong}}
				if trial.method == "mf0" {
					// 0 and 1 lower, 2 and 3 neither, 4 and 5 higher.
					d := []float64{-.2, -.2, 0, 0, .2, .2}[way.severity]
					a.overTS = &metrics.Difference{Difference: d, Interval: metrics.Interval{d - .1, d + .1}}
				}
				r.runs = append(r.runs, measurement{seed, a})
			}
			rows = append(rows, r)
		}
		f.rows = append(f.rows, rows)
	}
	text := f.beyondTS()
	for _, want := range []string{
		"paired interval at severity 4 (+0.2000, +0.1000 to +0.3000), 5 (",
		"lower by more than it at severity 0 (-0.2000, -0.3000 to -0.1000), 1 (",
		"within it at severity 2 (+0.0000, -0.1000 to +0.1000), 3 (",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q lacks %q", text, want)
		}
	}
	if want := "| fog | 25.0 | 25.0 | 25.0 | 0.500 | 0.500 | 0.500 | +0.0400 | 4 | 2 | 10 |"; !strings.Contains(f.byKind(), want) {
		t.Errorf("%s\nlacks %s", f.byKind(), want)
	}
}

// digitsForShift has the lab's small digits stand in for CIFAR-10 as well.
func digitsForShift(t *testing.T) *lab {
	l := digitsLab(t)
	set := l.mnist()
	whole := set.test
	if set.test = strings.Replace(whole, ":1797]", ":1600]", 1); set.test == whole { // a third of them takes less time
		t.Fatalf("%s is not as expected", whole)
	}
	other := *set
	other.name = cifar10Name
	l.sets[cifar10Name] = &other
	return l
}

// The figures of images as they are, and of spoiled ones, are the library's; means over kinds are means.
func TestTheShiftPart(t *testing.T) {
	l := digitsForShift(t)
	chosen, err := parseParts("shift")
	if err != nil {
		t.Fatal(err)
	}
	r, err := l.make(t.Context(), chosen)
	if err != nil {
		t.Fatal(err)
	}
	found := map[place]row{}
	for _, row := range r.sections[0].rows {
		found[row.place] = row
	}
	if len(found) != 6*(5+3) {
		t.Errorf("%d rows, want 6 severities of 5 methods and of 3", len(found))
	}
	set := l.mnist()
	var shifts []bench.NamedSpec
	for i, way := range spoilings() {
		if way.severity == 2 {
			file := fileName(way.String()) + "-images-idx3-ubyte"
			spec := filepath.Join(l.scratch, "spoiled", "mnist", file)
			shifts = append(shifts, bench.NamedSpec{Name: fmt.Sprint(i), Spec: spec})
		}
	}
	direct, err := bench.Evaluate(t.Context(), bench.Config{
		Bundle: l.bundlePath(subject{set: set}), Test: set.test, Shifts: shifts, Methods: []string{"mf0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	in := direct.Methods[0].InDomain
	plain := found[place{"shift", "MNIST, severity 0", "mf0"}].mean()
	if *plain.NLL != in.NLL || *plain.DebiasedCE != in.DebiasedCE || *plain.AURC != in.AURC ||
		*plain.Error != in.Error {
		t.Errorf("severity 0: NLL %v, want %v", *plain.NLL, in.NLL)
	}
	var nll, debiased float64
	for _, s := range direct.Methods[0].Shifts {
		nll, debiased = nll+s.NLL/15, debiased+s.DebiasedCE/15
	}
	two := found[place{"shift", "MNIST, severity 2", "mf0"}].mean()
	if !approx.Equal(*two.NLL, nll, 1e-12) || !approx.Equal(*two.DebiasedCE, debiased, 1e-12) || !(nll > in.NLL) {
		t.Errorf("severity 2: NLL %v and debiased error %v, want %v and %v, NLL more than %v", *two.NLL, *two.DebiasedCE, nll, debiased, in.NLL)
	}
	text := r.sections[0].text.String()
	for _, want := range []string{"CIFAR-10-C", "](paper/shift-mnist-nll.svg)", "](paper/shift-cifar-10-aurc.svg)", "| AURC, % |", "| pixelate |", "paired interval"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if n := len(r.sections[0].pictures); n != 6 {
		t.Errorf("%d pictures", n)
	}
	for _, p := range r.sections[0].pictures {
		wellFormed(t, p.name, p.svg)
	}
}

// Files of images are read as well as arrays, and of one size and kind only.
func TestAGalleryOfFiles(t *testing.T) {
	colours := goimage.NewNRGBA(goimage.Rect(0, 0, 2, 1))
	copy(colours.Pix, []byte{1, 2, 3, 255, 4, 5, 6, 255})
	var file bytes.Buffer
	if err := png.Encode(&file, colours); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	images := []image{{name: "a/1.png", data: file.Bytes(), label: "7"}, {name: "a/2.png", data: file.Bytes(), label: "3"}}
	if err := writeArchive(path, images); err != nil {
		t.Fatal(err)
	}
	g, err := readGallery(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if g.width != 2 || g.height != 1 || g.channels != 3 || !slices.Equal(g.image(1), []byte{1, 2, 3, 4, 5, 6}) ||
		!slices.Equal(g.labels, []byte{7, 3}) {
		t.Errorf("%+v", g)
	}
	if _, err := g.colour(8); err == nil || !strings.Contains(err.Error(), "want grey ones") {
		t.Errorf("in colour once more: %v", err)
	}
	if _, err := g.writeRotated(t.TempDir(), 90); err == nil || !strings.Contains(err.Error(), "want grey ones") {
		t.Errorf("rotated: %v", err)
	}
	images[1].data = picture1(t)
	if err := writeArchive(path, images); err != nil {
		t.Fatal(err)
	}
	if _, err := readGallery(t.Context(), path); err == nil || !strings.Contains(err.Error(), "a/2.png") {
		t.Errorf("a grey image after one in colour: %v", err)
	}
}
