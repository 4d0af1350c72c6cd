package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/mfgs/mfgs/cmd/mfgs-paper/internal/corrupt"
	"github.com/mfgs/mfgs/internal/approx"
	"github.com/mfgs/mfgs/wrap/bench"
)

// digitsForShift returns a lab that uses the small digits as CIFAR-10, too.
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

// Figures are those of package bench; rows by severity are means over kinds.
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
	for i, c := range corrupt.Corruptions() {
		if c.Severity == 2 {
			file := fileName(c.String()) + "-images-idx3-ubyte"
			spec := filepath.Join(l.scratch, "corrupted", "mnist", file)
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
