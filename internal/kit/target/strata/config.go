package strata

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"assay/internal/kit/target"
)

// config is the part of a configuration file that is used here.
type config struct {
	Args []string `json:"args"` // of the engine
	Cwd  string   `json:"cwd"`  // that the engine runs in
	Log  string   `json:"log"`  // gets the engine's stderr
}

// maxConfig bounds a configuration file; real ones have a kilobyte or two.
const maxConfig = 1 << 20

func readConfig(path string) (*config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	if info.Size() > maxConfig {
		return nil, fmt.Errorf("the configuration %s has %d bytes: no such file is larger than %d", path, info.Size(), maxConfig)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("the configuration: %w", err)
	}
	c := new(config)
	if err := json.Unmarshal(data, c); err != nil {
		return nil, fmt.Errorf("the configuration %s: %w (want JSON with \"args\", \"log\")", path, err)
	}
	return c, nil
}

// value is what the engine's arguments give a flag; the last one counts.
func (c *config) value(flag string) (string, bool) {
	s := target.Settings{Args: c.Args}
	return s.Value(flag)
}

// holds says what of the settings the configuration does not have.
func (c *config) holds(file string, s target.Settings) error {
	if s.Threads != nil {
		return fmt.Errorf("threads: %s has the engine's arguments, so its threads are set there", file)
	}
	if s.GPULayers != nil {
		return fmt.Errorf("GPU layers: %s has the engine's arguments (--expert-cache and the like), so they are set there", file)
	}
	text, ok := c.value("--max-context")
	if !ok || s.Context == 0 {
		return nil
	}
	have, err := strconv.Atoi(text)
	if err != nil {
		return fmt.Errorf("%s: args: --max-context %q is not a number", file, text)
	}
	if have < s.Context {
		return fmt.Errorf("%s: args: --max-context %d, but %d positions are needed: raise it, or ask for less", file, have, s.Context)
	}
	return nil
}

// logFile is where the engine's log goes; empty: to the server's output.
func (c *config) logFile() string { return c.path(c.Log) }

// path is a file of the configuration as seen from here.
func (c *config) path(name string) string {
	if name == "" || filepath.IsAbs(name) || c.Cwd == "" {
		return name
	}
	return filepath.Join(c.Cwd, name)
}

// models are the model's files that the arguments name.
func (c *config) models() []string {
	var out []string
	for _, flag := range []string{"--native", "--ple-gguf"} {
		if v, ok := c.value(flag); ok && !strings.HasPrefix(v, "-") {
			out = append(out, c.path(v))
		}
	}
	return out
}
