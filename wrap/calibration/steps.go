package calibration

import (
	"context"
	"fmt"
	"slices"

	"github.com/mfgs/mfgs/onnx/head"
)

// leastLabelled is the fraction of the steps that count from which on those without a label need no warning.
const leastLabelled = 0.9

// checkSteps checks on the first examples that a model with an answer for each step gives an example the same numbers
// whatever its batch: else its steps are in front of the examples. It says which steps count, and warns where many of
// them have no label.
func (in *sources) checkSteps(ctx context.Context, log *journal) error {
	if in.cut == nil || in.cut.Head.Steps == 0 {
		return nil
	}
	set := in.sets()[0]
	if in.val != nil {
		set = in.val
	}
	if _, _, err := in.firstLogits(ctx, set); err != nil {
		return err
	}
	mask := head.MaskInput(in.cut.Model)
	if slices.Contains(in.cut.InputNames(), mask) {
		log.notice("steps count where %s is not 0", mask)
	} else if in.cut.Head.Steps == 1 { // pixels have no mask
		log.notice("all steps count: the network has no input attention_mask of whole numbers or truth values")
	}
	counted, labelled := 0, 0
	for ex, err := range set.First(ctx) {
		if err != nil || ex.Decode() != nil {
			continue
		}
		counts, _ := masked(&ex, mask, len(ex.Steps))
		for i, y := range ex.Steps {
			if counts(i) {
				counted++
				if y >= 0 {
					labelled++
				}
			}
		}
	}
	if float64(labelled) < leastLabelled*float64(counted) {
		log.warn(fmt.Sprintf("%s: %.0f %% of the steps that count have no label in the first examples. Calibration draws steps with a label; data without labels, such as OOD data, new inputs and drift, have the others too, and differ for that reason: leave these steps out with the input %s",
			set.Name, 100*(1-float64(labelled)/float64(counted)), "attention_mask"))
	}
	return context.Cause(ctx)
}
