package main

import (
	"bytes"
	"encoding/json"
	"io"
	"math"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"assay/internal/kit/telemetry/nvml"
)

func noQuit() {}

// Where there is no NVIDIA driver the loader itself refuses, for real; the first
// line says so and the program ends with 1.
func TestNoLibrary(t *testing.T) {
	other := "" // a library that is there and is not NVIDIA's
	for _, pattern := range []string{"/lib*/*/libc.so.6", "/lib*/libc.so.6", "/lib/libc.musl-*"} {
		if found, _ := filepath.Glob(pattern); len(found) > 0 && other == "" {
			other = found[0]
		}
	}
	for _, c := range []struct{ name, library, want string }{
		{"not there", "/nowhere/libnvidia-ml.so.1", "is the NVIDIA driver installed?"},
		{"another library", other, "is not NVIDIA's management library, or too old"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.library == "" || runtime.GOOS != "linux" {
				t.Skip("no such library on this system")
			}
			var out, errs bytes.Buffer
			if rc := run([]string{"-library", c.library}, strings.NewReader(""), &out, &errs, noQuit); rc != 1 {
				t.Errorf("exit status %d, want 1", rc)
			}
			h, err := nvml.ParseHello(bytes.TrimSpace(out.Bytes()))
			if err != nil || !strings.Contains(h.Error, c.want) || !strings.Contains(h.Error, c.library) {
				t.Errorf("it says %q, %v; want %q", out.String(), err, c.want)
			}
			if errs.Len() > 0 {
				t.Errorf("on standard error: %q", errs.String())
			}
		})
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{{"-every", "0"}, {"-every", "soon"}, {"-bad"}, {"argument"}} {
		var out, errs bytes.Buffer
		if rc := run(args, strings.NewReader(""), &out, &errs, noQuit); rc != 2 || errs.Len() == 0 || out.Len() > 0 {
			t.Errorf("%q: exit status %d, %q, %q", args, rc, out.String(), errs.String())
		}
	}
}

// A board that the driver lost before the start is in every tick, with its reason
// for every field. A newline asks for a tick; the end of the input ends it all.
func TestWatch(t *testing.T) {
	in, ask := io.Pipe()
	out, to := io.Pipe()
	quit := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watch([]board{{index: 0, lost: "GPU is lost"}}, time.Hour, in, json.NewEncoder(to), func() { close(quit) })
	}()
	lines := json.NewDecoder(out)
	for range 3 {
		if _, err := ask.Write([]byte("\n")); err != nil {
			t.Fatal(err)
		}
		var tick nvml.Tick
		if err := lines.Decode(&tick); err != nil {
			t.Fatal(err)
		}
		if len(tick.GPUs) != 1 || len(tick.GPUs[0].Why) != len(everyField) || tick.GPUs[0].Why["energy_mj"] != "GPU is lost" {
			t.Errorf("%+v", tick)
		}
		if runtime.GOOS == "linux" && tick.MonoNS <= 0 {
			t.Errorf("no stamp")
		}
	}
	ask.Close()
	for _, c := range []chan struct{}{ended, quit} {
		select {
		case <-c:
		case <-time.After(10 * time.Second):
			t.Fatal("it goes on although nobody listens")
		}
	}
}

// A field's value by the kinds of nvmlValueType_t, on a little-endian machine.
func TestFieldNumber(t *testing.T) {
	if runtime.GOARCH != "amd64" && runtime.GOARCH != "arm64" {
		t.Skip("written for little-endian machines")
	}
	double := math.Float64bits(61.25)
	var eight [8]byte
	for i := range eight {
		eight[i] = byte(double >> (8 * i))
	}
	for _, c := range []struct {
		kind  uint32
		value [8]byte
		want  float64
		ok    bool
	}{
		{kindDouble, eight, 61.25, true},
		{kindUint, [8]byte{0x10, 0x27, 0, 0, 0xff, 0xff, 0xff, 0xff}, 10000, true}, // the upper half of the union is noise
		{kindUlong, [8]byte{0x10, 0x27}, 10000, true},
		{kindUlonglong, [8]byte{0, 0, 0, 0, 1}, 1 << 32, true},
		{kindLonglong, [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff}, -1, true},
		{kindInt, [8]byte{0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0}, -1, true},
		{17, [8]byte{}, 0, false},
	} {
		f := fieldValue{kind: c.kind, value: c.value}
		if v, ok := f.number(); v != c.want || ok != c.ok {
			t.Errorf("kind %d, %v: %g, %v; want %g, %v", c.kind, c.value, v, ok, c.want, c.ok)
		}
	}
}

// The program as it is installed: without cgo, and it still loads libraries.
func TestBuiltWithoutCgo(t *testing.T) {
	if testing.Short() || runtime.GOOS != "linux" {
		t.Skip("builds a program")
	}
	exe := filepath.Join(t.TempDir(), "assay-nvml")
	build := exec.Command("go", "build", "-o", exe, ".")
	build.Env = append(build.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	cmd := exec.Command(exe, "-library", "/nowhere/libnvidia-ml.so.1")
	out, err := cmd.Output()
	if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "can't be loaded") {
		t.Errorf("%v, %q", err, out)
	}
}
