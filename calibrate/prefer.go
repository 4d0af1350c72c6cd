package calibrate

import "math"

// leastTau bounds the preference for small τ. There a median T_k is √(1 + λ₀/0.01) ≈ 5.6, so that mf0 depends
// on T_act²/T_ens alone, and a smaller τ only loses precision.
const leastTau = 0.01

// maxGivenUp is the largest fraction of the NLL that prefer gives up, whatever the standard error, which is large
// for few examples.
const maxGivenUp = 0.005

// prefer returns the temperatures with the smallest τ ≥ leastTau whose objective, at its best T_act, is not
// significantly above the optimum: by no more than one standard error of the paired differences, nor maxGivenUp,
// and not above limit, the objective of temperature scaling. val.nll[0] and val.margin[0] must be those at the
// optimum; prefer overwrites them. Losses are those of parabolas through three T_act, see floor.
//
// The likelihood says little about τ: from τ = 0 to about 0.3 it is often flat to one part in two hundred, while
// the AUROC of 1 - max p under these temperatures falls all the way. Where the likelihood does not decide, the
// posterior gets the larger share of the spread.
func prefer(val *examples, best point, limit, median, lambda0 float64) point {
	if best.tau <= leastTau {
		return best
	}
	base := val.losses(0)
	s, known := nllSearch(val, median, lambda0), []point{best}
	most := math.Min(maxGivenUp*best.value, limit-best.value)
	try := func(logTau float64) (point, bool) {
		p := s.floorNear(math.Exp(logTau), known, closely)
		known = append(known, p.point)
		loss, stdErr := pairedGain(val.lossesAt(p), base)
		return point{p.act, p.tau, best.value + loss}, loss <= math.Min(stdErr, most)
	}
	lo, hi := math.Log(leastTau), math.Log(best.tau)
	chosen, ok := try(lo)
	if ok {
		return chosen
	}
	chosen = best
	const tolerance = 0.1 // in log τ
	for hi-lo > tolerance {
		mid := (lo + hi) / 2
		if p, ok := try(mid); ok {
			chosen, hi = p, mid
		} else {
			lo = mid
		}
	}
	return chosen
}
