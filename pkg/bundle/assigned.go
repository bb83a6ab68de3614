package bundle

import (
	"regexp"
	"strings"
)

// assignment matches what stands before a value that may be a secret: key=, key: , "key":, \"key\":, and, as its group, --key with a space.
var assignment = regexp.MustCompile(`(?i)(?:--|\b)(?:[\w.-]*(?:` + keyWords + `)[\w.-]*|(?:[\w.-]*[-_.])?(?:` + keyNames + `))\\?["']?\s*[=:]\s*|` +
	`(--(?:[\w.-]*(?:` + keyWords + `)[\w.-]*|(?:[\w.-]*[-_.])?(?:` + keyNames + `))\s+)`)

// another matches what ends a value without quotes before its line does: the next key= or --flag.
var another = regexp.MustCompile(`\s+(?:[A-Za-z_][\w.-]*=|--[A-Za-z])`)

// assigned removes values of keys that name secrets. A value may have spaces, quotes and whatever else: where it is not known where one ends, more is
// removed than need be.
func assigned(s string) string {
	var out strings.Builder
	for {
		at := assignment.FindStringSubmatchIndex(s)
		if at == nil {
			out.WriteString(s)
			return out.String()
		}
		out.WriteString(s[:at[1]])
		s = s[at[1]:]
		if isFlag := at[2] >= 0; isFlag && strings.HasPrefix(s, "-") {
			continue // The flag has no value: here is the next one.
		}
		if end := endOfValue(s); end > 0 {
			out.WriteString(removed)
			s = s[end:]
		}
	}
}

// endOfValue is where the value ends that a text begins with.
func endOfValue(s string) int {
	for _, quote := range []string{`\"`, `\'`, `"`, "'", "`"} {
		if strings.HasPrefix(s, quote) {
			if end := endOfQuoted(s, quote); end > 0 {
				return end
			}
		}
	}
	line, _, _ := strings.Cut(s, "\n")
	if at := another.FindStringIndex(line); at != nil {
		return at[0]
	}
	return len(line)
}

// endOfQuoted is behind the quote that ends a value which begins with one, or 0 if none does: it is not escaped, and stands before something that
// is not of the value.
func endOfQuoted(s, quote string) int {
	for i := len(quote); i < len(s); {
		if n := escaped(s[i:], quote); n > 0 {
			i += n
			continue
		}
		if !strings.HasPrefix(s[i:], quote) {
			i++
			continue
		}
		i += len(quote)
		if i == len(s) || strings.IndexByte(" \t\r\n,;&|)]}", s[i]) >= 0 {
			return i
		}
	}
	return 0
}

// escaped is the length of what a text begins with, if that is a quote or a backslash that does not count: written twice, as a shell has one within
// quotes, or behind a backslash, which is itself behind one where the quotes are.
func escaped(s, quote string) int {
	const doubled = 2
	switch behind, has := strings.CutPrefix(s, strings.TrimRight(quote, `"'`)+`\`); {
	case strings.HasPrefix(s, quote+quote):
		return doubled * len(quote)
	case quote == "'" && strings.HasPrefix(s, `'\''`):
		return len(`'\''`)
	case has && behind != "":
		unit := 1
		if len(quote) > 1 && behind[0] == '\\' {
			unit++
		}
		return len(s) - len(behind) + unit
	}
	return 0
}
