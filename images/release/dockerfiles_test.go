package main

import (
	"encoding/json"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the source tree.
const root = "../.."

// TestDockerfilesSayWhatTheListSays: whoever builds with Docker gets what make images packs.
func TestDockerfilesSayWhatTheListSays(t *testing.T) {
	l, err := readList(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range l.Images {
		names = append(names, r.Name)
		t.Run(r.Name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(root, "images", r.Name, "Dockerfile"))
			if err != nil {
				t.Fatal(err)
			}
			if differ := differences(r, string(text)); len(differ) > 0 {
				t.Error(strings.Join(differ, "\n"))
			}
			// It sees what differs: without any one of its instructions the file says something else.
			for i, instruction := range instructions(string(text)) {
				without := slices.Delete(instructions(string(text)), i, i+1)
				if ignored(instruction) {
					continue
				}
				if len(differences(r, strings.Join(without, "\n"))) == 0 {
					t.Errorf("the file says the same without %q", instruction)
				}
			}
		})
	}
	dirs, err := filepath.Glob(filepath.Join(root, "images/*/Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range dirs {
		// What only tests run is not for clusters, and is not listed.
		if name := filepath.Base(filepath.Dir(file)); name != "netprobe" && !slices.Contains(names, name) {
			t.Errorf("%s is of no image of the list", file)
		}
	}
}

// ignored tells which instructions do not decide what is in an image.
func ignored(instruction string) bool {
	for _, start := range []string{"ARG ", "FROM ", "WORKDIR ", "COPY go.mod", "RUN go mod download", "COPY cmd ", "COPY pkg ", "COPY dist "} {
		if strings.HasPrefix(instruction, start) {
			return true
		}
	}
	return false
}

// instructions are the lines of a Dockerfile, with those joined that a backslash joins, and without comments.
func instructions(text string) []string {
	var out []string
	for line := range strings.Lines(strings.ReplaceAll(text, "\\\n", " ")) {
		if line = strings.Join(strings.Fields(line), " "); line != "" && !strings.HasPrefix(line, "#") {
			out = append(out, line)
		}
	}
	return out
}

// differences compares what a Dockerfile says with a recipe.
func differences(r recipe, text string) []string {
	var (
		differ                    []string
		packages, programs        []string
		links                     = map[string]string{}
		copies                    []string
		user, environment, unpack string
		entrypoint                []string
	)
	for _, instruction := range instructions(text) {
		verb, rest, _ := strings.Cut(instruction, " ")
		switch verb {
		case "RUN":
			for command := range strings.SplitSeq(rest, "&&") {
				words := strings.Fields(command)
				switch {
				case strings.HasPrefix(strings.Join(words, " "), "apt-get download"):
					packages = words[2:]
				case slices.Contains(words, "build"):
					for _, word := range words {
						if p, found := strings.CutPrefix(word, "./"); found {
							programs = append(programs, p)
						}
					}
				case words[0] == "ln":
					links[words[3]] = words[2]
				case words[0] == "/unpack":
					unpack = strings.Join(words, " ")
				}
			}
		case "COPY":
			copies = append(copies, rest)
		case "USER":
			user = rest
		case "ENV":
			environment = rest
		case "ENTRYPOINT":
			if err := json.Unmarshal([]byte(rest), &entrypoint); err != nil {
				differ = append(differ, err.Error())
			}
		}
	}
	compare := func(what string, got, want []string) {
		if !slices.Equal(got, want) {
			differ = append(differ, what+": the Dockerfile has "+strings.Join(got, " ")+", the list "+strings.Join(want, " "))
		}
	}
	compare("packages", packages, r.Packages)
	compare("programs", programs, r.Programs)
	compare("user", []string{user}, []string{r.User})
	compare("entry point", entrypoint, r.Entrypoint)
	compare("environment", []string{environment}, []string{searchPath})
	compare("unpacking", []string{unpack}, []string{"/unpack /root-of-image *.deb"})
	if !maps.Equal(links, r.Links) && len(links)+len(r.Links) > 0 {
		differ = append(differ, "links differ")
	}
	want := []string{"images/unpack /unpack", "--from=system /root-of-image/ /"}
	for place, dir := range r.Files {
		want = append(want, path.Clean(dir)+"/ /"+place+"/")
	}
	if len(r.Programs) > 0 {
		want = append(want, "--from=build /out/ /"+places+"/")
	}
	for _, c := range want {
		if !slices.Contains(copies, c) {
			differ = append(differ, "no COPY "+c)
		}
	}
	for _, c := range copies {
		if !slices.Contains(want, c) && !ignored("COPY "+c) {
			differ = append(differ, "COPY "+c+" is not of the list")
		}
	}
	return differ
}
