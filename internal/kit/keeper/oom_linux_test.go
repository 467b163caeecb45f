package keeper

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// eat takes 1 MiB of memory a millisecond, until something stops it.
func eat() {
	for all := [][]byte{}; ; time.Sleep(time.Millisecond) {
		b := make([]byte, 1<<20)
		for i := 0; i < len(b); i += 4096 {
			b[i] = 1
		}
		all = append(all, b)
	}
}

// limited puts a limit on the memory of a program's cgroup.
func limited(t *testing.T, p *Process, bytes int) {
	t.Helper()
	if p.Cgroup == "" {
		t.Skip(p.CgroupWhy)
	}
	for _, name := range []string{"memory.limit_in_bytes", "memory.max"} {
		if os.WriteFile(filepath.Join(p.Cgroup, name), []byte(strconv.Itoa(bytes)), 0o644) == nil {
			return
		}
	}
	t.Skip("no limit can be set in " + p.Cgroup)
}

// A program that the kernel kills for memory is told as such, with the limit; so
// is one of those that it started.
func TestKilledForMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes 64 MiB, twice")
	}
	for as, want := range map[string]string{
		"eater":        `^signal: killed: killed by the kernel for memory: cgroup (/\S+), limit 64\.0 MiB, peak (6[0-4]\.\d) MiB$`,
		"eater's boss": `^exit status 1; the kernel killed 1 processes of it for memory: cgroup (/\S+), limit 64\.0 MiB, peak (6[0-4]\.\d) MiB$`,
	} {
		p, line := started(t, as, "")
		line()
		limited(t, p, 64<<20)
		select {
		case <-p.Done():
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: it is not killed", as)
		}
		if m := regexp.MustCompile(want).FindStringSubmatch(p.Ending()); m == nil || m[1] != p.Cgroup {
			t.Errorf("%s: %q in %s", as, p.Ending(), p.Cgroup)
		}
	}
}

// An end that was asked for is nobody else's doing.
func TestStoppedIsNotKilledForMemory(t *testing.T) {
	p, _ := started(t, "deaf", "")
	p.Kill()
	<-p.Done()
	if p.Ending() != "signal: killed" {
		t.Errorf("%q", p.Ending())
	}
}
