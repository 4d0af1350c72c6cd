package calibration

import (
	"cmp"
	"fmt"

	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Reasons for having no probe that need no warning.
const (
	notWanted = "not wanted"
	hadNone   = "the bundle had none"
)

// whyNoProbe returns why a part has no probe: the reason that its first shard with validation examples gives.
func whyNoProbe(p *part.Part) string {
	if s := p.Set(bundle.Val); s != nil {
		for _, shard := range s.Shards {
			if shard.Examples > 0 {
				return cmp.Or(shard.NoProbe, "the part with the first validation examples has none")
			}
		}
	}
	return "there are no validation examples"
}

// probeInfo describes the probe of a new bundle, and warns if a wanted one is missing.
func probeInfo(p *part.Part) (info ProbeInfo, warning string) {
	if p.Probe != nil {
		return ProbeInfo{Examples: p.Probe.N}, ""
	}
	why := whyNoProbe(p)
	if p.Recipe.Model != nil && why != notWanted && why != hadNone {
		warning = fmt.Sprintf("val: the bundle has no probe (%s): servers cannot check that they reproduce its predictions", why)
	}
	return ProbeInfo{Reason: why}, warning
}
