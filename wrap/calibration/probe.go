package calibration

import (
	"cmp"
	"fmt"

	"github.com/mfgs/mfgs/wrap/bundle"
	"github.com/mfgs/mfgs/wrap/internal/part"
)

// Why there is no probe where nothing is amiss.
const (
	notWanted = "not wanted"
	hadNone   = "the bundle had none"
)

// whyNoProbe returns why merged parts have no probe, as the shard with the first held-out examples says.
func whyNoProbe(p *part.Part) string {
	if s := p.Set(bundle.Val); s != nil {
		for _, shard := range s.Shards {
			if shard.Examples > 0 {
				return cmp.Or(shard.NoProbe, "the part with the first held-out examples has none")
			}
		}
	}
	return "there are no held-out examples"
}

// probeInfo describes the probe of a new bundle, and warns where there is none though one was wanted.
func probeInfo(p *part.Part, to *target) (info ProbeInfo, warning string) {
	if p.Probe != nil {
		return ProbeInfo{Examples: p.Probe.N}, ""
	}
	if p.Recipe.Model != nil && to.noProbe != notWanted && to.noProbe != hadNone {
		warning = fmt.Sprintf("val: no validation inputs are kept: %s: servers cannot check that the model gives the same there", to.noProbe)
	}
	return ProbeInfo{Reason: to.noProbe}, warning
}
