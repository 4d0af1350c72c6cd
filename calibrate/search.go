package calibrate

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"

	"github.com/mfgs/mfgs/calibrate/internal/minimum"
)

// Bounds of the search. T_act and T are in units of actUnit, which is about 1 for common networks. The optimal T_ens
// spans ten orders of magnitude across networks; τ = T_ens / median s² does not. The lower bound of τ keeps the median
// T_k below 1000, where float32 still ranks.
const (
	minAct, maxAct = 0.02, 20
	minTau, maxTau = 3e-7, 1e3
	gridSize       = 9
)

// Gains for which the search over τ continues: nats of NLL, or AUROC.
const (
	fine   = 5e-6
	coarse = 5e-5 // on few examples, which only show where to look

	// undecided is the difference between two τ up to which few examples do not decide which is lower on all.
	undecided = 5e-4
)

// Grid is an objective over log-spaced temperatures, where the search starts: the paper's heat maps. With 2,000
// examples or more, it is evaluated on 500 to 1,000 of them.
type Grid struct {
	Act []float64 `yaml:"act,flow"` // T_act, rows
	Tau []float64 `yaml:"tau,flow"` // T_ens / median s², columns

	// Value is the NLL with half a wrong example added, in nats, or the AUROC.
	Value [][]float64 `yaml:"value,flow"`
}

// point is a point of the search and the value there.
type point struct{ act, tau, value float64 }

// A search minimises a function of (T_act, τ), such as the NLL.
//
// For each τ the function has a valley over T_act, which is narrow compared with the range of T_act. The inner search
// finds the floor of the valley by parabolas through values at several T_act, which cost little more than one value
// at the same τ. The outer search follows the floor over log τ.
type search struct {
	values      func(acts []float64, tau float64) []float64
	least, most float64 // T_act
	lambda0     float64 // T_act·√(1+λ₀/τ) is nearly constant along the valley

	costly bool // stop at larger gains, and start from fewer points
	// few is nearly the same function, of fewer examples, which shows where to look; or nil.
	few *search
}

// find returns points on the floor among which the function may be least, and the grid where it started.
//
// The search starts from the lowest floor at nine τ, and from the lowest with τ below 10: a method with an informative
// spread has a minimum there, which is easily missed beside a corner with negligible spread. With many examples, this
// part uses few of them, and the search goes on with all of them from the points that may be the lowest. Values are
// those of parabolas.
func (s search) find(ctx context.Context) ([]point, Grid, error) {
	if s.few == nil {
		grid, floors, points, err := s.minima(ctx, fine)
		points = append(points, floors...)
		for i, p := range points { // this is cheap, and on few examples parabolas are unreliable
			points[i].value = s.values([]float64{p.act}, p.tau)[0]
		}
		return points, grid, cmp.Or(err, checkPoints(points))
	}
	grid, floors, points, err := s.few.minima(ctx, coarse)
	if err != nil {
		return nil, grid, err
	}
	candidates, best := lowest(points), least(points).value
	for _, p := range floors {
		if !s.costly && p.value <= best+undecided {
			candidates = append(candidates, p)
		}
	}
	starts := s.near(candidates)
	if err := checkPoints(starts); err != nil {
		return nil, grid, err
	}
	gain := fine
	if s.costly {
		gain = coarse
	}
	points, err = s.along(ctx, least(starts), gain)
	return append(points, starts...), grid, err
}

// minima is find without few. The values of the floors, which lie on the grid, are approximate.
func (s search) minima(ctx context.Context, gain float64) (grid Grid, floors, points []point, err error) {
	if grid, floors, err = s.floors(ctx); err != nil {
		return grid, nil, nil, err
	}
	for _, start := range s.near(lowest(floors)) {
		found, err := s.along(ctx, start, gain)
		if err != nil {
			return grid, nil, nil, err
		}
		points = append(points, found...)
	}
	return grid, floors, points, nil
}

// near returns the floors near those of another search, or of this one with T_act farther apart, whose values are
// approximate.
func (s search) near(points []point) []point {
	floors := make([]point, len(points))
	for i, p := range points {
		floors[i] = s.floor(p.tau, p.act, around).point
	}
	return floors
}

// atTau is find at one τ: it returns the floor.
func (s search) atTau(ctx context.Context, tau float64) (point, error) {
	where := s
	if s.few != nil {
		where = *s.few
	}
	values, p := where.floorOf(tau)
	for i, v := range values { // there may be other valleys
		if v > p.value && (i == 0 || v < values[i-1]) && (i == gridSize-1 || v < values[i+1]) {
			p = least([]point{p, where.floor(tau, logSpace(s.least, s.most, gridSize)[i], s.between()).point})
		}
	}
	p = s.settle(s.floor(p.tau, p.act, around).point)
	if err := context.Cause(ctx); err != nil {
		return p, err
	}
	return p, checkPoints([]point{p})
}

// settle returns a floor with higher precision, and the function's value there.
func (s search) settle(p point) point {
	return s.evaluated(s.floor(p.tau, p.act, finely).point)
}

// evaluated returns a point with the function's value in place of a parabola's.
func (s search) evaluated(p point) point {
	p.value = s.values([]float64{p.act}, p.tau)[0]
	return p
}

// floors returns the grid, and the floor at each of its τ.
func (s search) floors(ctx context.Context) (Grid, []point, error) {
	g := Grid{Act: logSpace(s.least, s.most, gridSize), Tau: logSpace(minTau, maxTau, gridSize)}
	for range gridSize {
		g.Value = append(g.Value, make([]float64, gridSize))
	}
	var floors []point
	for j, tau := range g.Tau {
		if err := context.Cause(ctx); err != nil {
			return g, nil, err
		}
		values, p := s.floorOf(tau)
		for i, v := range values {
			g.Value[i][j] = v
		}
		floors = append(floors, p)
	}
	slices.Reverse(floors) // among equals, least returns the largest τ
	return g, floors, checkPoints(floors)
}

// floorOf returns the floor at a τ, and the values from bound to bound.
func (s search) floorOf(tau float64) ([]float64, point) {
	acts := logSpace(s.least, s.most, gridSize)
	values := slices.Clone(s.values(acts, tau))
	at := middleOfLeast(values)
	if math.IsNaN(values[at]) {
		return values, point{acts[at], tau, values[at]}
	}
	return values, s.floor(tau, acts[at], s.between()).point
}

// between is the spacing of T_act from one point of the grid to both of its neighbours.
func (s search) between() spacing {
	return spacing{gridSize, math.Log(s.most/s.least) / (gridSize - 1) / 4}
}

// along searches the floor for its lowest τ, from a start and while it expects a gain, and returns all points that it
// evaluated.
func (s search) along(ctx context.Context, start point, gain float64) ([]point, error) {
	lo, hi := math.Log(minTau), math.Log(maxTau)
	points, from := []point{start}, clamp(math.Log(start.tau), lo, hi)
	minimum.Downhill(func(logTau float64) float64 {
		switch {
		case ctx.Err() != nil:
			return math.Inf(1) // which ends the search
		case logTau == from:
			return start.value
		}
		p := s.floorNear(math.Exp(logTau), points, around).point
		points = append(points, p)
		return p.value
	}, lo, hi, from, 1, gain)
	if err := context.Cause(ctx); err != nil {
		return nil, err
	}
	return points, checkPoints(points)
}

// lowest returns the least of the points and, if it is a different one, the least with τ below 10.
func lowest(points []point) []point {
	starts := []point{least(points)}
	const nothing = 10 // beyond this τ the spread is negligible
	inner := least(slices.DeleteFunc(slices.Clone(points), func(p point) bool { return p.tau >= nothing }))
	if inner != starts[0] {
		starts = append(starts, inner)
	}
	return starts
}

// spacing is the number and distance of several T_act, at most gridSize.
type spacing struct {
	n    int
	step float64 // in log T_act
}

var (
	// A valley is a few tenths wide. These parabolas are good to 1e-5, and smooth the roughness of an AUROC.
	around  = spacing{5, 0.08}
	closely = spacing{3, 0.08} // for NLL, which is smooth
	finely  = spacing{3, 0.004}
)

// A floor is the lowest point of the valley at one τ, by a parabola through the values at three T_act.
type floor struct {
	point
	middle int     // index of the middle of the three, among the T_act evaluated last
	above  float64 // steps from there to the floor
}

// floorNear is floor from the T_act predicted by known points of the valley at other τ.
func (s search) floorNear(tau float64, known []point, at spacing) floor {
	nearest := slices.MinFunc(known, func(a, b point) int {
		return cmp.Compare(math.Abs(math.Log(a.tau/tau)), math.Abs(math.Log(b.tau/tau)))
	})
	// NLL and AUROC change little while the temperature at the median variance is constant.
	ratio := math.Sqrt((1 + s.lambda0/nearest.tau) / (1 + s.lambda0/tau))
	return s.floor(tau, nearest.act*ratio, at)
}

// floor returns the floor of the valley at a τ. It evaluates around a T_act, and moves on while the floor lies
// outside.
func (s search) floor(tau, act float64, at spacing) floor {
	const (
		reach = 1.5 // steps from the middle up to which a parabola is used
		jump  = 4   // steps that it moves at most
		moves = 10
	)
	acts, last := make([]float64, at.n), at.n-1
	width := math.Exp(at.step * float64(last) / 2)
	var found floor
	for range moves {
		act = clamp(act, s.least*width, s.most/width)
		for i := range acts {
			acts[i] = act / width * math.Exp(at.step*float64(i))
		}
		v := s.values(acts, tau)
		at0 := middleOfLeast(v)
		found = floor{point{acts[at0], tau, v[at0]}, at0, 0}
		if s.atBound(acts[at0]) || math.IsNaN(v[at0]) {
			return found
		}
		m := min(max(at0, 1), last-1)
		bend, above := v[m-1]-2*v[m]+v[m+1], 0.0
		if bend > 0 && !math.IsInf(bend, 1) {
			above = clamp((v[m-1]-v[m+1])/bend/2, -jump, jump)
		} else { // no parabola
			bend, above = 0, jump*float64(cmp.Compare(at0, m))
		}
		act = clamp(acts[m]*math.Exp(at.step*above), s.least, s.most)
		if math.Abs(above) <= reach {
			found = floor{point{act, tau, v[m]}, m, math.Log(act/acts[m]) / at.step}
			if bend > 0 {
				found.value += ((v[m+1]-v[m-1])/2 + bend/2*found.above) * found.above
			}
			return found
		}
	}
	return found
}

// middleOfLeast returns the index of the least value, or of a NaN; among several, the one nearest the middle.
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

// atBound reports whether T_act is at a bound of the search.
func (s search) atBound(act float64) bool {
	const near = 1.001
	return act <= s.least*near || act >= s.most/near
}

// least returns the first of the points with the least value.
func least(points []point) point {
	return slices.MinFunc(points, func(a, b point) int { return cmp.Compare(a.value, b.value) })
}

// checkPoints refuses NaN, which would count as the least value.
func checkPoints(points []point) error {
	for _, p := range points {
		if math.IsNaN(p.value) {
			return fmt.Errorf("the objective at T_act %.3g, τ %.3g is not a number", p.act, p.tau)
		}
	}
	return nil
}

// ridge is the AUROC given up for a larger τ: the AUROC is flat along T_act²/T_ens, and a large τ keeps the
// temperatures T_k moderate.
const ridge = 1e-4

// onRidge returns the least point, or the one with the largest τ that gives up no more than ridge.
func onRidge(points []point) point {
	chosen, best := least(points), least(points).value
	for _, p := range points {
		if p.value <= best+ridge && p.tau > chosen.tau {
			chosen = p
		}
	}
	return chosen
}

func clamp(x, lo, hi float64) float64 { return math.Min(hi, math.Max(lo, x)) }

func logSpace(lo, hi float64, n int) []float64 {
	x := make([]float64, n)
	for i := range x {
		x[i] = lo * math.Pow(hi/lo, float64(i)/float64(n-1))
	}
	return x
}
