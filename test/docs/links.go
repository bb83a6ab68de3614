package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"unicode"
)

var (
	heading = regexp.MustCompile(`^#{1,6} +(.+?)\s*$`)
	// link is a link or a picture: [text](where), without a title.
	link   = regexp.MustCompile(`\[[^][]*\]\(([^()\s]+)\)`)
	scheme = regexp.MustCompile(`^[a-z]+:`)
)

// Anchors are the names by which GitHub lets links lead to the headings of a page: lower case, without punctuation, spaces as
// dashes, and a number where a name has been there before.
func Anchors(text string) map[string]bool {
	anchors, seen, fenced := map[string]bool{}, map[string]int{}, false
	for line := range strings.Lines(text) {
		if strings.HasPrefix(strings.TrimSpace(line), "```") {
			fenced = !fenced
		}
		found := heading.FindStringSubmatch(strings.TrimRight(line, "\n"))
		if fenced || found == nil {
			continue
		}
		words := link.ReplaceAllStringFunc(found[1], func(l string) string { return l[1:strings.Index(l, "]")] })
		name := strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return unicode.ToLower(r)
			}
			return -1
		}, words)
		if n := seen[name]; n > 0 {
			anchors[fmt.Sprintf("%s-%d", name, n)] = true
		} else {
			anchors[name] = true
		}
		seen[name]++
	}
	return anchors
}

// Links are where the links of a page lead that stay in the repository, as they stand there.
func Links(text string) []string {
	var links []string
	for _, found := range link.FindAllStringSubmatch(text, -1) {
		if !scheme.MatchString(found[1]) {
			links = append(links, found[1])
		}
	}
	return links
}

// Dead are the links of a page, below root, that lead to no file, or to no heading of one.
func Dead(root, page string) ([]string, error) {
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		return nil, fmt.Errorf("read page: %w", err)
	}
	var dead []string
	for _, l := range Links(string(text)) {
		path, anchor, anchored := strings.Cut(l, "#")
		target := filepath.Join(root, page)
		if path != "" {
			target = filepath.Join(root, filepath.Dir(page), path)
		}
		if _, err := os.Stat(target); err != nil {
			dead = append(dead, l)
			continue
		}
		if !anchored || filepath.Ext(target) != ".md" {
			continue
		}
		there, err := os.ReadFile(target)
		if err != nil {
			return nil, fmt.Errorf("read page: %w", err)
		}
		if !Anchors(string(there))[anchor] {
			dead = append(dead, l)
		}
	}
	return dead, nil
}

// AllPages are all pages of the repository, those of docs/design among them.
func AllPages(root string) ([]string, error) {
	pages, err := filepath.Glob(filepath.Join(root, "*.md"))
	if err != nil {
		return nil, fmt.Errorf("list pages: %w", err)
	}
	err = filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list pages: %w", err)
	}
	for i, path := range pages {
		if pages[i], err = filepath.Rel(root, path); err != nil {
			return nil, fmt.Errorf("list pages: %w", err)
		}
	}
	return pages, nil
}
