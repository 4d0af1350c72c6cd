// Package complete says how a command line may go on, and has the scripts by which shells ask.
//
//  1. A shell hands over the words in front of the cursor; the last one may be begun only, or empty.
//  2. [Line] says what may stand there: whole words, and whether files or folders may.
//  3. [Reply.WriteTo] tells that to the shell: a line with the kind of paths and what stands in
//     front of one in the last word, then a line a word: the word, a tab, what it is.
//
// All knowledge of verbs and flags stays in the program: the scripts are the same for ever.
package complete

import (
	"cmp"
	"embed"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/mfgs/mfgs/internal/text"
)

// Shells are those that there is a script for.
var Shells = []string{"bash", "zsh", "fish"}

//go:embed mfgs.bash mfgs.zsh mfgs.fish
var scripts embed.FS

// Script returns the script of one of [Shells], which asks the program by `mfgs __complete`.
func Script(shell string) string {
	script, err := scripts.ReadFile("mfgs." + shell)
	if err != nil {
		panic(err)
	}
	return string(script)
}

// Paths says which paths may stand in a place.
type Paths string

// The kinds of paths.
const (
	None    Paths = "none"
	Files   Paths = "files" // and folders, on the way to them
	Folders Paths = "folders"
)

// A Word is one that may stand on the command line, and what it is.
type Word struct{ Text, About string }

// A Value is what a flag or an argument may be.
type Value struct {
	Words []string // one that ends in "=" goes on behind it
	List  bool     // several words with commas between them
	Paths Paths    // "": None
	Named bool     // a path may have NAME= in front
	// Formats are what a path may have in front with a colon: a dataset's.
	Formats []string
}

// A Flag is one of a verb.
type Flag struct {
	Name, About string
	Switch      bool // without a value
	Many        bool // may be repeated
	Value       Value
}

// A Verb is what the command line begins with.
type Verb struct {
	Name, About string
	Flags       []Flag
	Arguments   *Value // nil: it takes none
}

// A Reply is how a command line may go on.
type Reply struct {
	Words  []Word // to stand in the place of the last word
	Paths  Paths
	Before string // what stands in the last word in front of a path
}

// Line completes a command line, words[0] being the verb; none is the same as one empty word.
func Line(verbs []Verb, words []string) Reply {
	if len(words) == 0 {
		words = []string{""}
	}
	last := words[len(words)-1]
	if len(words) == 1 {
		all := make([]Word, len(verbs))
		for i, v := range verbs {
			all[i] = Word{v.Name, v.About}
		}
		return Reply{Words: begun(all, last), Paths: None}
	}
	at := slices.IndexFunc(verbs, func(v Verb) bool { return v.Name == words[0] })
	if at < 0 {
		return Reply{Paths: None}
	}
	verb := verbs[at]
	given := map[string]bool{}
	var open *Flag // whose value is the next word
	rest := words[1 : len(words)-1]
	for _, word := range rest {
		if open != nil {
			open = nil
			continue
		}
		if word == "--" {
			return verb.argument(last)
		}
		name, _, hasValue := cutFlag(word)
		if f := verb.flag(name); strings.HasPrefix(word, "-") && f != nil {
			given[name] = true
			if !f.Switch && !hasValue {
				open = f
			}
		}
	}
	if open != nil {
		return open.Value.complete("", last)
	}
	if name, value, hasValue := cutFlag(last); strings.HasPrefix(last, "-") && hasValue {
		if f := verb.flag(name); f != nil && !f.Switch {
			return f.Value.complete(strings.TrimSuffix(last, value), value)
		}
		return Reply{Paths: None}
	}
	if strings.HasPrefix(last, "-") || last == "" && verb.Arguments == nil {
		return Reply{Words: begun(verb.remaining(given), last), Paths: None}
	}
	return verb.argument(last)
}

func (v *Verb) flag(name string) *Flag {
	for i := range v.Flags {
		if v.Flags[i].Name == name {
			return &v.Flags[i]
		}
	}
	return nil
}

// remaining are the flags that may be given still.
func (v *Verb) remaining(given map[string]bool) (words []Word) {
	for _, f := range v.Flags {
		if !given[f.Name] || f.Many {
			words = append(words, Word{"--" + f.Name, f.About})
		}
	}
	return append(words, Word{"--help", "explain " + v.Name})
}

func (v *Verb) argument(last string) Reply {
	if v.Arguments == nil {
		return Reply{Paths: None}
	}
	return v.Arguments.complete("", last)
}

// complete completes a value that has been begun; what stands before it belongs to the same word.
func (v *Value) complete(before, value string) Reply {
	r := Reply{Paths: cmp.Or(v.Paths, None)}
	head := before
	if i := strings.LastIndexByte(value, ','); v.List && i >= 0 {
		head, value = head+value[:i+1], value[i+1:]
	}
	chosen := strings.Split(strings.TrimPrefix(head, before), ",")
	var all []Word
	for _, w := range v.Words {
		if !slices.Contains(chosen, w) {
			all = append(all, Word{Text: head + w})
		}
	}
	r.Words = begun(all, head+value)
	if r.Paths == None {
		return r
	}
	r.Before = before
	if i := strings.IndexByte(value, '='); v.Named && i >= 0 && !strings.ContainsAny(value[:i], `/\`) {
		r.Before, value = r.Before+value[:i+1], value[i+1:]
	}
	if i := strings.IndexByte(value, ':'); i >= 0 && slices.Contains(v.Formats, value[:i]) {
		r.Before += value[:i+1]
	}
	return r
}

// begun keeps the words that begin as one does.
func begun(words []Word, as string) (kept []Word) {
	for _, w := range words {
		if strings.HasPrefix(w.Text, as) || strings.HasPrefix(w.Text, "-"+as) && strings.HasPrefix(as, "-") {
			kept = append(kept, w)
		}
	}
	return kept
}

// cutFlag takes -name, --name, -name=value or --name=value apart.
func cutFlag(word string) (name, value string, hasValue bool) {
	return strings.Cut(strings.TrimPrefix(strings.TrimPrefix(word, "-"), "-"), "=")
}

// WriteTo tells a shell.
func (r Reply) WriteTo(w io.Writer) (int64, error) {
	const most = 100 // characters of what a word is: a line of the menu
	var b strings.Builder
	fmt.Fprintf(&b, "%s\t%s\n", r.Paths, text.Line(r.Before))
	for _, word := range r.Words {
		about := []rune(text.Line(word.About))
		if len(about) > most {
			about = append(about[:most-1], '…')
		}
		fmt.Fprintf(&b, "%s\t%s\n", word.Text, string(about))
	}
	n, err := io.WriteString(w, b.String())
	return int64(n), err
}
