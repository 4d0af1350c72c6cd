package chart

import "fmt"

// Ranks is a critical-difference diagram of mean ranks (Demšar, "Statistical Comparisons of Classifiers over Multiple
// Data Sets", 2006, figure 1): the best are on the left, and a bar joins those without a significant difference.
type Ranks struct {
	Name     string // a description, for screen readers
	Methods  []Ranked
	Critical float64 // smaller differences are not significant
	Groups   [][2]float64
	Width    float64 // in pixels; 0: 780
}

// Ranked is a method with its mean rank, from 1 to the number of methods. Methods are in ascending order of rank.
type Ranked struct {
	Name   string
	Rank   float64
	Marked bool // drawn in another tone
}

// Document draws the diagram as a file of its own, with a title.
func (r Ranks) Document() []byte {
	width, height := r.size()
	on := &canvas{width: width + 24, height: height + 44}
	on.text(point{on.width / 2, 22}, 15, anchorMiddle, Ink, r.Name)
	on.left, on.top = 12, 36
	r.draw(on, width)
	return []byte(on.svg(r.Name, true))
}

// Sizes of the diagram's parts, in pixels.
const (
	ranksSide  = 190 // on each side, for names
	ranksAbove = 64  // for the critical difference and the axis
	ranksBar   = 9   // for each bar of a group
	ranksLine  = 19  // for each name
)

func (r Ranks) size() (width, height float64) {
	width = r.Width
	if width == 0 {
		width = 780
	}
	return width, ranksAbove + ranksBar*float64(len(r.Groups)) + ranksLine*float64(r.left()) + 18
}

// left is the number of names on the left.
func (r Ranks) left() int { return (len(r.Methods) + 1) / 2 }

// draw draws the diagram with this width.
func (r Ranks) draw(c *canvas, width float64) {
	k := len(r.Methods)
	left, right := float64(ranksSide), width-ranksSide
	at := func(rank float64) float64 { return left + (right-left)*(rank-1)/float64(max(1, k-1)) }
	const axis = ranksAbove - 8
	c.stroke(Grey, 1, nil, []point{{left, axis}, {right, axis}})
	every := max(1, int(Step(float64(k))))
	for rank := 1; rank <= k; rank++ {
		if rank > 1 && rank < k && (rank%every != 0 || k-rank < every) {
			continue
		}
		x := at(float64(rank))
		c.stroke(Grey, 1, nil, []point{{x, axis}, {x, axis - 5}})
		c.text(point{x, axis - 14}, tickSize, anchorMiddle, Ink, fmt.Sprint(rank))
	}
	if r.Critical > 0 {
		const y = 22
		end := at(1 + min(r.Critical, float64(k-1)))
		bar := []point{{left, y}, {end, y}}
		c.stroke(Ink, 1.5, nil, bar, []point{{left, y - 4}, {left, y + 4}}, []point{{end, y - 4}, {end, y + 4}})
		c.text(point{(left + end) / 2, y - 11}, tickSize, anchorMiddle, Ink, fmt.Sprintf("critical difference %.1f", r.Critical))
	}
	const bars = axis + 8
	for i, g := range r.Groups {
		y := float64(bars + ranksBar*i)
		c.stroke(Blue, 4, nil, []point{{at(g[0]) - 3, y}, {at(g[1]) + 3, y}})
	}
	names := float64(bars + ranksBar*len(r.Groups) + 12)
	for i, m := range r.Methods {
		row, end, gap, anchor := i, left-26, -10., anchorEnd
		if i >= r.left() {
			row, end, gap, anchor = k-1-i, right+26, 10, anchorStart
		}
		tone, width := Ink, 1.
		if m.Marked {
			tone, width = Red, 1.8
		}
		y := names + float64(ranksLine*row)
		c.stroke(tone, width, nil, []point{{at(m.Rank), axis}, {at(m.Rank), y}, {end, y}})
		c.text(point{end + gap, y}, labelSize, anchor, tone, fmt.Sprintf("%s %.1f", m.Name, m.Rank))
	}
}
