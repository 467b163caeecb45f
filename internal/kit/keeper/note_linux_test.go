package keeper

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Reap touches nobody but those that a note names for certain.
func TestReapSparesOthers(t *testing.T) {
	p, _ := started(t, "deaf", "")
	boot, err := bootID()
	if err != nil {
		t.Fatal(err)
	}
	first, err := identify(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	us, err := identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	gone := process{us.PID, us.Start - 1} // another process had our number before
	for _, c := range []struct {
		name string
		note any
		err  string // empty: the note is done with
	}{
		{"another boot", note{Form: noteForm, BootID: "other", Caller: gone, First: &first}, ""},
		{"a number used again", note{Form: noteForm, BootID: boot, Caller: gone, First: &process{first.PID, first.Start + 1}}, ""},
		{"not yet started", note{Form: noteForm, BootID: boot, Caller: gone}, ""},
		{"the caller is there", note{Form: noteForm, BootID: boot, Caller: us, First: &first}, "is still at work here"},
		{"a cgroup that is not ours", note{Form: noteForm, BootID: boot, Caller: gone, Cgroups: []string{"/sys/fs/cgroup"}}, ""},
		{"numbers that mean all processes", note{Form: noteForm, BootID: boot, Caller: process{}, Keeper: &process{-1, 0}, First: &process{1, 0}}, ""},
		{"another form", note{Form: "x"}, `form "x", want "assay-target-1"`},
		{"no note", "x", "remove the file"},
	} {
		path := filepath.Join(t.TempDir(), "note")
		data, err := json.Marshal(c.note)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		killed, err := Reap(path)
		if len(killed) > 0 || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", c.name, killed, err)
		}
		if _, stat := os.Stat(path); (stat == nil) != (err != nil) {
			t.Errorf("%s: the note: %v", c.name, stat)
		}
		if syscall.Kill(p.PID, 0) != nil {
			t.Fatalf("%s: the process was killed", c.name)
		}
	}
	if killed, err := Reap(filepath.Join(t.TempDir(), "none")); killed != nil || err != nil {
		t.Error(killed, err)
	}
}

// A program whose caller and keeper are gone is found by the note alone.
func TestReapKills(t *testing.T) {
	dir := t.TempDir()
	p, line := started(t, "wrapper", "")
	line()
	boot, _ := bootID()
	first, err := identify(p.PID)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "note")
	data, _ := json.Marshal(note{Form: noteForm, BootID: boot, Caller: process{os.Getpid(), 1}, First: &first, Cgroups: p.cgroups})
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	killed, err := Reap(path)
	if err != nil || len(killed) == 0 || killed[0].PID != p.PID || !strings.Contains(killed[0].String(), "keeper.test (process ") {
		t.Errorf("%v, %v", killed, err)
	}
	<-p.Done()
	noneLeft(t, t.Name())
}

// Each cgroup is told of before it is there, and is not made where it can't be noted:
// a caller that is killed in between leaves none that nobody knows of.
func TestCgroupsAreNotedFirst(t *testing.T) {
	var told []string
	made, err := makeCgroups(func(dir string) error {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is there before it is noted", dir)
		}
		told = append(told, dir)
		return nil
	})
	if err != nil {
		t.Skip(err)
	}
	if _, err := reapCgroups(made); err != nil || !slices.Equal(told, made) {
		t.Errorf("told of %v, made %v, %v", told, made, err)
	}
	if made, err = makeCgroups(func(string) error { return errors.New("no room") }); err == nil || len(made) > 0 {
		t.Errorf("made %v though nothing was noted: %v", made, err)
	}
}

// The program ends, and its caller is killed before it could clean up: the keeper
// does it, without waiting for anyone to read the note.
func TestCgroupsOfACallerThatDiesLater(t *testing.T) {
	path := filepath.Join(t.TempDir(), "note")
	c, out := caller(t, t.Name(), path)
	for range 2 {
		if _, err := out.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	var n note
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, &n)
	}
	if err != nil || n.First == nil {
		t.Fatalf("%s: %v", data, err)
	}
	_ = syscall.Kill(c.Process.Pid, syscall.SIGSTOP)
	_ = syscall.Kill(n.First.PID, syscall.SIGKILL)
	time.Sleep(200 * time.Millisecond) // in which the keeper sees that end
	_ = c.Process.Kill()
	_ = c.Wait()
	noneLeft(t, t.Name())
	for _, dir := range n.Cgroups {
		for deadline := time.Now().Add(settle); ; time.Sleep(5 * time.Millisecond) {
			if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
				break
			}
			if time.Now().After(deadline) {
				t.Errorf("%s is left", dir)
				break
			}
		}
	}
	if _, err := Reap(path); err != nil {
		t.Error(err)
	}
}

// Whatever a note says, reading it ends, and no process of this machine fits it.
func FuzzReap(f *testing.F) {
	data, _ := json.Marshal(note{Form: noteForm, BootID: "other", Keeper: &process{2, 3}, First: &process{4, 5}, Cgroups: []string{"/x"}})
	f.Add(data)
	f.Add([]byte(`{"form":"assay-target-1"}`))
	f.Add([]byte("{"))
	boot, _ := bootID()
	f.Fuzz(func(t *testing.T, data []byte) {
		if strings.Contains(string(data), boot) {
			t.Skip()
		}
		path := filepath.Join(t.TempDir(), "note")
		if err := os.WriteFile(path, data, 0o644); err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		if killed, _ := Reap(path); len(killed) > 0 || time.Since(began) > time.Second {
			t.Errorf("%v after %v", killed, time.Since(began))
		}
	})
}
