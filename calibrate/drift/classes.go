package drift

import (
	"fmt"
	"math"
	"slices"
)

// Classes are the bins of class indices: one for each class, but rare classes share one.
type Classes struct {
	bin     []int // of each class
	weights []int
}

// NewClasses returns the bins for classes, with the number of validation examples predicted as each. Each bin has at
// least 5 of these, and expects 5 examples of a window; there is at least one bin.
func NewClasses(counts []int, window int) (*Classes, error) {
	total := 0
	order := make([]int, len(counts))
	for i, n := range counts {
		if n < 0 || n > math.MaxInt32 {
			return nil, fmt.Errorf("class %d has %d validation examples, want 0 to %d", i, n, math.MaxInt32)
		}
		total += n
		order[i] = i
	}
	if total == 0 {
		return nil, fmt.Errorf("%d classes have no validation examples, want some", len(counts))
	}
	enough := func(n int) bool {
		return n >= minPerBin && float64(n)*float64(window) >= minPerBin*float64(total)
	}
	slices.SortStableFunc(order, func(a, b int) int { return counts[a] - counts[b] })
	c := &Classes{bin: make([]int, len(counts)), weights: []int{0}}
	last := 0
	for _, class := range order {
		if enough(c.weights[last]) {
			c.weights = append(c.weights, 0)
			last++
		}
		c.bin[class] = last
		c.weights[last] += counts[class]
	}
	if last > 0 && !enough(c.weights[last]) {
		c.weights[last-1] += c.weights[last]
		c.weights = c.weights[:last]
		for i := range c.bin {
			c.bin[i] = min(c.bin[i], last-1)
		}
	}
	return c, nil
}

// Weights returns the number of validation examples in each bin.
func (c *Classes) Weights() []int { return slices.Clone(c.weights) }

// Place returns the bin of a class.
func (c *Classes) Place(class int) int { return c.bin[class] }
