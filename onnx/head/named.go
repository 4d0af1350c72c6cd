package head

import (
	"strconv"
	"strings"
)

// nameKeys are the metadata keys under which Ultralytics, transformers and people store class names.
var nameKeys = []string{"names", "id2label", "classes", "class_names", "labels"}

// maxNames bounds the length of a list of names in bytes.
const maxNames = 4 << 20

// named returns the names of n classes in a model's metadata, and their key; nil if there are none.
func named(metadata map[string]string, n int) (names []string, key string) {
	for _, key := range nameKeys {
		text := strings.TrimSpace(metadata[key])
		if text == "" || len(text) > maxNames {
			continue
		}
		var list []string
		switch {
		case text[0] == '[' || text[0] == '{' || text[0] == '(':
			list = literals(text, n)
		case strings.Contains(text, "\n"):
			list = strings.Split(text, "\n")
		default:
			list = strings.Split(text, ",")
		}
		bytes := make([][]byte, len(list))
		for i, s := range list {
			bytes[i] = []byte(strings.TrimSpace(s))
		}
		if l := usable(bytes, n); l != nil {
			return l, key
		}
	}
	return nil, ""
}

// literals parses a list of n strings, or a map from numbers to n strings, in JSON or as Python
// prints it; nil if the text is neither.
func literals(text string, n int) []string {
	keyed := text[0] == '{'
	last := text[len(text)-1]
	if last != map[byte]byte{'[': ']', '{': '}', '(': ')'}[text[0]] {
		return nil
	}
	text = text[1 : len(text)-1]
	list, seen := make([]string, n), 0
	for at := 0; ; at++ {
		if text = strings.TrimSpace(text); text == "" {
			break
		}
		if at == n {
			return nil
		}
		place := at
		if keyed {
			before, after, ok := strings.Cut(text, ":")
			number, err := strconv.Atoi(strings.Trim(strings.TrimSpace(before), `"'`))
			if !ok || err != nil || number < 0 || number >= n {
				return nil
			}
			place, text = number, strings.TrimSpace(after)
		}
		name, rest, ok := quoted(text)
		if rest = strings.TrimSpace(rest); !ok || name == "" || list[place] != "" {
			return nil
		}
		list[place] = name
		seen++
		if text, ok = strings.CutPrefix(rest, ","); !ok && text != "" {
			return nil
		}
	}
	if seen != n {
		return nil
	}
	return list
}

// quoted parses the quoted string, in either kind of quotes, at the beginning of s. A backslash
// escapes the next character; \u is JSON's.
func quoted(s string) (text, rest string, ok bool) {
	if s == "" || s[0] != '"' && s[0] != '\'' {
		return "", "", false
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch c := s[i]; {
		case c == s[0]:
			return b.String(), s[i+1:], true
		case c != '\\' || i+1 == len(s):
			b.WriteByte(c)
		case s[i+1] == 'u' && i+6 <= len(s):
			code, err := strconv.ParseUint(s[i+2:i+6], 16, 16)
			if err != nil {
				return "", "", false
			}
			b.WriteRune(rune(code))
			i += 5
		default:
			i++
			b.WriteByte(s[i])
		}
	}
	return "", "", false
}
