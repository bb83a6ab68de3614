package spdx

import (
	"bytes"
	"runtime/debug"
	"strings"
	"testing"
	"time"

	"github.com/atoll-net/atoll/test/sbom"
)

func sample() Image {
	programs := func(name string) []Program {
		return []Program{{Name: "/usr/local/bin/" + name, SHA256: strings.Repeat("1", 64), Info: &debug.BuildInfo{
			GoVersion: "go1.26.8", Main: debug.Module{Path: "github.com/atoll-net/atoll", Version: "v0.1.0+dirty"},
			Deps: []*debug.Module{
				{Path: "k8s.io/api", Version: "v0.36.3", Sum: "h1:abc="},
				{Path: "example.com/old", Version: "v1.0.0", Replace: &debug.Module{Path: "example.com/new", Version: "v1.0.1"}},
			},
		}}}
	}
	packages := func(arch string) []Package {
		return []Package{
			{
				Name: "libstdc++6", Version: "1:14.2.0~a-19+b1", Architecture: arch, Source: "gcc-14 (14.2.0)", Suite: "debian-13",
				SHA256: strings.Repeat("2", 64),
			},
			{
				Name: "ca-certificates", Version: "20250419", Architecture: "all", Homepage: "https://example.com", Suite: "debian-13",
				SHA256: strings.Repeat("3", 64),
			},
		}
	}
	return Image{
		Name: "atoll", Version: "v0.1.0+dirty", Digest: "sha256:" + strings.Repeat("a", 64), Created: time.Unix(1e9, 0),
		Source: "https://github.com/atoll-net/atoll",
		Platforms: []Platform{
			{Name: "linux/amd64", Digest: "sha256:" + strings.Repeat("b", 64), Programs: programs("atoll"), Packages: packages("amd64")},
			{Name: "linux/arm64", Digest: "sha256:" + strings.Repeat("c", 64), Programs: programs("atoll"), Packages: packages("arm64")},
		},
	}
}

func TestDocument(t *testing.T) {
	text, err := Document(sample())
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Document(sample()); err != nil || !bytes.Equal(text, again) {
		t.Errorf("the same image gave another document (%v)", err)
	}
	document, wrong := sbom.Check(text)
	if len(wrong) > 0 {
		t.Errorf("%s\n%s", strings.Join(wrong, "\n"), text)
	}
	for _, want := range []string{
		"pkg:deb/debian/libstdc%2B%2B6@1:14.2.0~a-19%2Bb1?arch=amd64&distro=debian-13",
		"pkg:deb/debian/libstdc%2B%2B6@1:14.2.0~a-19%2Bb1?arch=arm64&distro=debian-13",
		"pkg:deb/debian/ca-certificates@20250419?arch=all&distro=debian-13", "pkg:golang/k8s.io/api@v0.36.3", "pkg:golang/example.com/new@v1.0.1",
		"pkg:golang/stdlib@1.26.8", "pkg:golang/github.com/atoll-net/atoll@v0.1.0%2Bdirty", "pkg:oci/atoll@sha256%3A" + strings.Repeat("a", 64),
	} {
		if document.Locators[want] != 1 && !strings.Contains(want, "atoll-net/atoll") || document.Locators[want] == 0 {
			t.Errorf("%s stands there %d times, want once", want, document.Locators[want])
		}
	}
	if strings.Contains(string(text), "example.com/old") {
		t.Error("a module that is replaced is said to be there")
	}
}

// TestCheckRefuses: the check that the other tests rely on sees what is wrong.
func TestCheckRefuses(t *testing.T) {
	text, err := Document(sample())
	if err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		`"spdxVersion": "SPDX-2.3"`:                   `"spdxVersion": "SPDX-2.2"`,
		`"dataLicense": "CC0-1.0"`:                    `"dataLicense": "MIT"`,
		`"SPDXID": "SPDXRef-Image-atoll"`:             `"SPDXID": "SPDXRef-Image_atoll"`,
		`"created": "2001-09-09T01:46:40Z"`:           `"created": "yesterday"`,
		`"Tool: atoll-images"`:                        `"atoll-images"`,
		`"relationshipType": "DESCRIBES"`:             `"relationshipType": "TELLS_OF"`,
		`"referenceCategory": "PACKAGE-MANAGER"`:      `"referenceCategory": "OTHERS"`,
		`"algorithm": "SHA256"`:                       `"algorithm": "SHA1"`,
		`"downloadLocation": "NOASSERTION"`:           `"downloadPlace": "NOASSERTION"`,
		`"relatedSpdxElement": "SPDXRef-Image-atoll"`: `"relatedSpdxElement": "SPDXRef-Nothing"`,
		`"primaryPackagePurpose": "CONTAINER"`:        `"primaryPackagePurpose": "BOX"`,
		`"documentNamespace": "https://`:              `"documentNamespace": "`,
		`"supplier": "Organization: Debian"`:          `"supplier": "Debian"`,
		`pkg:deb/`:                                    `deb:`,
	} {
		if !strings.Contains(string(text), from) {
			t.Errorf("the document has no %s", from)
		}
		if _, wrong := sbom.Check([]byte(strings.Replace(string(text), from, to, 1))); len(wrong) == 0 {
			t.Errorf("a document with %s instead of %s passes", to, from)
		}
	}
}

func TestNoDigest(t *testing.T) {
	image := sample()
	image.Digest = "none"
	if _, err := Document(image); err == nil {
		t.Error("an image without a digest has a document")
	}
}
