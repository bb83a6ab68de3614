package bundle

import (
	"regexp"
	"strings"
)

// assignment matches what stands before a value that may be a secret: key=, key: , "key":, \"key\":, and, as its group, --key with a space.
var assignment = regexp.MustCompile(`(?i)(?:--|\b)(?:[\w.-]*(?:` + keyWords + `)[\w.-]*|(?:[\w.-]*[-_.])?(?:` + keyNames +
	`))\\?["']?\s*[=:]\s*|` +
	`(--(?:[\w.-]*(?:` + keyWords + `)[\w.-]*|(?:[\w.-]*[-_.])?(?:` + keyNames + `))\s+)`)

// another matches what ends a value without quotes before its line does: the next key= or --flag.
var another = regexp.MustCompile(`\s+(?:[A-Za-z_][\w.-]*=|--[A-Za-z])`)

// literal matches a value of JSON's that has no quotes, and what follows it there.
var literal = regexp.MustCompile(`^(-?\d[\d.eE+-]*|true|false|null|\[\]|\{\})\s*(?:,\s*\\?"|[}\]]+(?:[\s,"'\\]|$))`)

// block matches the first line of a value of YAML's whose text is in the lines below, as far as they are indented (YAML 1.2,
// 8.1); beginning matches what stands before its key.
var (
	block     = regexp.MustCompile(`[|>][-+0-9]*[ \t\r]*(?:#.*)?$`)
	beginning = regexp.MustCompile(`^[ \t]*(?:-[ \t]+)*`)
)

// assigned removes values of keys that name secrets. A value may have spaces, quotes and whatever else: where it is not known
// where one ends, more is removed than need be.
func assigned(s string) string {
	var out strings.Builder
	endless := endless{}
	for i := 0; ; {
		at := assignment.FindStringSubmatchIndex(s[i:])
		if at == nil {
			out.WriteString(s[i:])
			return out.String()
		}
		key, value := i+at[0], i+at[1]
		out.WriteString(s[i:value])
		i = value
		if isFlag := at[2] >= 0; isFlag && strings.HasPrefix(s[i:], "-") {
			continue // The flag has no value: here is the next one.
		}
		if end := endless.endOfValue(s, key, value); end > value {
			out.WriteString(removed)
			i = end
		}
	}
}

// endless are, by quotes, the places of a text from where on no quote ends a value. Each is looked at once, however many quotes are open.
type endless map[string][]bool

// endOfValue is where a value ends.
func (e endless) endOfValue(s string, key, value int) int {
	for _, quote := range []string{`\"`, `\'`, `"`, "'", "`"} {
		if strings.HasPrefix(s[value:], quote) {
			if end := e.endOfQuoted(s, quote, value); end > 0 {
				return end
			}
		}
	}
	if quoted := strings.ContainsAny(s[key:value], `"'`); quoted {
		if at := literal.FindStringSubmatchIndex(s[value:]); at != nil {
			return value + at[3]
		}
	}
	line, _, _ := strings.Cut(s[value:], "\n")
	if block.MatchString(line) {
		return endOfBlock(s, key, value+len(line))
	}
	if at := another.FindStringIndex(line); at != nil {
		return value + at[0]
	}
	return value + len(line)
}

// endOfBlock is where the lines end that are indented more than a key, and empty ones among them. Its own line ends at end.
func endOfBlock(s string, key, end int) int {
	begin := strings.LastIndexByte(s[:key], '\n') + 1
	indent := len(beginning.FindString(s[begin:key]))
	for next := end; next < len(s); {
		line, _, _ := strings.Cut(s[next+1:], "\n")
		text := strings.TrimLeft(line, " \t")
		next += 1 + len(line)
		switch {
		case strings.TrimSpace(text) == "":
		case len(line)-len(text) > indent:
			end = next
		default:
			return end
		}
	}
	return end
}

// endOfQuoted is the place behind the quote that ends a value which begins with one, or 0 if no quote ends it. The quote that
// ends a value is not escaped, and stands before something that is not part of the value.
func (e endless) endOfQuoted(s, quote string, value int) int {
	if e[quote] == nil {
		e[quote] = make([]bool, len(s))
	}
	// What lies before an end is marked, too: nobody looks there again.
	for i := value + len(quote); i < len(s) && !e[quote][i]; {
		e[quote][i] = true
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

// escaped is the length of an escaped quote or backslash at the beginning of a text, or 0. It is escaped if it is written twice,
// as in a shell's quotes, or if it is behind a backslash, which is itself behind one where the quotes are.
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
