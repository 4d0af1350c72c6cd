package pattern

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Expected as bash 5 spells them.
func TestBraces(t *testing.T) {
	t.Parallel()
	for pattern, want := range map[string]string{
		"a":                "a",
		"{a,b}.csv":        "a.csv b.csv",
		"s-{000..003}.tar": "s-000.tar s-001.tar s-002.tar s-003.tar",
		"{8..11}":          "8 9 10 11",
		"{08..11}":         "08 09 10 11",
		"{3..1}":           "3 2 1",
		"{-1..1}":          "-1 0 1",
		"{-01..1}":         "-01 000 001",
		"{a..d}":           "a b c d",
		"{a,b}{1..2}":      "a1 a2 b1 b2",
		"{a,{b,c}d,}x":     "ax bdx cdx x",
		"x{1..2,9}":        "x1..2 x9",
		"{a}":              "{a}",
		"{a,b":             "{a,b",
		"a}{b,c}":          "a}b a}c",
		"{}":               "{}",
		"{{1..2}}":         "{1} {2}",
		"{1..a}":           "{1..a}",
		"{x,{1..2}}":       "x 1 2",
	} {
		got, err := expand(pattern)
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v; want %s", pattern, got, err, want)
		}
	}
	for _, pattern := range []string{
		"{0..131072}", "{-999999999999999999..999999999999999999}", strings.Repeat("{a,b}", 18), "{{0..99999},{0..99999}}",
		strings.Repeat("x", 5000), "{1..2}" + strings.Repeat("{1..9}", 30),
	} {
		if got, err := expand(pattern); err == nil {
			t.Errorf("%.40s names %d files", pattern, len(got))
		}
	}
	if got, err := expand("{1..131072}"); err != nil || len(got) != MaxFiles {
		t.Errorf("%d files, %v", len(got), err)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"part-2", "part-10", "part-1", ".part-0", "other", "sub/b.x", "sub/a.x", "tub/a.x"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for pattern, want := range map[string]string{
		"part-*":              "part-1 part-10 part-2",
		"part-{10,2}":         "part-10 part-2",
		"part-?":              "part-1 part-2",
		".part-*":             ".part-0",
		"*-0":                 "!no file or folder matches",
		"[st]ub/*.x":          "sub/a.x sub/b.x tub/a.x",
		"{tub,sub}/a.x":       "tub/a.x sub/a.x",
		"part-{1..3}":         "!part-3: no such file or folder, listed in",
		"{part-1,part-[1-2]}": "!lists %/part-1 twice",
		"part-[":              "![ has no matching ]",
	} {
		got, err := Files(filepath.Join(dir, pattern))
		if reason, refused := strings.CutPrefix(want, "!"); refused {
			if err == nil || !strings.Contains(err.Error(), strings.ReplaceAll(reason, "%", dir)) {
				t.Errorf("%s: %v, %v; want %s", pattern, got, err, reason)
			}
			continue
		}
		for i := range got {
			if got[i], err = filepath.Rel(dir, got[i]); err != nil {
				t.Fatal(err)
			}
		}
		if err != nil || strings.Join(got, " ") != want {
			t.Errorf("%s: %v, %v; want %s", pattern, got, err, want)
		}
	}
}

// Every pattern gives a bounded number of names, in which all groups are expanded.
func FuzzBraces(f *testing.F) {
	for _, s := range []string{"s-{000..127}.tar", "{a,b{1..3},}", "}{", "{{,}}{z..A}", "{-3..0007}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := expand(s)
		if err != nil {
			return
		}
		if len(got) == 0 || len(got) > MaxFiles {
			t.Fatalf("%q names %d files", s, len(got))
		}
		if !strings.ContainsAny(s, "{") && !slices.Equal(got, []string{s}) {
			t.Fatalf("%q names %q", s, got)
		}
		if parts := strings.Count(s, ",") + strings.Count(s, ".."); parts == 0 && len(got) != 1 {
			t.Fatalf("%q names %d files", s, len(got))
		}
	})
}
