package dataset_test

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"testing"

	"github.com/mfgs/mfgs/featurize/dataset"
)

// digitsSource reads a file of digits, each an example of one number and its own label.
type digitsSource struct {
	dataset.Base
	f *dataset.File
}

func openDigits(path string, _ dataset.Options) (dataset.Source, error) {
	s := new(digitsSource)
	var err error
	if s.f, err = s.Open(path); err != nil {
		return nil, err
	}
	s.Count, s.Labelled = int(s.f.Size()), true
	return s, nil
}

func (s *digitsSource) Examples(from, to int) iter.Seq2[dataset.Example, error] {
	return func(yield func(dataset.Example, error) bool) {
		text, err := io.ReadAll(s.f.Reader())
		for i := from; i < to && err == nil; i++ {
			digit := int(text[i] - '0')
			inputs := []dataset.Array{{Shape: []int{1}, Data: []float32{float32(digit)}}}
			if !yield(dataset.Example{Index: i, Name: fmt.Sprint(i), Label: digit, Inputs: inputs}, nil) {
				return
			}
		}
		if err != nil {
			yield(dataset.Example{Label: -1}, err)
		}
	}
}

// A package of its own adds a format: its files are recognised and named by it, sliced,
// fingerprinted as they are read, and listed where others are refused.
func TestRegisteredFormat(t *testing.T) {
	dataset.Register(dataset.Format{
		Name: "digits", Doc: ".digits", Files: true, Open: openDigits,
		Sniff: func(p *dataset.Peek) (bool, error) { return bytes.HasPrefix(p.Head, []byte("314")), nil },
	})
	path := filepath.Join(t.TempDir(), "pi")
	if err := os.WriteFile(path, []byte("31415926"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, spec := range []string{path + "[2:5]", "digits:" + path + "[2:5]"} {
		d, err := dataset.Open(t.Context(), spec, dataset.Options{Classes: 10, Fingerprint: true})
		if err != nil {
			t.Fatal(err)
		}
		defer d.Close()
		var got []int
		for e, err := range d.Examples(t.Context()) {
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, e.Label)
		}
		if fmt.Sprint(got) != "[4 1 5]" || d.Format() != "digits" {
			t.Errorf("%s is %v of format %s", spec, got, d.Format())
		}
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("%x", sha256.Sum256([]byte("digits true 2 5\n8\n31415926")))
		if sum, err := d.Fingerprint(t.Context()); err != nil || sum != want {
			t.Errorf("%s: fingerprint %q, %v; want %s", spec, sum, err, want)
		}
		if err := os.WriteFile(path, []byte("31415926"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := dataset.Open(t.Context(), "digits:"+t.TempDir(), dataset.Options{}); err == nil {
		t.Error("a folder is opened as digits")
	}
}
