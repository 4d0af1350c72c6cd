package calibration

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"

	"github.com/mfgs/mfgs/featurize"
	"github.com/mfgs/mfgs/featurize/dataset"
	"github.com/mfgs/mfgs/internal/option"
	"github.com/mfgs/mfgs/internal/source"
	"github.com/mfgs/mfgs/onnx/head"
)

// resolveDecoding finds out how a model's output is to be read from that of the first examples, and cuts the network
// again for it.
func (in *sources) resolveDecoding(
	ctx context.Context, cfg *Config, log *journal, set *source.Set, values []float32, paths []featurize.Text,
) error {
	h := in.cut.Head
	steps, err := head.StepsOf(values)
	if err != nil {
		return fmt.Errorf("%s: %q: %w", set.Name, h.LogitsTensor, err)
	}
	d := head.Decoding{Of: steps.Of, StepsFirst: steps.StepsFirst}
	why := ""
	if h.Kind == head.Tags {
		why, err = in.tagsOf(ctx, &d, cfg.Classes, steps.Symbols, set)
	} else {
		why, err = textOf(&d, h, cfg.Alphabet, steps.Symbols, paths)
	}
	if err != nil {
		return fmt.Errorf("%q: %w", h.LogitsTensor, err)
	}
	as, err := h.Read(d)
	if err != nil {
		return err
	}
	order := "[N,T,K]"
	if d.StepsFirst {
		order = "[T,N,K]"
	}
	why = fmt.Sprintf("%s of %d symbols at each step, %s; %s", d.Of, steps.Symbols, order, why)
	as.Evidence = append(as.Evidence, why)
	log.notice("%q: %s", h.LogitsTensor, why)
	if err := in.recut(cfg, as); err != nil {
		return err
	}
	in.classes = as.Labels
	_, _, err = in.firstLogits(ctx, set) // an example must not depend on its batch
	return err
}

// textOf completes how text is read from the most probable symbols of each step of the first examples.
func textOf(
	d *head.Decoding, h *head.Head, alphabet []string, symbols int, paths []featurize.Text,
) (why string, err error) {
	counts := make([]int, symbols)
	total := 0
	for _, p := range paths {
		for _, s := range p.Symbols {
			if s >= 0 && s < int64(symbols) {
				counts[s]++
				total++
			}
		}
	}
	from := any(option.Alphabet)
	if alphabet == nil {
		alphabet, from = h.MetadataAlphabet(), "the model's metadata"
	}
	if d.Blank, d.Alphabet, err = alphabetOf(alphabet, from, counts); err != nil {
		return "", err
	}
	why = fmt.Sprintf("the blank is symbol %d, the most probable one of %.0f %% of the first examples' steps",
		d.Blank, 100*float64(counts[d.Blank])/float64(total))
	if len(alphabet) == symbols-2 {
		why += fmt.Sprintf("; the last symbol, which %v lacks, is taken as a space, as in PaddleOCR's dictionaries", from)
	}
	return why, nil
}

// tagsOf completes how tags are read: their names, the input that says which steps are padding, and the steps at the
// ends that have no tag in any of the first examples.
func (in *sources) tagsOf(
	ctx context.Context, d *head.Decoding, names []string, tags int, set *source.Set,
) (why string, err error) {
	h := in.cut.Head
	d.Blank, d.Alphabet = -1, names
	// An input that is not the network's has no part in the numbers.
	if mask := head.MaskInput(in.cut.Model); slices.Contains(in.cut.InputNames(), mask) {
		d.Mask = mask
	}
	if d.Alphabet == nil {
		d.Alphabet = h.StepNames(tags)
	}
	why = "tags are called " + dataset.Some(d.Alphabet)
	if d.Alphabet == nil {
		why = "tags have no names"
		for i := range tags {
			d.Alphabet = append(d.Alphabet, strconv.Itoa(i))
		}
	}
	if len(d.Alphabet) != tags {
		return "", fmt.Errorf("%d names of tags for a model of %d tags", len(d.Alphabet), tags)
	}
	if d.Mask != "" {
		why += fmt.Sprintf("; steps count where %s is not 0", d.Mask)
	}
	first, last, fitting := math.MaxInt, math.MaxInt, false
	for ex, err := range set.First(ctx) {
		if err != nil || ex.Label < 0 || ex.Decode() != nil {
			continue
		}
		counts, fits := masked(&ex, d.Mask, len(ex.Tags))
		before, after, ok := untagged(ex.Tags, counts)
		switch {
		case !ok || fitting && !fits: // tags of another number of steps, if others are of the mask's
		case fits && !fitting:
			first, last, fitting = before, after, true
		default:
			first, last = min(first, before), min(last, after)
		}
	}
	if first < math.MaxInt && first+last > 0 {
		d.SkipFirst, d.SkipLast = first, last
		why += fmt.Sprintf("; the first %d and last %d steps do not count, since none of the first examples has tags there", first, last)
	}
	return why, context.Cause(ctx)
}

// untagged returns how many of an example's steps before the first tag and after the last have none, of those that
// count. It is not ok for an example without tags.
func untagged(tags []string, counts func(step int) bool) (before, after int, ok bool) {
	for i, tag := range tags {
		switch {
		case !counts(i):
		case tag != "":
			ok, after = true, 0
		case !ok:
			before++
		default:
			after++
		}
	}
	return before, after, ok
}

// masked returns which of n steps of an example count by the input that says so. Without one, or with one of another
// length, which does not fit, all do.
func masked(ex *dataset.Example, mask string, n int) (counts func(step int) bool, fits bool) {
	for _, a := range ex.Inputs {
		v := reflect.ValueOf(a.Data)
		if mask != "" && a.Name == mask && v.Kind() == reflect.Slice && v.Len() == n {
			return func(i int) bool { return !v.Index(i).IsZero() }, true
		}
	}
	return func(int) bool { return true }, false
}

// alphabetOf completes an alphabet for symbols that are the most probable ones of this many steps: with K symbols it
// has the blank; with K-1 the blank comes first or last, whichever more steps have. Dictionaries of PaddleOCR have
// K-2: the blank comes first, and a space last.
func alphabetOf(alphabet []string, from any, counts []int) (blank int, all []string, err error) {
	k := len(counts)
	first, last := counts[0], counts[k-1]
	short := len(alphabet) < k // without the blank
	dictionary := len(alphabet) == k-2 && !slices.Contains(alphabet, " ") && first >= last
	switch {
	case slices.ContainsFunc(alphabet, func(s string) bool { return !utf8.ValidString(s) }):
		return 0, nil, fmt.Errorf("%s is not in UTF-8: convert it", from)
	case alphabet == nil:
		return 0, nil, fmt.Errorf("the model does not say what its %d symbols are: give %s, a file with a symbol in each line, %d without the blank",
			k, option.Alphabet, k-1)
	case len(alphabet) > k || short && len(alphabet) != k-1 && !dictionary:
		return 0, nil, fmt.Errorf("%s has %d symbols, want the model's %d, or %d without the blank", from, len(alphabet), k, k-1)
	case short && slices.Contains(alphabet, ""):
		return 0, nil, fmt.Errorf("%s has %d symbols, of which one is empty, want the model's %d with an empty one for the blank, or %d without it",
			from, len(alphabet), k, k-1)
	case short && first == last:
		return 0, nil, fmt.Errorf("%s has %d symbols without the blank, and the first examples do not show whether it comes before or after them: give all %d, with an empty line for the blank",
			from, len(alphabet), k)
	case dictionary:
		return 0, slices.Concat([]string{""}, alphabet, []string{" "}), nil
	case short && first > last:
		return 0, slices.Concat([]string{""}, alphabet), nil
	case short:
		return k - 1, append(slices.Clone(alphabet), ""), nil
	}
	blank = slices.Index(alphabet, "")
	switch {
	case blank < 0:
		return 0, nil, fmt.Errorf("%s has %d symbols, as the model, and none is the blank: leave its line empty, or leave it out", from, k)
	case slices.Contains(alphabet[blank+1:], ""):
		return 0, nil, fmt.Errorf("%s has several empty symbols, want the blank alone", from)
	}
	return blank, alphabet, nil
}
