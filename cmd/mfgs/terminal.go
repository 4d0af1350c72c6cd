package main

import (
	"io"
	"os"
	"strings"

	"golang.org/x/term"
)

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// A colour is a parameter of the escape sequence SGR (select graphic rendition).
type colour string

const (
	red    colour = "31"
	green  colour = "32"
	yellow colour = "33"
)

// painted colours a text if w is a terminal that shows colours and NO_COLOR (no-color.org) is empty.
func painted(w io.Writer, c colour, text string) string {
	if os.Getenv("NO_COLOR") != "" || !isTerminal(w) || !showsColours(w.(*os.File)) {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// redPrefix returns an error message with its beginning, up to the first colon, in red.
func redPrefix(w io.Writer, text string) string {
	who, what, ok := strings.Cut(text, ": ")
	if !ok {
		return text
	}
	return painted(w, red, who+":") + " " + what
}
