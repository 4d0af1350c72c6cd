package calibration

import (
	"fmt"

	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Expect identifies what a calibration reads, by SHA-256 sums as the manifest of a bundle has them. Other
// models and data are refused before a bundle is written; where a sum is "" or absent, any are taken.
type Expect struct {
	Model string // of the model's file
	// Data are the fingerprints of sets that are read as one, by role.
	Data map[bundle.Role]string
}

// checkModel refuses another model than the one that is expected; sum is that of the one at path.
func (e Expect) checkModel(path, sum string) error {
	if e.Model != "" && sum != e.Model {
		return fmt.Errorf("%s: its SHA-256 is %s, want %s: this is another model than the expected one", path, sum, e.Model)
	}
	return nil
}

// checkData refuses other data than those that are expected.
func (e Expect) checkData(p *part.Part) error {
	for _, s := range p.Sets {
		if want := e.Data[s.Role]; want != "" && s.Shards[0].Fingerprint != want {
			return fmt.Errorf("%s: %s: its fingerprint is %s, want %s: the data are not those expected",
				s.Role, s.Spec, s.Shards[0].Fingerprint, want)
		}
	}
	return nil
}
