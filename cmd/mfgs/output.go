package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/mfgs/mfgs/internal/text"
)

// writeJSON writes v as one indented document. If v cannot be encoded, it writes nothing.
func writeJSON(w io.Writer, v any) error { return encodeJSON(w, v, "  ") }

// writeLongJSON writes v on one line.
func writeLongJSON(w io.Writer, v any) error { return encodeJSON(w, v, "") }

func encodeJSON(w io.Writer, v any, indent string) error {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(v); err != nil {
		return fmt.Errorf("cannot write the result as JSON: %w", err)
	}
	_, err := jsonText{w}.Write(b.Bytes())
	return err
}

// jsonText escapes what could control a terminal and encoding/json leaves alone; it occurs in strings only. Each Write
// must end at a character boundary.
type jsonText struct{ w io.Writer }

func (j jsonText) Write(p []byte) (int, error) {
	text := string(p)
	if !strings.ContainsFunc(text, commands) {
		return j.w.Write(p)
	}
	var b strings.Builder
	for _, r := range text {
		if commands(r) {
			fmt.Fprintf(&b, `\u%04x`, r)
		} else {
			b.WriteRune(r)
		}
	}
	if _, err := io.WriteString(j.w, b.String()); err != nil {
		return 0, err
	}
	return len(p), nil
}

func commands(r rune) bool { return r >= 0x7f && printable(string(r)) != string(r) }

// warn writes warnings to standard error.
func (p *program) warn(warnings ...string) {
	for _, w := range warnings {
		fmt.Fprintln(p.stderr, "mfgs:", painted(p.stderr, yellow, "warning:"), oneLine(w))
	}
}

// warnRecords warns of skipped records and ignored files.
func (p *program) warnRecords(bad, ignored []string) {
	const most = 10
	for i, r := range bad {
		if i == most {
			p.warn(fmt.Sprintf("skipped %s more", text.Plural(len(bad)-most, "record")))
			break
		}
		p.warn("skipped " + r)
	}
	for _, r := range ignored {
		p.warn("ignored " + r)
	}
}
