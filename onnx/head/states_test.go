package head

import (
	"strings"
	"testing"

	"github.com/mfgs/mfgs/internal/onnx/onnxtest"
	"github.com/mfgs/mfgs/onnx"
)

// Whatever is given for states, the error is one line, or the model has them.
func FuzzStates(f *testing.F) {
	for _, s := range []string{"", "h=hn", "h=hn,c=cn", "c=cn,h=hn", "h=hn,h=hn", "x=y", "h", "=", ",", "h=hn,", "h==hn", "h=\n"} {
		f.Add(s)
	}
	m, err := onnx.Parse("recurrent", onnxtest.Recurrent{Seed: 1}.File())
	if err != nil {
		f.Fatal(err)
	}
	h, err := Find(m, Options{})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, states string) {
		all, of, err := Unroll(m, h, states)
		switch {
		case err != nil:
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("%q: %q", states, err)
			}
			return
		case states == "" && (all != m || of != h):
			t.Error("no states change the model")
		case all.Metadata()[StateKey] != states:
			t.Errorf("%q: recorded %q", states, all.Metadata()[StateKey])
		}
		carried, list, err := Carry(all)
		if err != nil || states != "" && len(carried.Inputs()) != len(all.Inputs())+len(list) {
			t.Errorf("%q: carried %v, %v", states, list, err)
		}
	})
}
