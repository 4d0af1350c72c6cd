package head

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// Decoding says how a line's text, or the tags of a sequence, follow from an output with K numbers for each of T steps.
//
// Text is read from a network that was trained by connectionist temporal classification (Graves et al.,
// "Connectionist Temporal Classification: Labelling Unsegmented Sequence Data with Recurrent Neural Networks", 2006).
// It is that of the best path: the most probable symbol of each step, without repetitions and blanks.
//
// Tags are the most probable ones of the steps that count.
type Decoding struct {
	Of         Kind `yaml:"of" json:"of"`                                       // Probabilities, LogProbabilities or Scores
	StepsFirst bool `yaml:"steps_first,omitempty" json:"steps_first,omitempty"` // [T,N,K], else [N,T,K]
	Blank      int  `yaml:"blank" json:"blank"`                                 // -1 for tags
	// Alphabet are the K symbols, mostly a character each, with "" for the blank; or the names of the tags.
	Alphabet []string `yaml:"alphabet,flow" json:"alphabet"`

	// Of the steps of tags, Mask counts those where this input [N,T] of the model is not 0, "" all, and SkipFirst and
	// SkipLast leave out the first and last of these, such as the tokens that begin and end a sentence.
	Mask      string `yaml:"mask,omitempty" json:"mask,omitempty"`
	SkipFirst int    `yaml:"skip_first,omitempty" json:"skip_first,omitempty"`
	SkipLast  int    `yaml:"skip_last,omitempty" json:"skip_last,omitempty"`
}

// Tags reports whether steps are tagged, and do not spell a text.
func (d *Decoding) Tags() bool { return d.Blank < 0 }

// Bounds of K, and of the bytes of a symbol.
const (
	MaxAlphabet = 1 << 17
	maxSymbol   = 64
	maxSkip     = 1 << 10
)

// Validate reports a decoding that contradicts itself.
func (d *Decoding) Validate() error {
	k := len(d.Alphabet)
	switch {
	case d.Of != Probabilities && d.Of != LogProbabilities && d.Of != Scores:
		return fmt.Errorf("decoding.of is %.70q, want %s, %s or %s", string(d.Of), Probabilities, LogProbabilities, Scores)
	case k < 2 || k > MaxAlphabet:
		return fmt.Errorf("decoding.alphabet has %d symbols, want 2 to %d", k, MaxAlphabet)
	case d.Blank < -1 || d.Blank >= k:
		return fmt.Errorf("decoding.blank is %d, want 0 to %d, or -1 for tags", d.Blank, k-1)
	case !d.Tags() && (d.Mask != "" || d.SkipFirst != 0 || d.SkipLast != 0):
		return errors.New("decoding has a mask or steps to skip, which are for tags")
	case d.SkipFirst < 0 || d.SkipFirst > maxSkip || d.SkipLast < 0 || d.SkipLast > maxSkip:
		return fmt.Errorf("decoding skips %d and %d steps, want 0 to %d", d.SkipFirst, d.SkipLast, maxSkip)
	}
	for i, s := range d.Alphabet {
		if !utf8.ValidString(s) {
			return fmt.Errorf("decoding.alphabet has %.20q for symbol %d, want UTF-8", s, i)
		}
		if (s == "") != (i == d.Blank) || len(s) > maxSymbol {
			return fmt.Errorf("decoding.alphabet has %.20q for symbol %d, want at most %d bytes, and none for the blank alone", s, i, maxSymbol)
		}
	}
	return nil
}

// Symbol returns the text of a symbol, "" for a number outside the alphabet.
func (d *Decoding) Symbol(i int64) string {
	if i < 0 || i >= int64(len(d.Alphabet)) {
		return ""
	}
	return d.Alphabet[i]
}

// ParseAlphabet returns the symbols of a file: its lines, in which blanks count.
func ParseAlphabet(text string) []string {
	text = strings.ReplaceAll(strings.TrimPrefix(text, "\ufeff"), "\r\n", "\n")
	return strings.Split(strings.TrimSuffix(text, "\n"), "\n")
}
