// Package sbom reads documents of SPDX 2.3 as the specification has them, for tests: it knows nothing of who wrote them.
package sbom

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"
)

// Document is what a document says, as far as tests ask.
type Document struct {
	// Locators counts the external references of packages, by their locators.
	Locators map[string]int
	// Versions are the packages' versions, by their names.
	Versions map[string][]string
}

// text is a document with the fields of the specification's JSON schema that our documents may have.
type text struct {
	SPDXVersion       string `json:"spdxVersion"`
	DataLicense       string `json:"dataLicense"`
	SPDXID            string `json:"SPDXID"`
	Name              string `json:"name"`
	DocumentNamespace string `json:"documentNamespace"`
	CreationInfo      struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	} `json:"creationInfo"`
	Packages      []part `json:"packages"`
	Relationships []struct {
		SPDXElementID      string `json:"spdxElementId"`
		RelationshipType   string `json:"relationshipType"`
		RelatedSPDXElement string `json:"relatedSpdxElement"`
	} `json:"relationships"`
}

// part is a package of a document.
type part struct {
	SPDXID                string `json:"SPDXID"`
	Name                  string `json:"name"`
	VersionInfo           string `json:"versionInfo"`
	Supplier              string `json:"supplier"`
	DownloadLocation      string `json:"downloadLocation"`
	FilesAnalyzed         *bool  `json:"filesAnalyzed"`
	Homepage              string `json:"homepage"`
	SourceInfo            string `json:"sourceInfo"`
	LicenseConcluded      string `json:"licenseConcluded"`
	LicenseDeclared       string `json:"licenseDeclared"`
	CopyrightText         string `json:"copyrightText"`
	PrimaryPackagePurpose string `json:"primaryPackagePurpose"`
	Checksums             []struct {
		Algorithm     string `json:"algorithm"`
		ChecksumValue string `json:"checksumValue"`
	} `json:"checksums"`
	ExternalRefs []struct {
		ReferenceCategory string `json:"referenceCategory"`
		ReferenceType     string `json:"referenceType"`
		ReferenceLocator  string `json:"referenceLocator"`
	} `json:"externalRefs"`
}

var (
	identifier = regexp.MustCompile(`^SPDXRef-[a-zA-Z0-9.-]+$`)
	creator    = regexp.MustCompile(`^(Tool|Person|Organization): \S`)
	supplier   = regexp.MustCompile(`^(NOASSERTION|(Person|Organization): \S.*)$`)
	// hexadecimal digits of each algorithm's sums (clause 7.10).
	sums = map[string]*regexp.Regexp{"SHA1": regexp.MustCompile(`^[0-9a-f]{40}$`), "SHA256": regexp.MustCompile(`^[0-9a-f]{64}$`)}
	// scheme:type/name, then version and qualifiers (purl-spec).
	purl = regexp.MustCompile(`^pkg:[a-z][a-z0-9.+-]*/[^@?#\s]+(@[^?#/\s]+)?(\?[a-z0-9._-]+=[^&\s]+(&[a-z0-9._-]+=[^&\s]+)*)?$`)
	// Those that we use, of clause 11's list and clauses 7.24 and 7.21's.
	kinds    = []string{"DESCRIBES", "CONTAINS", "DEPENDS_ON", "VARIANT_OF"}
	purposes = []string{
		"", "APPLICATION", "FRAMEWORK", "LIBRARY", "CONTAINER", "OPERATING-SYSTEM", "DEVICE", "FIRMWARE", "SOURCE", "ARCHIVE", "FILE", "INSTALL",
		"OTHER",
	}
	categories = []string{"SECURITY", "PACKAGE-MANAGER", "PERSISTENT-ID", "OTHER"}
	licenses   = []string{"NOASSERTION", "NONE", "Apache-2.0"}
)

// Check reads a document, and returns what of it is not as the specification wants it.
func Check(data []byte) (Document, []string) {
	out := Document{Locators: map[string]int{}, Versions: map[string][]string{}}
	var d text
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&d); err != nil {
		return out, []string{err.Error()}
	}
	var wrong mistakes
	wrong.header(d)
	known := map[string]bool{d.SPDXID: true}
	for _, p := range d.Packages {
		wrong.must(p.Name != "", "7.1: package %s has no name", p.SPDXID)
		wrong.must(identifier.MatchString(p.SPDXID), "7.2: identifier %q", p.SPDXID)
		wrong.must(!known[p.SPDXID], "7.2: identifier %q stands there twice", p.SPDXID)
		known[p.SPDXID] = true
		wrong.packaged(p)
		for _, r := range p.ExternalRefs {
			out.Locators[r.ReferenceLocator]++
		}
		out.Versions[p.Name] = append(out.Versions[p.Name], p.VersionInfo)
	}
	wrong.related(d, known)
	return out, wrong
}

// mistakes are what is not as the specification wants it.
type mistakes []string

func (m *mistakes) must(ok bool, format string, args ...any) {
	if !ok {
		*m = append(*m, fmt.Sprintf(format, args...))
	}
}

// header judges what the document says of itself.
func (m *mistakes) header(d text) {
	must := m.must
	must(d.SPDXVersion == "SPDX-2.3", "6.1: version is %q", d.SPDXVersion)
	must(d.DataLicense == "CC0-1.0", "6.2: data license is %q", d.DataLicense)
	must(d.SPDXID == "SPDXRef-DOCUMENT", "6.3: the document's identifier is %q", d.SPDXID)
	must(d.Name != "", "6.4: the document has no name")
	namespace, err := url.Parse(d.DocumentNamespace)
	must(err == nil && namespace.IsAbs() && namespace.Host != "" && !strings.Contains(d.DocumentNamespace, "#"), "6.5: namespace is %q",
		d.DocumentNamespace)
	must(len(d.CreationInfo.Creators) > 0, "6.8: no creator")
	for _, c := range d.CreationInfo.Creators {
		must(creator.MatchString(c), "6.8: creator is %q", c)
	}
	_, err = time.Parse("2006-01-02T15:04:05Z", d.CreationInfo.Created)
	must(err == nil, "6.9: created %q", d.CreationInfo.Created)
}

// packaged judges one package.
func (m *mistakes) packaged(p part) {
	must := m.must
	must(p.Supplier == "" || supplier.MatchString(p.Supplier), "7.5: supplier of %s is %q", p.Name, p.Supplier)
	place, err := url.Parse(p.DownloadLocation)
	must(p.DownloadLocation == "NOASSERTION" || p.DownloadLocation == "NONE" || err == nil && place.IsAbs(),
		"7.7: %s is downloaded from %q", p.Name, p.DownloadLocation)
	// Without it files would have to be listed, with a code of verification (7.9).
	must(p.FilesAnalyzed != nil && !*p.FilesAnalyzed, "7.8: files of %s are said to be analyzed", p.Name)
	for _, c := range p.Checksums {
		must(sums[c.Algorithm] != nil && sums[c.Algorithm].MatchString(c.ChecksumValue), "7.10: %s of %s is %q", c.Algorithm, p.Name,
			c.ChecksumValue)
	}
	must(slices.Contains(licenses, p.LicenseConcluded) && slices.Contains(licenses, p.LicenseDeclared), "7.13, 7.15: licences of %s", p.Name)
	must(slices.Contains(purposes, p.PrimaryPackagePurpose), "7.24: purpose of %s is %q", p.Name, p.PrimaryPackagePurpose)
	for _, r := range p.ExternalRefs {
		must(slices.Contains(categories, r.ReferenceCategory), "7.21: category %q", r.ReferenceCategory)
		must(r.ReferenceType == "purl" && purl.MatchString(r.ReferenceLocator), "F.3.5: %s %q", r.ReferenceType, r.ReferenceLocator)
	}
}

// related judges the relationships. Nothing lies about: all that is known is said to be in what the document describes.
func (m *mistakes) related(d text, known map[string]bool) {
	must := m.must
	described := 0
	below := map[string][]string{}
	for _, r := range d.Relationships {
		must(known[r.SPDXElementID] && known[r.RelatedSPDXElement], "11.1: %s %s %s names what is not there", r.SPDXElementID, r.RelationshipType,
			r.RelatedSPDXElement)
		must(slices.Contains(kinds, r.RelationshipType), "11.1: relationship %q", r.RelationshipType)
		below[r.SPDXElementID] = append(below[r.SPDXElementID], r.RelatedSPDXElement)
		if r.RelationshipType == "DESCRIBES" && r.SPDXElementID == d.SPDXID {
			described++
		}
	}
	must(described == 1, "11.1: the document describes %d packages", described)
	reached, next := map[string]bool{}, []string{d.SPDXID}
	for len(next) > 0 {
		one := next[0]
		if next = next[1:]; !reached[one] {
			reached[one] = true
			next = append(next, below[one]...)
		}
	}
	for id := range known {
		must(reached[id], "11: %s is in nothing", id)
	}
}
