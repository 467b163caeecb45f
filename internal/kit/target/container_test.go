package target

import (
	"archive/tar"
	"bufio"
	"bytes"
	"debug/elf"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// testImage is made of this test binary and nothing else.
const testImage = "assay-target-test"

// docker skips a test where no daemon answers, and makes the image.
func docker(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts containers")
	}
	if out, err := exec.Command("docker", "version", "--format", "{{.Server.Version}}").CombinedOutput(); err != nil {
		t.Skipf("no container engine answers: %v: %s", err, out)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	if f, err := elf.Open(exe); err != nil || slices.ContainsFunc(f.Progs, func(p *elf.Prog) bool { return p.Type == elf.PT_INTERP }) {
		t.Skip("this test binary needs libraries, which the image has not: CGO_ENABLED=0, as make has it")
	}
	data, err := os.ReadFile(exe)
	if err != nil {
		t.Fatal(err)
	}
	var image bytes.Buffer
	w := tar.NewWriter(&image)
	if err := w.WriteHeader(&tar.Header{Name: "server", Mode: 0o755, Size: int64(len(data))}); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(data); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	load := exec.Command("docker", "import", "-", testImage)
	load.Stdin = &image
	if out, err := load.CombinedOutput(); err != nil {
		t.Skipf("no image can be made: %v: %s", err, out)
	}
	t.Cleanup(func() { _ = exec.Command("docker", "rmi", "-f", testImage).Run() })
}

func dockerRun(kind string) []string {
	return []string{"docker", "run", "--network", "host", "-e", role + "=" + kind, testImage, "/server"}
}

// containers are those of the image, ended ones included.
func containers(t *testing.T) string {
	t.Helper()
	out, err := exec.Command("docker", "ps", "-aq", "--filter", "ancestor="+testImage).Output()
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(out))
}

// A container is stopped as one: what is watched is its process and not the client,
// and nothing of it is left, whether it listens to the signal or not.
func TestContainer(t *testing.T) {
	docker(t)
	for _, kind := range []string{"server", "deaf"} {
		log := filepath.Join(t.TempDir(), "target.log")
		tg, err := Start(t.Context(), Launch{Argv: dockerRun(kind), Env: Scrub(os.Environ()), Log: log, Wait: 30 * time.Second}, Options{Adapters: []Adapter{anyServer{}}})
		if err != nil {
			t.Fatal(err)
		}
		if name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tg.Process.PID)); strings.TrimSpace(string(name)) != "server" {
			t.Errorf("%s: the process that is watched is %q", kind, name)
		}
		if containers(t) == "" {
			t.Errorf("%s: no container", kind)
		}
		_ = tg.Process.Stop(2 * time.Second)
		if left := containers(t); left != "" {
			t.Errorf("%s: containers %s are left", kind, left)
		}
		if files, _ := filepath.Glob(log + ".*"); len(files) > 0 {
			t.Errorf("%s: %v are left", kind, files)
		}
	}
}

// A kit that dies without a word takes its container with it.
func TestContainerDiesWithTheKit(t *testing.T) {
	docker(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	kit := exec.Command(exe, append([]string{filepath.Join(t.TempDir(), "target.log")}, dockerRun("deaf")...)...)
	kit.Env = append(os.Environ(), role+"=kit")
	out, err := kit.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := kit.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	if containers(t) == "" {
		t.Error("no container")
	}
	_ = kit.Process.Kill()
	_ = kit.Wait()
	for deadline := time.Now().Add(20 * time.Second); containers(t) != ""; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = exec.Command("docker", "rm", "-f", containers(t)).Run()
			t.Fatal("the container outlived its kit")
		}
	}
}

func TestContainerFlags(t *testing.T) {
	if _, err := exec.LookPath("docker"); err != nil {
		t.Skip(err)
	}
	log := filepath.Join(t.TempDir(), "l")
	argv, c, err := contain([]string{"docker", "--context", "x", "run", "--rm", "image"}, log)
	if want := "docker --context x run --cidfile " + log + ".docker.cid --rm image"; err != nil || c == nil || strings.Join(argv, " ") != want {
		t.Errorf("%q, %v; want %s", argv, err, want)
	}
	for _, bad := range []string{"-d", "--detach", "--cidfile=x"} {
		if _, _, err := contain([]string{"docker", "run", bad, "image"}, log); err == nil || !strings.Contains(err.Error(), "leave") {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if argv, c, err := contain([]string{"llama-server", "run"}, log); c != nil || err != nil || len(argv) != 2 {
		t.Errorf("no container: %q, %v", argv, err)
	}
}
