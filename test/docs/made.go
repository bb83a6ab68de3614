package docs

import (
	"fmt"
	"regexp"
	"strings"
)

// What a program writes into a page stands between these lines; all else in the page is written by hand.
const (
	madeBegin = "<!-- made: "
	madeHelp  = madeBegin + "help of "
	madeEnd   = "<!-- end -->"
)

var (
	madeLine = regexp.MustCompile(`(?m)^<!-- made: (.+) -->$`)
	madePart = regexp.MustCompile(`(?ms)^<!-- made: ([^\n]+) -->\n(.*?)^<!-- end -->$`)
)

// Fill returns a page with the text of each part anew: text says what belongs between <!-- made: WHAT --> and <!-- end -->.
func Fill(page string, text func(what string) (string, error)) (string, error) {
	var failed error
	filled := madePart.ReplaceAllStringFunc(page, func(part string) string {
		what := madeLine.FindStringSubmatch(part)[1]
		made, err := text(what)
		if err != nil {
			failed = fmt.Errorf("make %s: %w", what, err)
			return part
		}
		return madeBegin + what + " -->\n\n" + strings.Trim(made, "\n") + "\n\n" + madeEnd
	})
	if begun, parts := len(madeLine.FindAllString(page, -1)), len(madePart.FindAllString(page, -1)); failed == nil && begun != parts {
		failed = fmt.Errorf("%d parts begin, and %d of them end", begun, parts)
	}
	return filled, failed
}
