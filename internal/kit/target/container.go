package target

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// containerPrograms start containers in the foreground by "run".
var containerPrograms = []string{"docker", "podman", "nerdctl"}

// container is a target in a container. What the kit starts is only a client: the
// engine is another process's child, outlives the client, and is stopped by the
// program that started it.
type container struct {
	program string // path
	idFile  string // gets the container's name
	pid     int    // of its first process on this machine; 0: not known
}

// cidExt ends the name of the file beside the log that holds a container's name; the
// program's name comes before it.
const cidExt = ".cid"

// contain looks whether a command line starts a container, and makes it tell the
// container's name. The container is nil where it starts none.
func contain(argv []string, log string) ([]string, *container, error) {
	name := filepath.Base(argv[0])
	run := slices.Index(argv, "run")
	if !slices.Contains(containerPrograms, name) || run < 0 {
		return argv, nil, nil
	}
	for _, arg := range argv[run+1:] {
		switch {
		case arg == "-d" || arg == "--detach" || arg == "--detach=true":
			return nil, nil, fmt.Errorf("%s run %s: the container's end and its log would not be seen (leave %s out)", name, arg, arg)
		case arg == "--cidfile" || strings.HasPrefix(arg, "--cidfile="):
			return nil, nil, fmt.Errorf("%s run --cidfile: the kit keeps that file itself (leave it out)", name)
		}
	}
	program, err := exec.LookPath(argv[0])
	if err != nil {
		return nil, nil, err
	}
	c := &container{program: program, idFile: log + "." + name + cidExt}
	if err := os.Remove(c.idFile); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, nil, err
	}
	return slices.Insert(slices.Clone(argv), run+1, "--cidfile", c.idFile), c, nil
}

// removal is the command that removes the container, if there is one, and its file.
func (c *container) removal() []string {
	const script = `test ! -s "$2" || "$1" rm -f "$(cat "$2")" >/dev/null 2>&1; rm -f "$2"`
	return []string{"/bin/sh", "-c", script, "sh", c.program, c.idFile}
}

// find asks for the container's first process on this machine.
func (c *container) find(environ []string) {
	id, err := os.ReadFile(c.idFile)
	if err != nil {
		return
	}
	cmd := exec.Command(c.program, "inspect", "--format", "{{.State.Pid}}", strings.TrimSpace(string(id)))
	cmd.Env = environ
	if out, err := cmd.Output(); err == nil {
		c.pid, _ = strconv.Atoi(strings.TrimSpace(string(out)))
	}
}

// reapContainers removes the containers whose keeper and kit were both killed.
func reapContainers(dir string) error {
	files, err := filepath.Glob(filepath.Join(escapeGlob.Replace(dir), "*"+cidExt))
	for _, file := range files {
		name := filepath.Ext(strings.TrimSuffix(file, cidExt))
		program, e := exec.LookPath(strings.TrimPrefix(name, "."))
		if e != nil {
			err = errors.Join(err, fmt.Errorf("%s names a container that may still run: %w", file, e))
			continue
		}
		argv := (&container{program: program, idFile: file}).removal()
		if out, e := exec.Command(argv[0], argv[1:]...).CombinedOutput(); e != nil {
			err = errors.Join(err, fmt.Errorf("removing the container of %s: %w: %s", file, e, out))
		}
	}
	return err
}
