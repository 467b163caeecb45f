// Package plans carries the example plans, one file a use. Read them with
// assay run --dry-run, copy one, and change it.
package plans

import (
	"embed"
	"slices"
	"strings"
)

//go:embed *.yaml
var files embed.FS

// Names lists the examples, without .yaml.
func Names() []string {
	entries, err := files.ReadDir(".")
	if err != nil {
		panic("plans: the embedded plans are gone: " + err.Error())
	}
	var names []string
	for _, e := range entries {
		names = append(names, strings.TrimSuffix(e.Name(), ".yaml"))
	}
	slices.Sort(names)
	return names
}

// Example is the text of one of them.
func Example(name string) ([]byte, bool) {
	if strings.ContainsAny(name, `/\`) {
		return nil, false
	}
	data, err := files.ReadFile(name + ".yaml")
	return data, err == nil
}
