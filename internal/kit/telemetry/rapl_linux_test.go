package telemetry

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
)

// As a user who is not root, which on real machines is the common case.
func TestRAPLUnreadable(t *testing.T) {
	from := machine(t, "laptop")
	for _, zone := range []string{"intel-rapl:0", "intel-rapl:1"} {
		if err := os.Chmod(filepath.Join(string(from), "sys/class/powercap", zone, "energy_uj"), 0o400); err != nil {
			t.Fatal(err)
		}
	}
	rd := &reading{}
	if os.Geteuid() != 0 {
		t.Skip("the owner of these files may read them; root can read them as another user")
	}
	// The file system's user is a thread's own; as root it is given back below.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if err := syscall.Setfsuid(65534); err != nil {
		t.Fatal(err)
	}
	raplSource{from}.read(rd)
	if err := syscall.Setfsuid(0); err != nil {
		t.Fatal(err)
	}
	if len(rd.values) != 0 || len(rd.whys) != 2 {
		t.Fatalf("%v, %v", rd.values, rd.whys)
	}
	w := rd.whys[0]
	if w.of != "package-0" || !strings.Contains(w.why, "/sys/class/powercap/intel-rapl:0/energy_uj: permission denied") || !strings.Contains(w.why, "CVE-2020-8694") {
		t.Errorf("%+v", w)
	}
}
