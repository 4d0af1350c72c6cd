package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// isTerminal reports whether somebody looks at what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// A colour is what a terminal is told before a text: a parameter of "select graphic rendition".
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// painted returns a text in a colour where w is a terminal that shows colours, and as it is elsewhere.
// NO_COLOR is that of no-color.org: anything but "" is a no.
func painted(w io.Writer, c colour, text string) string {
	if os.Getenv("NO_COLOR") != "" || !isTerminal(w) || !showsColours(w.(*os.File)) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// complaint returns an error of one line or more with what it begins with, up to a colon, in red.
func complaint(w io.Writer, text string) string {
	who, what, ok := strings.Cut(text, ": ")
	if !ok {
		return text
	}
	return painted(w, red, who+":") + " " + what
}
