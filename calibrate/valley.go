package calibrate

import (
	"cmp"
	"context"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/internal/minimum"
	"github.com/mfgs/mfgs/calibrate/meanfield"
)

// searchValleys returns points of a function of the temperatures where it may be least. few is much
// the same function, of fewer examples; nil where there is none.
//
// For each τ there is one valley over T_act, narrow beside the grid's steps. From the lowest of nine
// τ the search goes on along the valley; and from the lowest with τ below 10, since a method whose
// spread says something has a minimum there, which beside a corner where the spread is nothing is
// easily passed over. All of this is over the few where there are such, and from the lower of the
// minima it goes on over all.
//
// Of all where there are few, T_act and values are those of parabolas through what was evaluated.
func searchValleys(ctx context.Context, few, all search) ([]point, error) {
	f, gain := few, coarse
	if few == nil {
		f, gain = all, fine
	}
	valleys, err := f.valleys(ctx)
	if err != nil {
		return nil, err
	}
	var points []point
	for _, start := range f.near(lowest(valleys)) {
		found, err := f.along(ctx, start, gain)
		if err != nil {
			return nil, err
		}
		points = append(points, found...)
	}
	if few == nil {
		for i, p := range points { // which costs little, and of few examples parabolas go astray
			points[i].value = all([]float64{p.act}, p.tau)[0]
		}
		return points, checkPoints(points)
	}
	starts := all.near(lowest(points))
	if err := checkPoints(starts); err != nil {
		return nil, err
	}
	found, err := all.along(ctx, least(starts), coarse)
	return append(found, starts...), err
}

// near returns the floors near those of another search, or of the same by T_act farther apart: between
// those the value of a floor is a guess.
func (f search) near(points []point) []point {
	floors := make([]point, len(points))
	for i, p := range points {
		floors[i] = f.floor(p.tau, p.act, around).point
	}
	return floors
}

// valleys returns the floor of the valley at each τ of the grid, the largest first: where all are the same, that is
// the least.
func (f search) valleys(ctx context.Context) ([]point, error) {
	var points []point
	for _, tau := range logSpace(maxTau, minTau, gridSize) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		p := f.floor(tau, math.Sqrt(minAct*maxAct), everywhere)
		points = append(points, f.floor(tau, p.act, between).point)
	}
	return points, checkPoints(points)
}

// along searches the valley for the τ where it is lowest, from a start on, as long as it promises a
// gain, and returns all points of it that were looked at.
func (f search) along(ctx context.Context, start point, gain float64) ([]point, error) {
	lo, hi := math.Log(minTau), math.Log(maxTau)
	points, from := []point{start}, clamp(math.Log(start.tau), lo, hi)
	minimum.Downhill(func(logTau float64) float64 {
		switch {
		case ctx.Err() != nil:
			return math.Inf(1) // the search ends soon, without further work
		case logTau == from:
			return start.value
		}
		p := f.floorNear(math.Exp(logTau), points, around, meanfield.Lambda0).point
		points = append(points, p)
		return p.value
	}, lo, hi, from, 1, gain)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return points, checkPoints(points)
}

// lowest returns the least of the points and, where it is another, the least with τ below 10.
func lowest(points []point) []point {
	starts := []point{least(points)}
	const nothing = 10 // beyond this τ the spread is next to nothing
	inner := least(slices.DeleteFunc(slices.Clone(points), func(p point) bool { return p.tau >= nothing }))
	if inner != starts[0] {
		starts = append(starts, inner)
	}
	return starts
}

// spacing is that of several T_act, at most gridSize, which at one τ cost little more than one.
type spacing struct {
	n    int
	step float64 // in log T_act
}

var (
	everywhere = spacing{gridSize, 2 * gridStep} // from bound to bound
	between    = spacing{gridSize, gridStep / 2} // from one of those to the next, both ways
	// A valley is a few tenths wide. Parabolas of these are good to 1e-5, and see over the roughness of an AUROC.
	around  = spacing{5, 0.08}
	closely = spacing{3, 0.08} // of NLL, which is smooth
)

// A floor is where the valley at one τ is lowest, by a parabola through the values at three T_act.
type floor struct {
	point
	middle int     // which of the T_act evaluated last is the middle one of the three
	above  float64 // steps from that to the floor
}

// floorNear is floor from the T_act at which points of the valley at other τ let it be expected.
func (f search) floorNear(tau float64, known []point, s spacing, lambda0 float64) floor {
	nearest := slices.MinFunc(known, func(a, b point) int {
		return cmp.Compare(math.Abs(math.Log(a.tau/tau)), math.Abs(math.Log(b.tau/tau)))
	})
	return f.floor(tau, nearest.act*math.Exp(valley(nearest.tau, lambda0)-valley(tau, lambda0)), s)
}

// floor returns the floor of the valley at a τ. It looks around a T_act, and where the floor is beyond
// what it has looked at, on there.
func (f search) floor(tau, act float64, s spacing) floor {
	const (
		believed = 1.5 // steps from the middle, up to which a parabola is believed
		jump     = 4   // steps that it goes on at most
		moves    = 10
	)
	acts, last := make([]float64, s.n), s.n-1
	width := math.Exp(s.step * float64(last) / 2)
	var found floor
	for range moves {
		act = clamp(act, minAct*width, maxAct/width)
		for i := range acts {
			acts[i] = act / width * math.Exp(s.step*float64(i))
		}
		v := f(acts, tau)
		at := middleOfLeast(v)
		found = floor{point{acts[at], tau, v[at]}, at, 0}
		if atBound(acts[at]) || math.IsNaN(v[at]) {
			return found
		}
		m := min(max(at, 1), last-1)
		bend, above := v[m-1]-2*v[m]+v[m+1], 0.0
		if bend > 0 && !math.IsInf(bend, 1) {
			above = clamp((v[m-1]-v[m+1])/bend/2, -jump, jump)
		} else { // no parabola
			bend, above = 0, jump*float64(cmp.Compare(at, m))
		}
		act = clamp(acts[m]*math.Exp(s.step*above), minAct, maxAct)
		if math.Abs(above) <= believed {
			found = floor{point{act, tau, v[m]}, m, math.Log(act/acts[m]) / s.step}
			if bend > 0 {
				found.value += ((v[m+1]-v[m-1])/2 + bend/2*found.above) * found.above
			}
			return found
		}
	}
	return found
}

// middleOfLeast returns which of v is the least, NaN before all; of several the one nearest the middle.
func middleOfLeast(v []float64) int {
	least, best, nearest := slices.Min(v), 0, len(v)
	for i, x := range v {
		off := max(2*i-len(v)+1, len(v)-1-2*i)
		if (x == least || math.IsNaN(x)) && off < nearest {
			best, nearest = i, off
		}
	}
	return best
}

// lossesAt returns the losses at a floor, by parabolas as well. Nothing may have been evaluated since.
func (e *examples) lossesAt(f floor) []float64 {
	l := e.losses(f.middle)
	if f.above == 0 {
		return l
	}
	below, above := e.losses(f.middle-1), e.losses(f.middle+1)
	for i, v := range l {
		l[i] += f.above / 2 * (above[i] - below[i] + f.above*(above[i]-2*v+below[i]))
	}
	return l
}

// atBound reports whether T_act is at a bound of the search.
func atBound(act float64) bool {
	const near = 1.001
	return act <= minAct*near || act >= maxAct/near
}
