package wrap_test

import (
	"errors"
	"path/filepath"
	"slices"
	"testing"

	"github.com/mfgs/mfgs/calibrate"
	. "github.com/mfgs/mfgs/wrap"
)

func TestUnreadableRecordsAreErrorsInTheirPlaces(t *testing.T) {
	t.Parallel()
	dir, _ := calibrated(t, calibrate.Kronecker)
	p := opened(t, dir, Options{})
	data := tree(t, []string{"cats", "dogs"}, 3)
	write(t, data, "cats/001.png", []byte("no image"))
	write(t, data, "dogs/000.png", []byte("no image"))
	var got []string
	for one, err := range p.PredictDataset(t.Context(), data, nil) {
		if bad := (*RecordError)(nil); errors.As(err, &bad) {
			got = append(got, "bad "+filepath.Base(bad.Input))
		} else if err != nil {
			t.Fatal(err)
		} else {
			got = append(got, filepath.Base(one.Input))
		}
	}
	if want := []string{"000.png", "bad 001.png", "002.png", "bad 000.png", "001.png", "002.png"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	for _, err := range p.PredictDataset(t.Context(), data, nil) {
		if err != nil {
			break // which ends the work
		}
	}
}
