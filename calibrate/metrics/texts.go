package metrics

import "strings"

// TextFigures are how far texts are from the right ones. An edit replaces, inserts or deletes one character, or word.
// Blanks before and after a text do not count.
type TextFigures struct {
	N     int     `json:"n"`     // texts
	Exact float64 `json:"exact"` // fraction that is right
	CER   float64 `json:"cer"`   // edits of characters, per character of the right texts
	WER   float64 `json:"wer"`   // edits of words, per word of the right texts
}

// Texts accumulates [TextFigures].
type Texts struct {
	n, exact                int
	edits, characters       int
	wordEdits, wordsInTexts int
}

// Add counts a text and the right one.
func (t *Texts) Add(text, want string) {
	text, want = strings.TrimSpace(text), strings.TrimSpace(want)
	t.n++
	if text == want {
		t.exact++
	}
	characters, words := []rune(want), strings.Fields(want)
	t.edits += distance([]rune(text), characters)
	t.characters += len(characters)
	t.wordEdits += distance(strings.Fields(text), words)
	t.wordsInTexts += len(words)
}

// Result returns the figures so far, nil without texts.
func (t *Texts) Result() *TextFigures {
	if t.n == 0 {
		return nil
	}
	return &TextFigures{
		N: t.n, Exact: float64(t.exact) / float64(t.n),
		CER: float64(t.edits) / float64(max(1, t.characters)),
		WER: float64(t.wordEdits) / float64(max(1, t.wordsInTexts)),
	}
}

// distance returns the Levenshtein distance of two sequences (Wagner and Fischer, The String-to-String Correction
// Problem, 1974).
func distance[T comparable](a, b []T) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i, x := range a {
		diagonal := row[0]
		row[0] = i + 1
		for j, y := range b {
			replaced := diagonal
			if x != y {
				replaced++
			}
			diagonal = row[j+1]
			row[j+1] = min(replaced, diagonal+1, row[j]+1)
		}
	}
	return row[len(b)]
}
