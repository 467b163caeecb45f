// Package catalog finds the GGUF models that other programs keep on this machine:
// the cache of Hugging Face's hub, LM Studio's folder, llama.cpp's cache and
// Ollama's store, each in the layout that its program writes. It gives them names,
// by which a user can ask for a model instead of a path.
//
// The folders belong to other programs, and anybody may have put anything there.
// So links are followed only so far, what is read of a manifest is bounded, and a
// folder that can't be read, a link that leads nowhere or a name that would spoil a
// terminal is a [Problem] beside the models, never an error that hides the others.
// Nothing is ever written, fetched, or opened that is not a regular file.
package catalog

import (
	"cmp"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Store is a program whose models are looked for. Its value stands before a colon
// in a name that says where to look: "ollama:qwen3".
type Store string

// The stores that are known.
const (
	HuggingFace Store = "hf"
	LMStudio    Store = "lmstudio"
	LlamaCpp    Store = "llama.cpp"
	Ollama      Store = "ollama"
)

// Place is a folder in which a store keeps its models.
type Place struct {
	Store Store  `json:"store"`
	Dir   string `json:"dir"`
}

// Places are the folders where the stores keep models on this machine, in the order
// in which they are searched. The environment moves them, as it does for the
// programs themselves: HF_HUB_CACHE, HF_HOME, LLAMA_CACHE, OLLAMA_MODELS,
// XDG_CACHE_HOME and HOME. They need not exist.
func Places(getenv func(string) string) []Place { return places(getenv, runtime.GOOS) }

func places(getenv func(string) string, system string) []Place {
	home := cmp.Or(getenv("HOME"), getenv("USERPROFILE"))
	in := func(base string, more ...string) string {
		if base == "" {
			return ""
		}
		return filepath.Join(append([]string{base}, more...)...)
	}
	cache := cmp.Or(getenv("XDG_CACHE_HOME"), in(home, ".cache"))
	llamaCache := cache
	if system == "darwin" {
		llamaCache = in(home, "Library", "Caches")
	}
	studio := in(home, ".lmstudio")
	if moved := readPointer(in(home, ".lmstudio-home-pointer")); moved != "" {
		studio = moved
	}
	all := []Place{
		{HuggingFace, cmp.Or(getenv("HF_HUB_CACHE"), getenv("HUGGINGFACE_HUB_CACHE"), in(getenv("HF_HOME"), "hub"), in(cache, "huggingface", "hub"))},
		{LMStudio, in(studio, "models")},
		{LMStudio, in(home, ".cache", "lm-studio", "models")}, // before 0.3
		{LlamaCpp, cmp.Or(getenv("LLAMA_CACHE"), in(llamaCache, "llama.cpp"))},
		{Ollama, cmp.Or(getenv("OLLAMA_MODELS"), in(home, ".ollama", "models"))},
	}
	if system == "linux" && getenv("OLLAMA_MODELS") == "" {
		all = append(all, Place{Ollama, "/usr/share/ollama/.ollama/models"}) // of its service
	}
	return slices.DeleteFunc(all, func(p Place) bool { return p.Dir == "" || !filepath.IsAbs(p.Dir) })
}

// Model is a model that was found.
type Model struct {
	Name  string   `json:"name"` // that Find knows it by; printable
	Store Store    `json:"store"`
	Path  string   `json:"path"`  // the file to open; of a split model the first
	Files []string `json:"files"` // all of them, in order
	Bytes int64    `json:"bytes"` // of all files
	// Projector says that it is the part of another model that reads pictures or
	// sound: nobody means it by a repository's name.
	Projector bool `json:"projector"`

	others []string // names that may mean other models as well
}

// Problem is what was met on the way and is no model.
type Problem struct {
	Store Store  `json:"store"`
	What  string `json:"what"` // names the file or folder, quoted where it has to be
}

// Catalog is what was found.
type Catalog struct {
	Models   []Model   // by store, then by name
	Problems []Problem // in the order in which they were met
}

// maxProblems bounds the list of what went wrong.
const maxProblems = 100

// Read looks through places. A place that does not exist holds nothing.
func Read(places []Place) *Catalog {
	c := &Catalog{}
	for _, p := range places {
		r := reader{catalog: c, place: p, left: maxNodes, seen: map[string]bool{}}
		from := len(c.Models)
		switch p.Store {
		case HuggingFace:
			r.huggingFace()
		case LMStudio:
			r.lmStudio()
		case LlamaCpp:
			r.llamaCpp()
		case Ollama:
			r.ollama()
		}
		found := c.Models[from:]
		name(found)
		slices.SortStableFunc(found, func(a, b Model) int { return strings.Compare(a.Name, b.Name) })
	}
	return c
}

// name gives each model of a store that comes from a repository its shortest name
// that no other one there has: org/repo:LABEL, else the file's path in the
// repository, which stays one that finds it.
func name(models []Model) {
	times := map[string]int{}
	for _, m := range models {
		if len(m.others) > 0 {
			times[strings.ToLower(m.others[0])]++
		}
	}
	for i := range models {
		m := &models[i]
		if len(m.others) == 0 || m.Projector || m.Store == Ollama {
			continue
		}
		if short := m.others[0]; short != "" && times[strings.ToLower(short)] == 1 {
			m.Name, m.others[0] = short, m.Name
		}
	}
}

// Find is the model that name means: a name that Read gave, a repository (if one
// model only is there), a file's name with or without .gguf, for Ollama a name
// without the tag latest. Upper and lower case are the same. With a store and a
// colon before it, only that store's are looked at. The error says what there is to
// choose from.
func (c *Catalog) Find(name string) (Model, error) {
	among, bare := c.Models, name
	if store, rest, ok := strings.Cut(name, ":"); ok && isStore(store) {
		bare = rest
		among = slices.DeleteFunc(slices.Clone(among), func(m Model) bool { return string(m.Store) != store })
	}
	var found []Model
	for _, m := range among {
		if strings.EqualFold(m.Name, bare) {
			found = append(found, m)
		}
	}
	if len(found) == 0 {
		for _, m := range among {
			if m.called(bare) {
				found = append(found, m)
			}
		}
	}
	found = onePerFile(found)
	switch {
	case len(found) == 1:
		return found[0], nil
	case len(found) == 0:
		return Model{}, &NotFoundError{Name: name, Known: len(c.Models), Problems: len(c.Problems)}
	}
	const shown = 8
	var names []string
	for _, m := range found {
		n := string(m.Store) + ":" + m.Name
		if slices.Contains(names, n) {
			n = m.Path
		}
		names = append(names, n)
	}
	if n := len(names); n > shown {
		names = append(names[:shown], fmt.Sprintf("and %d more", n-shown))
	}
	return Model{}, fmt.Errorf("%q could be each of %d models: %s", name, len(found), strings.Join(names, ", "))
}

// NotFoundError says that no store has a model of a name.
type NotFoundError struct {
	Name     string
	Known    int // models that the stores have
	Problems int // that were met on the way
}

func (e *NotFoundError) Error() string {
	return fmt.Sprintf("no store here has a model called %q (%d models seen)", e.Name, e.Known)
}

func isStore(s string) bool {
	return slices.Contains([]Store{HuggingFace, LMStudio, LlamaCpp, Ollama}, Store(s))
}

func (m *Model) called(name string) bool {
	base := filepath.Base(m.Path)
	for i, other := range append([]string{base, strings.TrimSuffix(base, filepath.Ext(base))}, m.others...) {
		if i < 2 && m.Store == Ollama {
			continue // a hash
		}
		if other != "" && strings.EqualFold(other, name) {
			return i < 2 || !m.Projector
		}
	}
	return false
}

// onePerFile drops models whose file is one that came before, by another way.
func onePerFile(models []Model) []Model {
	var out []Model
	files := map[string]bool{}
	for _, m := range models {
		real, err := filepath.EvalSymlinks(m.Path)
		if err != nil {
			real = m.Path
		}
		if !files[real] {
			files[real] = true
			out = append(out, m)
		}
	}
	return out
}
