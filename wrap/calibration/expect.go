package calibration

import (
	"fmt"

	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Expect identifies model and data by the SHA-256 hashes of a bundle's manifest. Others
// are refused before a bundle is written. A hash that is "" or absent accepts any.
type Expect struct {
	Model string // of the model's file
	// Data are the fingerprints of sets that are not read in shards, by role.
	Data map[bundle.Role]string
	// Posterior is of the file of another program's posterior.
	Posterior string
}

// checkModel refuses a model at path whose hash is not the expected one.
func (e Expect) checkModel(path, sum string) error {
	if e.Model != "" && sum != e.Model {
		return fmt.Errorf("%s: its SHA-256 is %s, want %s: not the expected model", path, sum, e.Model)
	}
	return nil
}

// checkData refuses data whose fingerprints are not the expected ones.
func (e Expect) checkData(p *part.Part) error {
	for _, s := range p.Sets {
		if want := e.Data[s.Role]; want != "" && s.Shards[0].Fingerprint != want {
			return fmt.Errorf("%s: %s: its fingerprint is %s, want %s: not the expected data",
				s.Role, s.Spec, s.Shards[0].Fingerprint, want)
		}
	}
	return nil
}
