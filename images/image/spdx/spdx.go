// Package spdx writes what an image consists of as a document of SPDX 2.3 (https://spdx.github.io/spdx-spec/v2.3/) in JSON.
//
// In flow the image's digests, the build information of its Go programs and the control data of its Debian packages, out flows
// one document. The same input gives the same bytes.
package spdx

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"
)

// Image is an image of all its platforms.
type Image struct {
	// Name is the image's, without registry and tag. Version is what its source says.
	Name, Version string
	// Digest is the index's, "sha256:" and hexadecimal digits.
	Digest string
	// Created is when the document was made: for images that can be built again, when their source was.
	Created time.Time
	// Source is where the source is to be had.
	Source string
	// Platforms are its images.
	Platforms []Platform
}

// Platform is the image of one platform.
type Platform struct {
	// Name is as "linux/amd64"; Digest is the manifest's.
	Name, Digest string
	Programs     []Program
	Packages     []Package
}

// Program is a program written in Go.
type Program struct {
	// Name is its path in the image; SHA256 are the hexadecimal digits of its sum.
	Name, SHA256 string
	Info         *debug.BuildInfo
}

// Package is a Debian package that is unpacked in the image.
type Package struct {
	Name, Version, Architecture string
	// Source is the source package if that is called otherwise, and Homepage where its authors are; both may be empty.
	Source, Homepage string
	// Suite is the Debian that it is of, as purl's qualifier distro has it: debian-13.
	Suite string
	// SHA256 are the hexadecimal digits of its file's sum.
	SHA256 string
}

// Document is the document about an image. Its namespace names the image's digest, so that no other document has it.
func Document(image Image) ([]byte, error) {
	algorithm, digits, _ := strings.Cut(image.Digest, ":")
	if algorithm != "sha256" || digits == "" {
		return nil, fmt.Errorf("write SPDX document of %s: %q is no digest", image.Name, image.Digest)
	}
	d := document{
		Version: "SPDX-2.3", License: "CC0-1.0", ID: documentID, Name: image.Name + "-" + image.Version,
		Namespace: "https://atoll.dev/spdx/" + image.Name + "/" + digits,
		Creation:  creation{Created: image.Created.UTC().Format(time.RFC3339), Creators: []string{"Tool: atoll-images", "Organization: Atoll"}},
		known:     map[string]bool{},
	}
	whole := d.add(pack{
		ID: "Image-" + image.Name, Name: image.Name, Version: image.Version, Purpose: "CONTAINER", Download: image.Source, Declared: none,
		Sums: sha256(digits), References: purl("pkg:oci/" + image.Name + "@sha256%3A" + digits),
	})
	d.relate(documentID, "DESCRIBES", whole)
	for _, platform := range image.Platforms {
		d.platform(image, whole, platform)
	}
	text, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write SPDX document of %s: %w", image.Name, err)
	}
	return append(text, '\n'), nil
}

func (d *document) platform(image Image, whole string, platform Platform) {
	_, arch, _ := strings.Cut(platform.Name, "/")
	digits := strings.TrimPrefix(platform.Digest, "sha256:")
	one := d.add(pack{
		ID: "Image-" + image.Name + "-" + platform.Name, Name: image.Name + " for " + platform.Name, Version: image.Version, Purpose: "CONTAINER",
		Download: image.Source, Declared: none, Sums: sha256(digits),
		References: purl("pkg:oci/" + image.Name + "@sha256%3A" + digits + "?arch=" + arch),
	})
	d.relate(one, "VARIANT_OF", whole)
	d.relate(whole, "CONTAINS", one)
	for _, p := range platform.Programs {
		d.program(one, platform.Name, p)
	}
	for _, p := range platform.Packages {
		source, sourceVersion, _ := strings.Cut(cmp.Or(p.Source, p.Name), " ")
		about := "Debian source package " + source
		if sourceVersion != "" {
			about += " " + strings.Trim(sourceVersion, "()")
		}
		d.relate(one, "CONTAINS", d.add(pack{
			ID: "Debian-" + p.Name + "-" + p.Version + "-" + p.Architecture, Name: p.Name, Version: p.Version, Supplier: "Organization: Debian",
			Download: none,
			Homepage: p.Homepage, Declared: none, About: about, Sums: sha256(p.SHA256),
			References: purl("pkg:deb/debian/" + escape(p.Name) + "@" + escape(p.Version) + "?arch=" + p.Architecture + "&distro=" + p.Suite),
		}))
	}
}

func (d *document) program(image, platform string, p Program) {
	main := p.Info.Main
	program := d.add(pack{
		ID: "Program-" + p.Name + "-" + platform, Name: p.Name, Version: main.Version, Purpose: "APPLICATION", Download: none,
		Declared: "Apache-2.0",
		Sums:     sha256(p.SHA256), References: module(main.Path, main.Version),
	})
	d.relate(image, "CONTAINS", program)
	modules := []debug.Module{{Path: "stdlib", Version: strings.TrimPrefix(p.Info.GoVersion, "go")}}
	for _, m := range p.Info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		modules = append(modules, *m)
	}
	for _, m := range modules {
		about := ""
		if m.Sum != "" {
			about = "go.sum " + m.Sum
		}
		d.relate(program, "DEPENDS_ON", d.add(pack{
			ID: "Go-" + m.Path + "-" + m.Version, Name: m.Path, Version: m.Version, Download: none, Declared: none, About: about,
			References: module(m.Path, m.Version),
		}))
	}
}

// none is what SPDX says where nothing is claimed.
const none = "NOASSERTION"

const documentID = "SPDXRef-DOCUMENT"

type document struct {
	Version   string         `json:"spdxVersion"`
	License   string         `json:"dataLicense"`
	ID        string         `json:"SPDXID"`
	Name      string         `json:"name"`
	Namespace string         `json:"documentNamespace"`
	Creation  creation       `json:"creationInfo"`
	Packages  []pack         `json:"packages"`
	Relations []relationship `json:"relationships"`

	known map[string]bool
}

type creation struct {
	Created  string   `json:"created"`
	Creators []string `json:"creators"`
}

type pack struct {
	ID         string      `json:"SPDXID"`
	Name       string      `json:"name"`
	Version    string      `json:"versionInfo,omitempty"`
	Supplier   string      `json:"supplier,omitempty"`
	Download   string      `json:"downloadLocation"`
	Analyzed   bool        `json:"filesAnalyzed"`
	Homepage   string      `json:"homepage,omitempty"`
	About      string      `json:"sourceInfo,omitempty"`
	Purpose    string      `json:"primaryPackagePurpose,omitempty"`
	Sums       []checksum  `json:"checksums,omitempty"`
	Concluded  string      `json:"licenseConcluded"`
	Declared   string      `json:"licenseDeclared"`
	Copyright  string      `json:"copyrightText"`
	References []reference `json:"externalRefs,omitempty"`
}

type checksum struct {
	Algorithm string `json:"algorithm"`
	Value     string `json:"checksumValue"`
}

type reference struct {
	Category string `json:"referenceCategory"`
	Type     string `json:"referenceType"`
	Locator  string `json:"referenceLocator"`
}

type relationship struct {
	From string `json:"spdxElementId"`
	Kind string `json:"relationshipType"`
	To   string `json:"relatedSpdxElement"`
}

// add adds what is not there yet, and returns its identifier.
func (d *document) add(p pack) string {
	p.ID = "SPDXRef-" + forbidden.ReplaceAllStringFunc(p.ID, func(c string) string {
		if c == "/" || c == "-" {
			return "-"
		}
		// Versions that differ in these only are called differently.
		return fmt.Sprintf(".x%x.", c)
	})
	if d.known[p.ID] {
		return p.ID
	}
	d.known[p.ID] = true
	p.Concluded, p.Copyright = none, none
	d.Packages = append(d.Packages, p)
	return p.ID
}

// forbidden is what an identifier does not have (clause 7.2).
var forbidden = regexp.MustCompile(`[^a-zA-Z0-9.-]`)

func (d *document) relate(from, kind, to string) {
	if r := (relationship{from, kind, to}); !slices.Contains(d.Relations, r) {
		d.Relations = append(d.Relations, r)
	}
}

func sha256(digits string) []checksum { return []checksum{{"SHA256", digits}} }

func purl(locator string) []reference {
	return []reference{{"PACKAGE-MANAGER", "purl", locator}}
}

// module is the name of a Go module as purl has it.
func module(path, version string) []reference {
	if version != "" && version != "(devel)" {
		path += "@" + escape(version)
	}
	return purl("pkg:golang/" + path)
}

// escape writes what a version of a purl may not have as it is.
func escape(text string) string {
	var out strings.Builder
	for _, c := range []byte(text) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(".-_~:", c) >= 0 {
			out.WriteByte(c)
		} else {
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
