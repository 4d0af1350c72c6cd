package main

import (
	"bytes"
	"fmt"
	goimage "image"
	"image/png"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/archive"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/gallery"
	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/spoil"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/wrap/bench"
)

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
	t.Parallel()
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
	for _, row := range r.sections[0].Rows {
		found[row.place] = row
	}
	if len(found) != (6+15)*(5+4) {
		t.Errorf("%d rows, want 6 severities and 15 kinds of 5 methods and of 4", len(found))
	}
	set := l.mnist()
	var shifts []bench.NamedSpec
	for i, way := range spoil.Ways() {
		if way.Severity == 2 {
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
	for _, want := range []string{"CIFAR-10-C", "](paper/shift-mnist-nll.svg)", "](paper/shift-cifar-10-aurc.svg)", "| AURC, % |", "| pixelate |"} {
		if !strings.Contains(text, want) {
			t.Errorf("the text lacks %q", want)
		}
	}
	if n := len(r.sections[0].pictures); n != 6 {
		t.Errorf("%d pictures", n)
	}
	for _, p := range r.sections[0].pictures {
		wellFormed(t, p.Name, p.SVG)
	}
}

// Files of images are read as well as arrays, and of one size and kind only.
func TestAGalleryOfFiles(t *testing.T) {
	t.Parallel()
	colours := goimage.NewNRGBA(goimage.Rect(0, 0, 2, 1))
	copy(colours.Pix, []byte{1, 2, 3, 255, 4, 5, 6, 255})
	var file bytes.Buffer
	if err := png.Encode(&file, colours); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "a.tar")
	images := []archive.Image{{Name: "a/1.png", Data: file.Bytes(), Label: "7"}, {Name: "a/2.png", Data: file.Bytes(), Label: "3"}}
	if err := archive.Write(path, images); err != nil {
		t.Fatal(err)
	}
	g, err := gallery.Read(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if g.Width != 2 || g.Height != 1 || g.Channels != 3 || !slices.Equal(g.Image(1), []byte{1, 2, 3, 4, 5, 6}) ||
		!slices.Equal(g.Labels, []byte{7, 3}) {
		t.Errorf("%+v", g)
	}
	if _, err := g.Colour(8); err == nil || !strings.Contains(err.Error(), "want grey ones") {
		t.Errorf("in colour once more: %v", err)
	}
	if _, err := g.WriteRotated(t.TempDir(), 90); err == nil || !strings.Contains(err.Error(), "want grey ones") {
		t.Errorf("rotated: %v", err)
	}
	images[1].Data = picture1(t)
	if err := archive.Write(path, images); err != nil {
		t.Fatal(err)
	}
	if _, err := gallery.Read(t.Context(), path); err == nil || !strings.Contains(err.Error(), "a/2.png") {
		t.Errorf("a grey image after one in colour: %v", err)
	}
}

// picture1 is a PNG file of one pixel.
func picture1(t *testing.T) []byte {
	var b bytes.Buffer
	if err := png.Encode(&b, goimage.NewGray(goimage.Rect(0, 0, 1, 1))); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}
