package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The assembly in the repository is what this generator writes.
func TestGeneratedFilesAreCurrent(t *testing.T) {
	for name, want := range files() {
		got, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		if string(got) != want {
			t.Errorf("%s is not what the generator writes; run go generate ./internal/engine/kernel", name)
		}
	}
}
