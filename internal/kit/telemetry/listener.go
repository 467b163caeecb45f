package telemetry

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// Listener finds the process that listens on a TCP port, by the tables below
// rootDir ("/" but in tests). That is how a target is known that was running
// before. One that only passes the port on to another place is no target.
func Listener(rootDir string, port int) (pid int, err error) {
	r := root(rootDir)
	var inodes []string
	var last error
	for _, table := range []string{"proc/net/tcp", "proc/net/tcp6"} {
		text, err := r.Read(table)
		if err != nil {
			last = err
			continue
		}
		inodes = append(inodes, listening(text, port)...)
	}
	if len(inodes) == 0 {
		if last != nil {
			return 0, fmt.Errorf("no process is known to listen on port %d: %w", port, last)
		}
		return 0, fmt.Errorf("no process of this host listens on port %d", port)
	}
	var owners []int
	hidden := 0
	for _, pid := range r.PIDs() {
		links, err := filepath.Glob(filepath.Join(string(r), "proc", strconv.Itoa(pid), "fd", "*"))
		if err == nil && len(links) == 0 {
			hidden++ // those of other users
		}
		for _, l := range links {
			to, err := os.Readlink(l)
			if inode, ok := strings.CutPrefix(to, "socket:["); err == nil && ok && slices.Contains(inodes, strings.TrimSuffix(inode, "]")) {
				owners = append(owners, pid)
				break
			}
		}
	}
	if len(owners) == 0 {
		return 0, fmt.Errorf("the process that listens on port %d is not to be seen: it is another user's or in another container (%d processes are hidden)", port, hidden)
	}
	// Several share the socket: a server and its workers. The first of them is the
	// one that the others descend from.
	all := r.Processes()
	pid = owners[0]
	for _, p := range owners {
		if !slices.Contains(owners, all[p].Parent) {
			pid = p
			break
		}
	}
	if name := all[pid].Name; slices.Contains(forwarders, name) {
		return 0, fmt.Errorf("%s listens on port %d and passes it on: the target runs elsewhere", name, port)
	}
	return pid, nil
}

// forwarders are programs that pass a port on to a container or another host, by
// the names that the kernel gives them (15 characters at most).
var forwarders = []string{"docker-proxy", "rootlessport", "slirp4netns", "pasta", "conmon", "ssh", "sshd", "socat", "kubectl"}

// listening finds the inodes of sockets that listen on a port in a table such as
// /proc/net/tcp: "0: 0100007F:1F90 00000000:0000 0A ... inode".
func listening(text string, port int) []string {
	const listen = "0A"
	var out []string
	for line := range strings.Lines(text) {
		f := strings.Fields(line)
		if len(f) < 10 || f[3] != listen {
			continue
		}
		_, hex, ok := cutLast(f[1], ":")
		n, err := strconv.ParseUint(hex, 16, 16)
		if ok && err == nil && int(n) == port && f[9] != "0" {
			out = append(out, f[9])
		}
	}
	return out
}
