package dataset

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// Each line of a stream is parsed alone, and a bad one is skipped.
func TestStreamedLinesStandOnTheirOwn(t *testing.T) {
	t.Parallel()
	o := Options{Inputs: []string{"a", "b"}, LabelClasses: []string{"cat", "dog"}, Classes: 2}
	long := `{"a":"` + strings.Repeat("x", maxText) + `"}`
	text := "\xef\xbb\xbf" + strings.Join([]string{
		`{"a":[1,2],"b":3,"label":1}`,
		`{"a":[1],"b":3}`, // no label, though the first has one
		``,
		`{"b":3,"c":{"d":[]},"a":[[1,2],[3,4]],"label":"cat"}`,
		`{"a":[1]}`,
		`nonsense`,
		long,
		`{"a":[1],"b":3,"label":"cow"}`,
		`{"a":[1],"b":3,"label":2}`,
		`{"a":[1],"b":3,"label":null}`,
		`{"a":[1],"b":3,"a":[1]}`,
		`{"label":1}`,
		`{"b":[1],"a":3,"labels":0}`, // the end of the text ends it
	}, "\n")
	want := []string{
		"x[0] 1 [2] []", "x[1] -1 [1] []", "x[2] 0 [2 2] []",
		`x[3]: no key "b" for the model's input; there are a`,
		"x[4]: broken JSON: want {",
		"x[5]: more than 67108864 bytes of text",
		`x[6]: label: label "cow" is not one of the 2 class names (cat, dog)`,
		"x[7]: label 2 is outside [0,2)",
		"x[8]: label of the first example is null",
		`x[9]: the key "a" appears twice`,
		"x[10]: no inputs: want an object",
		"x[11] 0 [] [1]",
	}
	for _, stray := range []bool{false, true} {
		if o.IgnoreUnknownLabels = stray; stray {
			want = slices.Clone(want)
			want[6], want[7], want[8] = "x[6] -1 [1] []", "x[7] -1 [1] []", "x[8] -1 [1] []"
		}
		var got []string
		for e, err := range StreamJSONL(strings.NewReader(text), "x", o) {
			s := ""
			var bad *RecordError
			switch {
			case err == nil:
				s = fmt.Sprintf("%s %d %v %v", e.Name, e.Label, e.Inputs[0].Shape, e.Inputs[1].Shape)
			case !errors.As(err, &bad) || bad.Name != e.Name || bad.Index != e.Index || e.Inputs != nil ||
				e.Label != -1:
				t.Fatalf("%+v with %v", e, err)
			default:
				s = err.Error()
			}
			got = append(got, s)
		}
		if !slices.EqualFunc(got, want, strings.HasPrefix) {
			t.Errorf("stray %t: got\n%s\nwant\n%s", stray, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestAStreamThatBreaksEndsWithItsError(t *testing.T) {
	t.Parallel()
	broken := errors.New("the pipe leaks")
	r := io.MultiReader(strings.NewReader("{\"x\":1}\n{\"x\":2}\n{\"x\":3"), iotest.ErrReader(broken))
	n := 0
	var last error
	for _, err := range StreamJSONL(r, "x", Options{}) {
		n++
		last = err
	}
	if n != 3 || !errors.Is(last, broken) || last.Error() != "x: the pipe leaks" {
		t.Errorf("%d examples, then %v", n, last)
	}
	n = 0
	for range StreamJSONL(strings.NewReader("{\"x\":1}\n{\"x\":2}\n"), "x", Options{}) {
		n++
		break
	}
	for range StreamJSONL(strings.NewReader("\n \n"), "x", Options{}) {
		n++
	}
	if n != 1 {
		t.Errorf("%d examples, want 1 of the first and none of blank lines", n)
	}
}
