// Package machines has the files of some machines, for tests of what reads them:
// NAME.txtar, of which amd-vm was recorded and the others have the shapes of real
// machines. Only tests import it.
package machines

import (
	"embed"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"
)

//go:embed *.txtar
var files embed.FS

// unpacked are the trees that tests share, by name.
var unpacked = struct {
	sync.Mutex
	root string
	dirs map[string]string
}{dirs: map[string]string{}}

// Main is the TestMain of a package whose tests call Tree.
func Main(m *testing.M) {
	code := m.Run()
	if unpacked.root != "" {
		os.RemoveAll(unpacked.root)
	}
	os.Exit(code)
}

// Tree is the root of a machine's files. Tests only read them.
func Tree(t testing.TB, name string) string {
	t.Helper()
	unpacked.Lock()
	defer unpacked.Unlock()
	if unpacked.root == "" {
		var err error
		if unpacked.root, err = os.MkdirTemp("", "assay-machines-"); err != nil {
			t.Fatal(err)
		}
	}
	dir, ok := unpacked.dirs[name]
	if !ok {
		dir = filepath.Join(unpacked.root, name)
		unpack(t, name, dir)
		unpacked.dirs[name] = dir
	}
	return dir
}

// Own is a tree that the test may change.
func Own(t testing.TB, name string) string {
	t.Helper()
	dir := t.TempDir()
	unpack(t, name, dir)
	return dir
}

func unpack(t testing.TB, name, dir string) {
	t.Helper()
	data, err := files.ReadFile(name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := txtar.Write(txtar.Parse(data), dir); err != nil {
		t.Fatal(err)
	}
}
