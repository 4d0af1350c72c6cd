package report

import (
	"math"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/calibrate/metrics"
)

// A unit is how figures are formatted.
type unit struct {
	scale  float64
	digits int
	suffix string
}

var (
	percent = unit{100, 2, "\u00a0%"}
	nats    = unit{1, 4, ""}
	plain   = unit{1, 3, ""}
)

// write formats a figure with a fixed number of decimals.
func (u unit) write(v float64) string { return u.bare(v) + u.suffix }

func (u unit) bare(v float64) string {
	switch {
	case math.IsNaN(v):
		return "–"
	case math.IsInf(v, 0):
		return "∞"
	}
	s := strconv.FormatFloat(u.scale*v, 'f', u.digits, 64)
	if rest, negative := strings.CutPrefix(s, "-"); negative {
		return "−" + rest
	}
	return s
}

// words formats a figure for a sentence, to two or three significant digits.
func (u unit) words(v float64) string { return u.short(v) + u.suffix }

func (u unit) short(v float64) string {
	switch size := math.Abs(u.scale * v); {
	case size == 0 || size == 100 && u.scale == 100:
		u.digits = 0
	case size >= 99.95 && size < 100 && u.scale == 100: // one decimal would round it to 100
		u.digits = 2
	case size >= 9.95:
		u.digits = 1
	case size >= 0.0995:
		u.digits = 2
	case size >= 0.00095: // 0.012
		u.digits = 1 - int(math.Floor(math.Log10(size)))
	}
	return u.bare(v)
}

// within formats an interval for a sentence.
func (u unit) within(i metrics.Interval) string { return u.short(i[0]) + " to " + u.words(i[1]) }
