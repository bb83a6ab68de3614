package main

import (
	"embed"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:embed exceptions-*.yaml
var exceptionFiles embed.FS

// exception is a spec, or several, that need not pass.
type exception struct {
	// Spec is a part of the names of the specs.
	Spec string `json:"spec"`
	// Reason tells a reader why, in a sentence.
	Reason string `json:"reason"`
}

// exceptions of one kind of Network.
type exceptions []exception

func exceptionsOf(n network) (exceptions, error) {
	name := "exceptions-" + string(n) + ".yaml"
	data, err := exceptionFiles.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("read exceptions: %w", err)
	}
	list, err := parseExceptions(data)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", name, err)
	}
	return list, nil
}

func parseExceptions(data []byte) (exceptions, error) {
	var list exceptions
	if err := yaml.UnmarshalStrict(data, &list); err != nil {
		return nil, err
	}
	for _, e := range list {
		if e.Spec == "" || e.Reason == "" {
			return nil, fmt.Errorf("exception %q: it needs a spec and a reason", e.Spec)
		}
	}
	return list, nil
}

// reason says why a spec need not pass.
func (list exceptions) reason(spec string) (string, bool) {
	for _, e := range list {
		if strings.Contains(spec, e.Spec) {
			return e.Reason, true
		}
	}
	return "", false
}

// unused returns the exceptions that are of none of the specs: upstream has renamed or removed those.
func (list exceptions) unused(specs []string) exceptions {
	var unused exceptions
	for _, e := range list {
		found := false
		for _, spec := range specs {
			found = found || strings.Contains(spec, e.Spec)
		}
		if !found {
			unused = append(unused, e)
		}
	}
	return unused
}
