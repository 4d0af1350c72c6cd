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
// easily passed over. All of this is over the few where there are such, and from the lower of the two
// minima it goes on over all.
func searchValleys(ctx context.Context, few, all search) ([]point, error) {
	f := few
	if few == nil {
		f = all
	}
	points, err := f.valleys(ctx)
	if err != nil {
		return nil, err
	}
	for _, start := range lowest(points) {
		found, err := f.along(ctx, start)
		if err != nil {
			return nil, err
		}
		points = append(points, found...)
	}
	if few == nil {
		return points, nil
	}
	starts := lowest(points)
	for i, p := range starts {
		starts[i] = all.floor(p.tau, p.act, around).point
	}
	if err := checkPoints(starts); err != nil {
		return nil, err
	}
	found, err := all.along(ctx, least(starts))
	return append(found, starts...), err
}

// valleys returns the floor of the valley at each τ of the grid.
func (f search) valleys(ctx context.Context) ([]point, error) {
	var points []point
	for _, tau := range logSpace(minTau, maxTau, gridSize) {
		if err := context.Cause(ctx); err != nil {
			return nil, err
		}
		p := f.floor(tau, math.Sqrt(minAct*maxAct), everywhere)
		points = append(points, f.floor(tau, p.act, between).point)
	}
	return points, checkPoints(points)
}

// along searches the valley for the τ where it is lowest, from a start on, and returns all points
// of it that were looked at.
func (f search) along(ctx context.Context, start point) ([]point, error) {
	points, from := []point{start}, math.Log(start.tau)
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
	}, math.Log(minTau), math.Log(maxTau), from, 1, coarse)
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
	around     = spacing{5, 0.08}
	closely    = spacing{3, 0.08} // of NLL, which is smoother than the AUROC
)

// floor is where a valley over T_act is lowest, by a parabola through the values at three T_act.
type floor struct {
	point
	middle int     // which of the T_act evaluated is the middle one of the three
	above  float64 // steps from that to the floor; 0 where the parabola says nothing
}

// floorNear returns the floor of the valley at a τ. It looks first where points of the valley at other
// τ let it be expected.
func (f search) floorNear(tau float64, known []point, s spacing, lambda0 float64) floor {
	near := slices.MinFunc(known, func(a, b point) int {
		return cmp.Compare(math.Abs(math.Log(a.tau/tau)), math.Abs(math.Log(b.tau/tau)))
	})
	return f.floor(tau, near.act*math.Exp(valley(near.tau, lambda0)-valley(tau, lambda0)), s)
}

// floor returns the floor of the valley at a τ. It looks around a T_act, and where the floor is beyond
// what it has looked at, on there.
func (f search) floor(tau, act float64, s spacing) floor {
	const (
		believed = 1.5 // how many steps from the middle a parabola is
		jump     = 4   // how many steps it goes on at most
		moves    = 6
	)
	acts, last := make([]float64, s.n), s.n-1
	width := math.Exp(s.step * float64(last) / 2)
	var least floor
	for range moves {
		act = clamp(act, minAct*width, maxAct/width)
		for i := range acts {
			acts[i] = act / width * math.Exp(s.step*float64(i))
		}
		v := f(acts, tau)
		at := slices.Index(v, slices.Min(v))
		if at < 0 { // NaN is the least where there is one
			return floor{point: point{act, tau, math.NaN()}}
		}
		least = floor{point{acts[at], tau, v[at]}, at, 0}
		if atBound(acts[at]) {
			return least
		}
		m := min(max(at, 1), last-1)
		bend := v[m-1] - 2*v[m] + v[m+1]
		above := clamp((v[m-1]-v[m+1])/bend/2, -jump, jump)
		if !(bend > 0) { // no parabola: downwards
			above = jump * float64(cmp.Compare(v[m-1], v[m+1]))
		}
		if math.Abs(above) <= believed {
			return floor{point{acts[m] * math.Exp(s.step*above), tau, v[m] - bend*above*above/2}, m, above}
		}
		act = acts[m] * math.Exp(s.step*above)
	}
	return least
}

// lossesAt returns those at a floor, by parabolas as well. No T_act may have been evaluated since.
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
