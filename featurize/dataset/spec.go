package dataset

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/mfgs/mfgs/featurize/dataset/internal/pattern"
)

var sliceSuffix = regexp.MustCompile(`\[([0-9]*):([0-9]*)\]$`)

// ParseSpec parses a SPEC; see the package documentation for its syntax. The first reading whose path
// exists wins: the whole string, the string without format:, without the slice, without both. If none
// exists, the last is a pattern, or an error.
func ParseSpec(spec string) (Spec, error) {
	s, err := parseSpec(spec, exists)
	if err == nil && s.several {
		_, err = pattern.Files(s.Path)
	}
	return s, err
}

func parseSpec(spec string, exists func(path string) bool) (Spec, error) {
	whole := Spec{Path: spec, To: -1}
	if s, ok, err := streamSpec(spec); ok {
		return s, err
	}
	if spec == "" {
		return whole, errors.New("the dataset SPEC is empty; want a path")
	}
	if exists(spec) {
		return whole, nil
	}
	last := whole
	if format, rest, ok := strings.Cut(spec, ":"); ok && rest != "" && formatOf(format) != nil {
		last.Format, last.Path = format, rest
		if exists(rest) {
			return last, nil
		}
	}
	if m := sliceSuffix.FindStringSubmatchIndex(spec); m != nil {
		from, to, err := sliceBounds(spec[m[2]:m[3]], spec[m[4]:m[5]])
		if err != nil {
			return last, fmt.Errorf("%s: %w", spec, err)
		}
		literal := Spec{Path: spec[:m[0]], From: from, To: to, sliced: true}
		if literal.Path != "" && exists(literal.Path) {
			return literal, nil
		}
		last.From, last.To, last.sliced = from, to, true
		last.Path = strings.TrimSuffix(last.Path, spec[m[0]:])
	}
	if last.Path == "" {
		return last, fmt.Errorf("%s: no path in this SPEC", spec)
	}
	if exists(last.Path) {
		return last, nil
	}
	if _, ok := brokenSlice(last.Path, exists); pattern.Is(last.Path) && !ok {
		last.several = true
		return last, nil
	}
	return last, notFound(last.Path, exists)
}

// streamSpec parses a SPEC of standard input, and reports whether it is one.
func streamSpec(spec string) (s Spec, ok bool, err error) {
	s = Spec{Path: spec, To: -1}
	if format, rest, cut := strings.Cut(spec, ":"); cut && formatOf(format) != nil {
		s.Format, s.Path = format, rest
	}
	if path := sliceSuffix.ReplaceAllString(s.Path, ""); path == stdinPath && path != s.Path {
		s.Path = path
		return s, true, fmt.Errorf("%s: a stream has no slices, as it is read once and its length is not known", spec)
	}
	return s, s.Path == stdinPath, nil
}

// IsStream reports whether a SPEC reads standard input.
func IsStream(spec string) bool {
	_, ok, _ := streamSpec(spec)
	return ok
}

// brokenSlice reports whether an existing path is followed by something like a slice, and where that
// begins.
func brokenSlice(path string, exists func(string) bool) (at int, ok bool) {
	at = strings.LastIndexByte(path, '[')
	return at, at > 0 && strings.HasSuffix(path, "]") && exists(path[:at])
}

// notFound explains why no reading of a SPEC names an existing path.
func notFound(path string, exists func(string) bool) error {
	if open, ok := brokenSlice(path, exists); ok {
		return fmt.Errorf("%s: slice %s is not understood; want [a:b], [a:] or [:b] with whole numbers", path[:open],
			path[open:])
	}
	if format, rest, ok := strings.Cut(path, ":"); ok && len(format) > 1 && (rest == stdinPath || exists(rest)) {
		return fmt.Errorf("%s: unknown format %q; want one of %s", rest, format, strings.Join(Formats(), ", "))
	}
	return fmt.Errorf("%s: no such file or folder", path)
}

// sliceBounds reads the two sides of [a:b]; an absent b is -1.
func sliceBounds(a, b string) (from, to int, err error) {
	to = -1
	if a != "" {
		if from, err = strconv.Atoi(a); err != nil {
			return 0, 0, fmt.Errorf("slice start %s is too large", a)
		}
	}
	if b != "" {
		if to, err = strconv.Atoi(b); err != nil {
			return 0, 0, fmt.Errorf("slice end %s is too large", b)
		}
		if to <= from {
			return 0, 0, fmt.Errorf("slice [%d:%d] %w", from, to, ErrNoExamples)
		}
	}
	return from, to, nil
}

// bounds returns the slice in a source of n examples.
func (s Spec) bounds(n int) (from, to int, err error) {
	if !s.sliced {
		return 0, n, nil
	}
	from, to = s.From, s.To
	if to < 0 {
		to = n
	}
	if from >= n || to > n {
		end := ""
		if s.To >= 0 {
			end = strconv.Itoa(s.To)
		}
		return 0, 0, fmt.Errorf("%s: slice [%d:%s] reaches beyond its %d examples", s.Path, s.From, end, n)
	}
	return from, to, nil
}
