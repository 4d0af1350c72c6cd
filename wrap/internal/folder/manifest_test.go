package folder

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// Manifests that would take package yaml much time or memory are refused at once.
func TestManifestsThatTakeLongAreRefused(t *testing.T) {
	const n = 16 << 20
	var keys strings.Builder
	for i := range 300_000 {
		fmt.Fprintf(&keys, "key%d: 1\n", i)
	}
	keysIn := func(n int, end string) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "a%d: 1%s", i, end)
		}
		return b.String()
	}
	for name, document := range map[string]string{
		"keys":             keys.String(),
		"keys on a line":   "x: {" + keysIn(100_000, ", ") + "}\n",
		"mappings":         strings.Repeat("- {"+strings.TrimSuffix(keysIn(1000, ", "), ", ")+"}\n", 500),
		"lines":            strings.Repeat("- a\n", n/4),
		"old lines":        strings.Repeat("- a\r", n/4),
		"lines of Unicode": strings.Repeat("-\u2028", n/4),
		"next lines":       strings.Repeat("-\u0085", n/3),
		"entries":          "a: [" + strings.Repeat(",", n),
		"dashes":           strings.Repeat(strings.Repeat("- ", 4000)+"a\n", n/8002),
		"colons":           strings.Repeat(strings.Repeat(": ", 4000)+"a\n", n/8002),
		"questions":        strings.Repeat(strings.Repeat("? ", 4000)+"a\n", n/8002),
		"braces":           strings.Repeat(strings.Repeat("[", 4000)+strings.Repeat("]", 4000)+"\n", n/8002),
		"comments":         strings.Repeat("# a\n", n/4),
		"two bytes each":   "\xff\xfe" + strings.Repeat("-\x00\n\x00", n/4),
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			_, err := Parse([]byte(document))
			if !errors.Is(err, ErrTooMuch) && !errors.Is(err, ErrYAML) {
				t.Errorf("error %v", err)
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}

// The most that is read is read soon.
func TestLargeManifestsAreReadQuickly(t *testing.T) {
	for name, document := range map[string]string{
		"lines":    "a:\n" + strings.Repeat("- a\n", maxEntries-2),
		"entries":  "a: [" + strings.Repeat("b,", maxEntries-3) + "]\n",
		"comments": strings.Repeat("# a\n", maxEntries-2) + "a: 1\n",
		"one":      "a: " + strings.Repeat("x", 16<<20) + "\n",
		"words":    "a: " + strings.Repeat("x ", 8<<20) + "\n",
		"colons":   "a: \"" + strings.Repeat(":", 16<<20) + "\"\n",
	} {
		t.Run(name, func(t *testing.T) {
			begun := time.Now()
			if _, err := Parse([]byte(document)); err != nil {
				t.Error(err)
			}
			if took := time.Since(begun); took > 20*time.Second {
				t.Errorf("it took %v", took)
			}
		})
	}
}
