// Package pattern expands file name patterns as a shell does.
package pattern

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

const (
	// MaxFiles bounds the files of a pattern. ImageNet's training set comes in 1,281 shards.
	MaxFiles = 1 << 17

	// maxLength bounds the bytes of a pattern.
	maxLength = 1024
)

// Is reports whether a path may be a pattern.
func Is(path string) bool {
	return strings.ContainsAny(path, "*?[") || strings.Contains(path, "{") && strings.ContainsAny(path, ",.")
}

// Files returns the files and folders that a pattern names: {a,b} and {007..120} expand in order, with the last
// group changing fastest; *, ? and [a-z] match as in filepath.Match, in byte-wise order, and hidden files only
// after a dot in the pattern. Names from braces alone must exist, and no file may be named twice.
func Files(pattern string) ([]string, error) {
	spelt, err := expand(pattern)
	if err != nil {
		return nil, err
	}
	var found []string
	seen := map[string]bool{}
	for _, path := range spelt {
		some := []string{path}
		if strings.ContainsAny(path, "*?[") {
			if some, err = glob(path); err != nil {
				return nil, err
			}
		} else if _, err := os.Lstat(path); err != nil {
			return nil, fmt.Errorf("%s: no such file or folder, listed in %s", path, pattern)
		}
		for _, path := range some {
			if seen[path] {
				return nil, fmt.Errorf("%s lists %s twice", pattern, path)
			}
			seen[path] = true
		}
		if found = append(found, some...); len(found) > MaxFiles {
			return nil, fmt.Errorf("%s matches more than %d files", pattern, MaxFiles)
		}
	}
	return found, nil
}

// glob returns the matches of *, ? and []. No match is an error.
func glob(pattern string) ([]string, error) {
	found, err := filepath.Glob(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: [ has no matching ], or is empty", pattern)
	}
	wanted := strings.Split(filepath.ToSlash(pattern), "/")
	found = slices.DeleteFunc(found, func(path string) bool {
		for i, name := range strings.Split(filepath.ToSlash(path), "/") {
			if strings.HasPrefix(name, ".") && fs.ValidPath(name) && name != "." && i < len(wanted) &&
				!strings.HasPrefix(wanted[i], ".") {
				return true
			}
		}
		return false
	})
	if len(found) == 0 {
		return nil, fmt.Errorf("%s: no file or folder matches", pattern)
	}
	slices.Sort(found)
	return found, nil
}

// expand writes out the {} groups of a pattern. Braces that do not form a group are kept.
func expand(pattern string) ([]string, error) {
	if len(pattern) > maxLength {
		return nil, fmt.Errorf("a pattern of %d bytes is too long, want at most %d", len(pattern), maxLength)
	}
	out, err := braces(pattern)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", pattern, err)
	}
	return out, nil
}

var errMany = fmt.Errorf("matches more than %d files", MaxFiles)

func braces(s string) ([]string, error) {
	for at := 0; at < len(s); at++ {
		if s[at] != '{' {
			continue
		}
		parts, end := group(s[at+1:])
		if parts == nil {
			continue
		}
		var middle []string
		if len(parts) == 1 {
			list, err := sequence(parts[0])
			if err != nil {
				return nil, err
			}
			if list == nil {
				continue
			}
			middle = list
		} else {
			for _, part := range parts {
				list, err := braces(part)
				if err != nil {
					return nil, err
				}
				if middle = append(middle, list...); len(middle) > MaxFiles {
					return nil, errMany
				}
			}
		}
		rest, err := braces(s[at+1+end:])
		if err != nil {
			return nil, err
		}
		if len(middle)*len(rest) > MaxFiles {
			return nil, errMany
		}
		out := make([]string, 0, len(middle)*len(rest))
		for _, m := range middle {
			for _, r := range rest {
				out = append(out, s[:at]+m+r)
			}
		}
		return out, nil
	}
	return []string{s}, nil
}

// group splits the text after a { at its own commas, and returns the index after its }. The parts are nil if
// there is no }.
func group(s string) (parts []string, end int) {
	depth, start := 0, 0
	for i := range len(s) {
		switch s[i] {
		case '{':
			depth++
		case ',':
			if depth == 0 {
				parts, start = append(parts, s[start:i]), i+1
			}
		case '}':
			if depth == 0 {
				return append(parts, s[start:i]), i + 1
			}
			depth--
		}
	}
	return nil, 0
}

var numbers = regexp.MustCompile(`^(-?[0-9]{1,18})\.\.(-?[0-9]{1,18})$`)

// sequence expands a..b, numbers or letters; nil if s is neither. If one of the numbers begins with 0, all are
// padded to the wider one.
func sequence(s string) ([]string, error) {
	if len(s) == 4 && s[1:3] == ".." && letter(s[0]) && letter(s[3]) {
		return count(int64(s[0]), int64(s[3]), func(i int64) string { return string(rune(i)) })
	}
	m := numbers.FindStringSubmatch(s)
	if m == nil {
		return nil, nil
	}
	from, err := strconv.ParseInt(m[1], 10, 64)
	if err != nil {
		return nil, err
	}
	to, err := strconv.ParseInt(m[2], 10, 64)
	if err != nil {
		return nil, err
	}
	width := 0
	for _, text := range m[1:] {
		if digits := strings.TrimPrefix(text, "-"); len(digits) > 1 && digits[0] == '0' {
			width = max(len(m[1]), len(m[2]))
		}
	}
	return count(from, to, func(i int64) string { return fmt.Sprintf("%0*d", width, i) })
}

func letter(c byte) bool { return c|0x20 >= 'a' && c|0x20 <= 'z' }

// count lists the numbers from one to another, in either direction.
func count(from, to int64, text func(int64) string) ([]string, error) {
	step := int64(1)
	if to < from {
		step = -1
	}
	if (to-from)*step >= MaxFiles {
		return nil, errMany
	}
	var out []string
	for i := from; ; i += step {
		out = append(out, text(i))
		if i == to {
			return out, nil
		}
	}
}
