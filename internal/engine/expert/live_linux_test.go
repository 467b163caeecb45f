package expert

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"assay/internal/gguf"
)

const (
	childEnv   = "ASSAY_EXPERT_CHILD" // the model's file
	liveLimit  = 128 << 20            // of the child's group
	liveGrowth = 48 << 20             // what the child takes besides, for a time
)

// 24 experts of 4 MiB a layer: 192 MiB of them, under a limit of 128.
var liveShape = Shape{Layers: 2, Experts: 24, Used: 4, Width: 1024, Inner: 1280}

// In a control group that can't hold all experts, auto takes what there is, gives
// way when something else needs memory, and is not killed.
func TestLiveLimit(t *testing.T) {
	if testing.Short() {
		t.Skip("reads a model of 192 MiB several times")
	}
	group := filepath.Join("/sys/fs/cgroup/memory", fmt.Sprintf("assay-expert-%d", os.Getpid()))
	if err := os.Mkdir(group, 0o755); err != nil {
		t.Skipf("control groups of version 1 can't be made here: %v", err)
	}
	defer func() {
		for range 100 { // the group is busy until the child is gone entirely
			if os.Remove(group) == nil {
				return
			}
			time.Sleep(20 * time.Millisecond)
		}
		t.Errorf("%s could not be removed", group)
	}()
	limit := []byte(strconv.Itoa(liveLimit))
	if err := os.WriteFile(filepath.Join(group, "memory.limit_in_bytes"), limit, 0o644); err != nil {
		t.Skipf("no memory limit can be set here: %v", err)
	}
	file := filepath.Join(t.TempDir(), "m.gguf")
	writeModel(t, file, liveShape, 1, q8)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+file)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(group, "cgroup.procs"), []byte(strconv.Itoa(cmd.Process.Pid)), 0o644); err != nil {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		t.Fatal(err)
	}
	fmt.Fprintln(in, "go") // it is in the group now
	if err := in.Close(); err != nil {
		t.Error(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	t.Log(strings.TrimSpace(out.String()))
}

// child is what TestLiveLimit starts.
func child() int {
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return 2
	}
	if err := live(os.Getenv(childEnv)); err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func live(file string) (err error) {
	f, err := gguf.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	s, err := Open(f, liveShape, Options{})
	if err != nil {
		return err
	}
	defer func() {
		if e := s.Close(); err == nil {
			err = e
		}
	}()
	var everything []int32
	for i := range int32(liveShape.Experts) {
		everything = append(everything, i)
	}
	until := func(what string, ok func(Stats) bool) error {
		for end := time.Now().Add(30 * time.Second); ; {
			for layer := range liveShape.Layers {
				b, err := s.Begin(layer, everything, nil)
				if err != nil {
					return err
				}
				if n, err := all(b, func(Expert) error { return nil }); n != len(everything) || err != nil {
					return fmt.Errorf("%s: %d experts: %w", what, n, err)
				}
			}
			st := s.Stats()
			if ok(st) {
				fmt.Printf("%s: %d of %d experts in %d MiB, %d hits of %d\n", what, st.Resident, 2*liveShape.Experts, st.Bytes>>20, st.Hits, st.Lookups)
				return nil
			}
			if time.Now().After(end) {
				return fmt.Errorf("%s never happened: %+v", what, st)
			}
		}
	}
	// 32 MiB are left free, the reserve, and the program needs some.
	if err := until("filled", func(st Stats) bool { return st.Bytes > 64<<20 }); err != nil {
		return err
	}
	// The store must stay out of the way of something that grows at 100 MB/s.
	other, err := unix.Mmap(-1, 0, liveGrowth, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return err
	}
	for i := 0; i < len(other); i += 1 << 20 {
		for j := i; j < i+1<<20; j += sector {
			other[j] = 1
		}
		time.Sleep(10 * time.Millisecond)
	}
	if err := until("gave way", func(st Stats) bool { return st.Shrinks > 0 && st.Bytes < 60<<20 }); err != nil {
		return err
	}
	if err := unix.Munmap(other); err != nil {
		return err
	}
	return until("grew back", func(st Stats) bool { return st.Bytes > 64<<20 })
}

// buffered makes a reader one of a file system without direct reads.
func buffered(r Reader) bool {
	for i := range r.(*files).refused {
		r.(*files).refused[i].Store(true)
	}
	return true
}
