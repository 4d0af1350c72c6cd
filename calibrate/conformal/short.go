package conformal

import (
	"fmt"
	"math"
	"strconv"

	"github.com/mfgs/mfgs/internal/option"
)

// An InsufficientDataError says that the validation examples do not support a guarantee.
type InsufficientDataError struct {
	Option  string  // the field of Plan that asked for it, such as TargetError
	Asked   float64 // its value
	by      string  // which examples, and how many are needed
	nearest func() float64
}

// Nearest returns the nearest value that the examples support, to two digits, 0 for none. Each call tries some
// hundred values.
func (e *InsufficientDataError) Nearest() float64 { return e.nearest() }

func (e *InsufficientDataError) Error() string {
	end := "smallest"
	if e.Option == string(option.TargetCoverage) {
		end = "largest"
	}
	way := "no value is possible: leave it out, or give more data"
	if shown := e.Nearest(); shown != 0 {
		way = fmt.Sprintf("the %s possible value is %v: use it, or give more data", end, shown)
	}
	return fmt.Sprintf("%s %v cannot be guaranteed with %s; %s", option.Name(e.Option), e.Asked, e.by, way)
}

// Reachable returns a [*InsufficientDataError] if this number of examples cannot support the plan, whatever they are.
// A target error may still fail on their mistakes, and class-conditional sets on the number of examples of a class.
func (p Plan) Reachable(examples int) error {
	p = p.Complete()
	faultless := func(target float64) bool { return binomialCDF(0, examples, target) <= 1-p.Confidence }
	if e := p.TargetError; e > 0 && !faultless(e) {
		return &InsufficientDataError{string(option.TargetError), e,
			shownBy(examples, e, p.Confidence, answers),
			func() float64 { return nearest(e, faultless) }}
	}
	within := func(part float64) bool { return binomialCDF(examples-1, examples, 1-part) >= p.Confidence }
	for _, f := range []struct {
		name        option.Name
		asked, part float64
	}{
		{option.TargetCoverage, p.TargetCoverage, 1 - p.TargetCoverage},
		{option.FalseAlarm, p.FalseAlarm, p.FalseAlarm},
	} {
		if f.asked == 0 || within(f.part) {
			continue
		}
		return &InsufficientDataError{string(f.name), f.asked,
			shownBy(examples, f.part, p.Confidence, ""), func() float64 {
				possible := nearest(f.part, within)
				if f.name == option.TargetCoverage && possible > 0 {
					possible = math.Round((1-possible)*1e12) / 1e12
				}
				return possible
			}}
	}
	if p.Alpha > 0 && spare(examples, p.Alpha) < 0 {
		return shortOfSets(p.Alpha, examples)
	}
	return nil
}

// shownBy words how many examples there are, and how many are needed if none is a mistake.
func shownBy(examples int, part, confidence float64, of string) string {
	return fmt.Sprintf("%d validation examples for thresholds at confidence %v: it needs %d%s",
		examples, confidence, errorFreeNeeded(part, confidence), of)
}

const answers = " correct answers, or more with some errors"

func shortOfSets(alpha float64, examples int) error {
	return &InsufficientDataError{string(option.Alpha), alpha,
		fmt.Sprintf("%d validation examples for thresholds: it needs %d", examples, needed(alpha)),
		nearestAlpha(alpha, examples)}
}

// shortOfClass names the class with the fewest examples.
func shortOfClass(alpha float64, byClass [][]miss) error {
	class := 0
	for k, missed := range byClass {
		if len(missed) < len(byClass[class]) {
			class = k
		}
	}
	n := len(byClass[class])
	return &InsufficientDataError{string(option.Alpha), alpha,
		fmt.Sprintf("%d validation examples of class %d for thresholds: with %s it needs %d of each",
			n, class, option.ClassConditional, needed(alpha)),
		nearestAlpha(alpha, n)}
}

func nearestAlpha(above float64, examples int) func() float64 {
	return func() float64 {
		return nearest(above, func(alpha float64) bool { return spare(examples, alpha) >= 0 })
	}
}

// nearest tries 0.99, 0.98 … 0.1, 0.099, 0.098 … down to a value, and returns the last before the first that does
// not hold, 0 if the first does not.
func nearest(above float64, holds func(float64) bool) (last float64) {
	for digits, power := 99, 2; ; digits-- {
		if digits < 10 {
			digits, power = 99, power+1
		}
		v, err := strconv.ParseFloat(fmt.Sprintf("%de-%d", digits, power), 64)
		if err != nil || v <= above || !holds(v) {
			return last
		}
		last = v
	}
}
