package host

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"assay/internal/kit/proc"
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
	r := readerOf(root, d.Why)
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
	d.FileSystem = &m.FS
	if kind := withoutDisk(m.FS); kind != "" {
		d.Kind = &kind
		r.all(fmt.Sprintf("%s is no file system on a disk of this machine", m.FS), "device", "model", "rotational")
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

// mountOf finds the mount that a path lies on.
func (r *reader) mountOf(path string) (proc.Mount, error) {
	mounts, err := r.Mounts()
	if err != nil {
		return proc.Mount{}, err
	}
	m, ok := proc.MountOf(mounts, path)
	if !ok {
		return m, errors.New("/proc/self/mountinfo: no mount holds the path")
	}
	return m, nil
}

// blockDevice finds the whole disk of a mount: by its number, or, for file
// systems such as btrfs whose number is not a disk's, by the name of its source.
func (r *reader) blockDevice(m proc.Mount) (string, error) {
	if _, err := r.dir("sys/block"); err != nil {
		return "", err
	}
	source, isDev := strings.CutPrefix(m.Source, "/dev/")
	for _, disk := range r.Glob("sys/block/*") {
		name := filepath.Base(disk)
		if r.Trimmed(disk+"/dev") == m.Device || isDev && (source == name || r.mapped(disk, source)) {
			return name, nil
		}
		for _, part := range r.Glob(disk + "/" + name + "*") {
			if r.Trimmed(part+"/dev") == m.Device || isDev && filepath.Base(part) == source {
				return name, nil
			}
		}
	}
	if m.FS == "overlay" {
		return "", errors.New("overlay: a container's file system, which does not tell its disk (put the model on a volume)")
	}
	return "", fmt.Errorf("/sys/block has no disk with the number %s, which %s has", m.Device, m.FS)
}

// mapped says whether a disk is the mapped device /dev/mapper/NAME.
func (r *reader) mapped(disk, source string) bool {
	name, ok := strings.CutPrefix(source, "mapper/")
	return ok && name != "" && r.Trimmed(disk+"/dm/name") == name
}

// describe fills in what /sys/block says of a disk. What lies on others is
// described by the first of them.
func (r *reader) describe(d *Disk, name string) {
	bottom := name
	for range 8 { // crypt on volume on array on disk
		slaves := r.Glob("sys/block/" + bottom + "/slaves/*")
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
	switch r.Trimmed("sys/block/" + name + "/queue/rotational") {
	case "0":
		d.Rotational = ptr(false)
	case "1":
		d.Rotational = ptr(true)
	default:
		r.null("rotational", "/sys/block/%s/queue/rotational: not there", name)
	}
	if s := r.Trimmed("sys/block/" + bottom + "/device/model"); s != "" {
		d.Model = &s
	} else {
		r.null("model", "/sys/block/%s/device/model: not there (%s disks have none)", bottom, *d.Kind)
	}
}

// wholeDisk is the disk of a partition, or the name itself.
func (r *reader) wholeDisk(name string) string {
	for _, part := range r.Glob("sys/block/*/" + name) {
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
		if strings.TrimSpace(r.Trimmed("sys/block/"+name+"/device/vendor")) == "ATA" {
			return "sata"
		}
		return "scsi"
	}
	return "other"
}

// dir says whether a folder is there.
func (r *reader) dir(path string) (fs.FileInfo, error) {
	info, err := os.Stat(filepath.Join(string(r.Root), path))
	if err != nil {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, fmt.Errorf("/%s: %w", path, err)
	}
	return info, nil
}
