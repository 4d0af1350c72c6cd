package part

import (
	"fmt"

	"github.com/mfgs/mfgs/wrap/bundle"
)

// Known identifies what a calibration reads, by SHA-256 sums as the manifest of a bundle has them. Other
// models and data are refused before a bundle is written; where a sum is "" or absent, any are taken.
type Known struct {
	Model string // of the model's file
	// Data are the fingerprints of sets that are read as one, by role.
	Data map[bundle.Role]string
}

// CheckModel refuses another model than the one that is known; sum is that of the one at path.
func (k Known) CheckModel(path, sum string) error {
	if k.Model != "" && sum != k.Model {
		return fmt.Errorf("%s: its SHA-256 is %s, want %s: this is another model than the known one", path, sum, k.Model)
	}
	return nil
}

// CheckData refuses other data than those that are known.
func (k Known) CheckData(p *Part) error {
	for _, s := range p.Sets {
		if want := k.Data[s.Role]; want != "" && s.Shards[0].Fingerprint != want {
			return fmt.Errorf("%s: %s: its fingerprint is %s, want %s: the data are not those known",
				s.Role, s.Spec, s.Shards[0].Fingerprint, want)
		}
	}
	return nil
}
