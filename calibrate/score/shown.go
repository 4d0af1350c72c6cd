package score

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
)

// Shown are the scores of predictions, in the order in which they are shown.
var Shown = []Score{oodScore, leverage}

// Index returns the place in Shown of the score with a name, or -1.
func Index(name string) int {
	return slices.IndexFunc(Shown, func(s Score) bool { return s.Name == name })
}

// EncodeJSON writes an object and behind its own fields one for each of Shown, by its name; a nil
// value is left out. Like an encoder without HTML it leaves <, > and & as they are.
func EncodeJSON(w *bytes.Buffer, object any, value func(i int) any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	if err := e.Encode(object); err != nil {
		return err
	}
	w.Truncate(w.Len() - len("}\n"))
	for i, s := range Shown {
		v := value(i)
		if v == nil {
			continue
		}
		if w.Bytes()[w.Len()-1] != '{' {
			w.WriteByte(',')
		}
		w.WriteByte('"')
		w.WriteString(s.Name)
		w.WriteString(`":`)
		if x, ok := v.(*float64); ok && finite(*x) {
			w.Write(appendFloat(w.AvailableBuffer(), *x))
			continue
		}
		if err := e.Encode(v); err != nil {
			return err
		}
		w.Truncate(w.Len() - len("\n"))
	}
	return w.WriteByte('}')
}

func finite(x float64) bool { return x-x == 0 }

// appendFloat writes a number as package json does, in less time.
func appendFloat(b []byte, x float64) []byte {
	size := math.Abs(x)
	if size == 0 || size >= 1e-6 && size < 1e21 {
		return strconv.AppendFloat(b, x, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, x, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // 1e-09 is 1e-9
		b[n-2], b = b[n-1], b[:n-1]
	}
	return b
}
