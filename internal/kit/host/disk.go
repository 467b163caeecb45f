package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Disk is where a file lies. A nil field has its reason in Why, under the
// field's JSON name. The path and the mount point are left out: rows are
// published.
type Disk struct {
	FileSystem *string           `json:"file_system"` // ext4, btrfs, overlay, nfs4, tmpfs ...
	Kind       *string           `json:"kind"`        // nvme, sata, virtio, md, loop, zram, usb, memory, network
	Device     *string           `json:"device"`      // name of the whole disk: nvme0n1
	Below      []string          `json:"below"`       // disks that a mapped device or an array lies on; empty: none
	Model      *string           `json:"model"`       // as the disk tells it
	Rotational *bool             `json:"rotational"`  // it has platters; virtual disks often claim it falsely
	Why        map[string]string `json:"why,omitempty"`
}

// ReadDisk finds the disk that holds path, an absolute path on the machine whose
// /proc and /sys are below root.
func ReadDisk(root, path string) Disk {
	d := Disk{Below: []string{}, Why: map[string]string{}}
	r := reader{root: root, why: d.Why}
	if real, err := filepath.EvalSymlinks(filepath.Join(root, path)); err == nil {
		if rel, err := filepath.Rel(root, real); err == nil && !strings.HasPrefix(rel, "..") {
			path = "/" + rel
		}
	}
	m, err := r.mountOf(filepath.Clean("/" + path))
	if err != nil {
		r.all(err.Error(), "file_system", "kind", "device", "model", "rotational")
		return d
	}
	d.FileSystem = &m.fsType
	if kind := withoutDisk(m.fsType); kind != "" {
		d.Kind = &kind
		r.all(fmt.Sprintf("%s is no file system on a disk of this machine", m.fsType), "device", "model", "rotational")
		return d
	}
	name, err := r.blockDevice(m)
	if err != nil {
		r.all(err.Error(), "kind", "device", "model", "rotational")
		return d
	}
	d.Device = &name
	r.describe(&d, name)
	return d
}

func (r *reader) all(why string, fields ...string) {
	for _, f := range fields {
		r.null(f, "%s", why)
	}
}

// withoutDisk names the kind of a file system that lies on no local disk.
func withoutDisk(fsType string) string {
	switch {
	case slices.Contains([]string{"tmpfs", "ramfs", "devtmpfs", "hugetlbfs"}, fsType):
		return "memory"
	case slices.Contains([]string{"nfs", "nfs4", "cifs", "smb3", "ceph", "glusterfs", "lustre", "9p", "virtiofs", "fuse.sshfs", "afs"}, fsType):
		return "network"
	}
	return ""
}

// mount is one line of mountinfo.
type mount struct {
	device string // major:minor
	point  string
	fsType string
	source string
}

// mountOf finds the mount that a path lies on: the longest mount point above it,
// and of equal ones the last, which covers the others.
func (r *reader) mountOf(path string) (mount, error) {
	const file = "proc/self/mountinfo"
	s, err := r.file(file)
	if err != nil {
		return mount{}, err
	}
	var best mount
	for line := range strings.Lines(s) {
		m, ok := parseMount(line)
		if ok && under(path, m.point) && len(m.point) >= len(best.point) {
			best = m
		}
	}
	if best.point == "" {
		return mount{}, fmt.Errorf("/%s: no mount holds the path", file)
	}
	return best, nil
}

func under(path, dir string) bool {
	return dir == "/" || path == dir || strings.HasPrefix(path, dir+"/")
}

// parseMount reads "36 35 98:0 /root /point options - type source options"; the
// number of fields before the dash varies.
func parseMount(line string) (mount, bool) {
	before, after, ok := strings.Cut(line, " - ")
	a, b := strings.Fields(before), strings.Fields(after)
	if !ok || len(a) < 6 || len(b) < 2 {
		return mount{}, false
	}
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	return mount{a[2], unescape.Replace(a[4]), b[0], unescape.Replace(b[1])}, true
}

// blockDevice finds the whole disk of a mount: by its number, or, for file
// systems such as btrfs whose number is not a disk's, by the name of its source.
func (r *reader) blockDevice(m mount) (string, error) {
	if _, err := r.dir("sys/block"); err != nil {
		return "", err
	}
	source, isDev := strings.CutPrefix(m.source, "/dev/")
	for _, disk := range r.glob("sys/block/*") {
		name := filepath.Base(disk)
		if r.trimmed(disk+"/dev") == m.device || isDev && (source == name || r.mapped(disk, source)) {
			return name, nil
		}
		for _, part := range r.glob(disk + "/" + name + "*") {
			if r.trimmed(part+"/dev") == m.device || isDev && filepath.Base(part) == source {
				return name, nil
			}
		}
	}
	if m.fsType == "overlay" {
		return "", errors.New("overlay: a container's file system, which does not tell its disk (put the model on a volume)")
	}
	return "", fmt.Errorf("/sys/block has no disk with the number %s, which %s has", m.device, m.fsType)
}

// mapped says whether a disk is the mapped device /dev/mapper/NAME.
func (r *reader) mapped(disk, source string) bool {
	name, ok := strings.CutPrefix(source, "mapper/")
	return ok && name != "" && r.trimmed(disk+"/dm/name") == name
}

// describe fills in what /sys/block says of a disk. What lies on others is
// described by the first of them.
func (r *reader) describe(d *Disk, name string) {
	bottom := name
	for range 8 { // crypt on volume on array on disk
		slaves := r.glob("sys/block/" + bottom + "/slaves/*")
		if len(slaves) == 0 {
			break
		}
		d.Below = nil
		for _, s := range slaves {
			d.Below = append(d.Below, r.wholeDisk(filepath.Base(s)))
		}
		slices.Sort(d.Below)
		d.Below = slices.Compact(d.Below)
		bottom = d.Below[0]
	}
	d.Kind = ptr(r.diskKind(bottom))
	switch r.trimmed("sys/block/" + name + "/queue/rotational") {
	case "0":
		d.Rotational = ptr(false)
	case "1":
		d.Rotational = ptr(true)
	default:
		r.null("rotational", "/sys/block/%s/queue/rotational: not there", name)
	}
	if s := r.trimmed("sys/block/" + bottom + "/device/model"); s != "" {
		d.Model = &s
	} else {
		r.null("model", "/sys/block/%s/device/model: not there (%s disks have none)", bottom, *d.Kind)
	}
}

// wholeDisk is the disk of a partition, or the name itself.
func (r *reader) wholeDisk(name string) string {
	for _, part := range r.glob("sys/block/*/" + name) {
		return filepath.Base(filepath.Dir(part))
	}
	return name
}

// diskKind goes by the kernel's names of disks.
func (r *reader) diskKind(name string) string {
	for _, k := range []struct{ prefix, kind string }{
		{"nvme", "nvme"},
		{"vd", "virtio"},
		{"xvd", "xen"},
		{"mmcblk", "mmc"},
		{"zram", "zram"},
		{"loop", "loop"},
		{"md", "md"},
		{"dm-", "mapped"},
		{"nbd", "network"},
		{"rbd", "network"},
		{"ram", "memory"},
	} {
		if strings.HasPrefix(name, k.prefix) {
			return k.kind
		}
	}
	if strings.HasPrefix(name, "sd") {
		if strings.TrimSpace(r.trimmed("sys/block/"+name+"/device/vendor")) == "ATA" {
			return "sata"
		}
		return "scsi"
	}
	return "other"
}

// dir says whether a folder is there.
func (r *reader) dir(path string) (fs.FileInfo, error) {
	info, err := os.Stat(filepath.Join(r.root, path))
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("/%s: %w", path, err)
	}
	return info, nil
}
