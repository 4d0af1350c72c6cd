package text

import "strconv"

// Count writes a whole number in groups of three digits: 1,234.
func Count(n int) string {
	sign, s := "", strconv.Itoa(n)
	if n < 0 {
		sign, s = "-", s[1:]
	}
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return sign + s
}

// Plural writes "1 file" and "2 files", "1 class" and "2 classes".
func Plural(n int, noun string) string {
	switch {
	case n == 1:
		return "1 " + noun
	case noun[len(noun)-1] == 's':
		noun += "e"
	}
	return Count(n) + " " + noun + "s"
}
