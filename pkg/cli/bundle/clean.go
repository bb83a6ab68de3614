package bundle

import (
	"regexp"
	"strings"
)

// removed stands where something was that may be a secret.
const removed = "(removed)"

// keptAnnotations are prefixes of keys of annotations that stay: ours, which say what a pod was given. All others may hold anything, as
// kubectl.kubernetes.io/last-applied-configuration holds a whole object.
var keptAnnotations = []string{"atoll.dev/", "k8s.v1.cni.cncf.io/network-status"}

// keyWords are parts of keys whose value may be a secret, and keyNames such keys as a whole, since others have them as a part:
// authority, passed.
const (
	keyWords = `passw(?:or)?d|passphrase|pwd|secret|token|api[-_.]?key|access[-_.]?key|account[-_.]?key|private[-_.]?key|credential|authorization|cookie|bearer|client[-_.]?key|signature`
	keyNames = `auth|pass|sig`
)

// secretKey matches keys whose value may be a secret.
var secretKey = regexp.MustCompile(`(?i)(?:` + keyWords + `)|(?:^|[-_.])(?:` + keyNames + `)$`)

// namesSecret are keys that match secretKey, and have the name of an object or of a kind as their value.
var namesSecret = map[string]bool{"secretName": true, "tokenRequests": true, "secretKeyRef": true, "secretRef": true}

// held are keys below which everything may be a secret, whatever it is called.
var held = map[string]bool{"data": true, "stringData": true, "binaryData": true, "managedFields": true}

// texts are patterns of secrets in texts, with what remains of each. What is given to a key that names a secret is removed afterwards.
var texts = []struct {
	pattern *regexp.Regexp
	remains string
}{
	// A key of PEM in one text, as in a log that has it as one line, and what is left of one that begins or ends there.
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(-----END [A-Z0-9 ]*PRIVATE KEY-----|$)`), removed},
	// A log that begins in the middle of one.
	{regexp.MustCompile(`(?s)\A.*-----END [A-Z0-9 ]*PRIVATE KEY-----`), removed},
	// Base64 of what begins with "-----BEGIN".
	{regexp.MustCompile(`LS0tLS1CRUdJTi[A-Za-z0-9+/=_-]+`), removed},
	// JSON Web Tokens, as ServiceAccounts have them. (RFC 7519.)
	{regexp.MustCompile(`eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*)?`), removed},
	{regexp.MustCompile(`(?i)\b(bearer|basic|negotiate)\s+[A-Za-z0-9+/=._~-]{8,}`), "$1 " + removed},
	// The user part of a URL (RFC 3986, section 3.2.1), also where the password has what a URL has not: the longest. What follows a
	// colon and is a port, with a path, ends at a space.
	{longest(`([A-Za-z][A-Za-z0-9+.-]*://)(?:[^/\s@"']+|[^\s/@:]*:(?:\S*|[^\n/]*|[^\d\n][^\n]*))@`), "$1" + removed + "@"},
	// Tokens that kubeadm and clouds give.
	{regexp.MustCompile(`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`), removed},
	{regexp.MustCompile(`\b(AKIA|ASIA)[A-Z0-9]{16}\b`), removed},
	// Tokens that say by their first letters whose they are: GitHub, GitLab, Slack, models' APIs, Stripe, npm, PyPI, Docker, Vault,
	// Google, DigitalOcean.
	{
		regexp.MustCompile(
			`\b(?:gh[opusr]_|github_pat_|gl(?:pat|oas|dt|rt|cbt|ptt|ft|imt|agent|soat|ffct)-|xox[a-z]-|xapp-|sk-|[rs]k_(?:live|test)_|npm_|pypi-|dckr_pat_|hv[sbr]\.|AIza|ya29\.|do[por]_v1_)[A-Za-z0-9_.-]{10,}`), removed,
	},
}

func longest(pattern string) *regexp.Regexp {
	r := regexp.MustCompile(pattern)
	r.Longest()
	return r
}

// cleaner removes what may be a secret.
type cleaner interface {
	// object changes an object.
	object(map[string]any)
	text(string) string
}

// remover is the cleaner of every bundle.
type remover struct{}

// text removes what looks like a secret.
func (remover) text(s string) string {
	for _, t := range texts {
		s = t.pattern.ReplaceAllString(s, t.remains)
	}
	return assigned(s)
}

// object removes values of environment variables, of annotations that are not ours and of keys that name secrets, and what looks
// like one anywhere else.
func (r remover) object(o map[string]any) {
	for key, value := range o {
		switch {
		case held[key]:
			o[key] = removed
		case key == "annotations":
			o[key] = annotations(r, value)
		case key == "env", key == "httpHeaders":
			o[key] = valueless(value)
		case key == "args", key == "command":
			o[key] = r.words(value)
		default:
			o[key] = r.value(key, value)
		}
	}
}

// value is a value without what may be a secret.
func (r remover) value(key string, value any) any {
	switch v := value.(type) {
	case map[string]any:
		r.object(v)
		return v
	case []any:
		for i := range v {
			v[i] = r.value(key, v[i])
		}
		return v
	case string:
		if secretKey.MatchString(key) && !namesSecret[key] && v != "" {
			return removed
		}
		return r.text(v)
	}
	return value
}

// annotations keeps ours.
func annotations(r remover, value any) any {
	all, is := value.(map[string]any)
	if !is {
		return removed
	}
	for key, v := range all {
		text, isText := v.(string)
		all[key] = removed
		for _, prefix := range keptAnnotations {
			if isText && strings.HasPrefix(key, prefix) {
				all[key] = r.text(text)
			}
		}
	}
	return all
}

// valueless are environment variables, or headers, without their values; where a value comes from, stays.
func valueless(value any) any {
	list, is := value.([]any)
	if !is {
		return removed
	}
	for i := range list {
		one, is := list[i].(map[string]any)
		if !is {
			list[i] = removed
			continue
		}
		if _, has := one["value"]; has {
			one["value"] = removed
		}
	}
	return list
}

// words are those of a command line, of which one may be the name of a flag, and the next its secret.
func (r remover) words(value any) any {
	list, is := value.([]any)
	if !is {
		return r.value("", value)
	}
	flag := false
	for i := range list {
		text, isText := list[i].(string)
		if !isText {
			continue
		}
		list[i] = r.text(text)
		if flag && !strings.HasPrefix(text, "-") {
			list[i] = removed
		}
		flag = strings.HasPrefix(text, "-") && !strings.Contains(text, "=") && secretKey.MatchString(text)
	}
	return list
}
