package trace

import (
	"fmt"
	"strings"
)

// token is a word of a match: a name, a number or an address; a string; a set's name; or a sign.
type token struct {
	kind tokenKind
	text string
}

type tokenKind uint8

const (
	end tokenKind = iota
	word
	quoted
	addressSet
	portGroup
	sign
)

// signs, the longer ones first.
var signs = []string{"==", "!=", "<=", ">=", "&&", "||", "<", ">", "!", "(", ")", "{", "}", ",", "/"}

// tokens takes a match apart. Comments are left out.
func tokens(match string) ([]token, error) {
	var out []token
	for rest := match; rest != ""; {
		t, length, err := nextToken(rest)
		if err != nil {
			return nil, err
		}
		if t.kind != end {
			out = append(out, t)
		}
		rest = rest[length:]
	}
	return out, nil
}

// nextToken reads the first token; of kind end for what is none.
func nextToken(rest string) (token, int, error) {
	switch {
	case strings.ContainsRune(" \t\r\n", rune(rest[0])):
		return token{}, 1, nil
	case strings.HasPrefix(rest, "/*"):
		length := strings.Index(rest, "*/")
		if length < 0 {
			return token{}, 0, fmt.Errorf("a comment does not end: %s", rest)
		}
		return token{}, length + len("*/"), nil
	case strings.HasPrefix(rest, "//"):
		line, _, _ := strings.Cut(rest, "\n")
		return token{}, len(line), nil
	case rest[0] == '"':
		text, _, ended := strings.Cut(rest[1:], `"`)
		if !ended || strings.Contains(text, `\`) {
			return token{}, 0, fmt.Errorf("a string that is not understood: %s", rest)
		}
		return token{quoted, text}, len(text) + 2, nil
	case rest[0] == '$', rest[0] == '@':
		name := rest[1 : 1+wordLength(rest[1:])]
		kind := addressSet
		if rest[0] == '@' {
			kind = portGroup
		}
		return token{kind, name}, 1 + len(name), nil
	}
	for _, s := range signs {
		if strings.HasPrefix(rest, s) {
			return token{sign, s}, len(s), nil
		}
	}
	length := wordLength(rest)
	if length == 0 {
		return token{}, 0, fmt.Errorf("%q is not understood", rest[:1])
	}
	return token{word, rest[:length]}, length, nil
}

// wordLength is how much of the text is a name, a number or an address.
func wordLength(text string) int {
	length := strings.IndexFunc(text, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && !strings.ContainsRune("._:-[]", r)
	})
	if length < 0 {
		return len(text)
	}
	return length
}
