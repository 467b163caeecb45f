package catalog

import (
	"cmp"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// huggingFace reads the hub's cache: a folder models--ORG--REPO a repository, in it
// refs/BRANCH with the commit of a branch, and snapshots/COMMIT with the files, as
// links into blobs. A snapshot has only what was fetched of it, so a file may be in
// an older one only: that of main comes first, then the newest.
func (r *reader) huggingFace() {
	for _, n := range r.folder(r.place.Dir) {
		repo, ok := strings.CutPrefix(n, "models--")
		if !ok || repo == "" {
			continue
		}
		files := map[string]file{}
		for _, snapshot := range r.snapshots(filepath.Join(r.place.Dir, n)) {
			r.files(snapshot, func(rel string, size int64) {
				if _, there := files[rel]; !there && isGGUF(rel) {
					files[rel] = file{filepath.Join(snapshot, filepath.FromSlash(rel)), size}
				}
			})
		}
		r.repository(strings.ReplaceAll(repo, "--", "/"), files)
	}
}

// snapshots are a repository's, the one to prefer first.
func (r *reader) snapshots(repo string) []string {
	main := ""
	if data, err := readSmall(filepath.Join(repo, "refs", "main")); err == nil {
		main = strings.TrimSpace(string(data))
	} else if !errors.Is(err, fs.ErrNotExist) {
		r.problem("%v", err)
	}
	type snapshot struct {
		dir  string
		main bool
		when int64
	}
	var all []snapshot
	for _, n := range r.folder(filepath.Join(repo, "snapshots")) {
		s := snapshot{dir: filepath.Join(repo, "snapshots", n), main: n == main}
		if info, err := os.Stat(s.dir); err == nil && info.IsDir() {
			s.when = info.ModTime().UnixNano()
			all = append(all, s)
		}
	}
	slices.SortStableFunc(all, func(a, b snapshot) int {
		if a.main != b.main {
			if a.main {
				return -1
			}
			return 1
		}
		return cmp.Compare(b.when, a.when)
	})
	var out []string
	for _, s := range all {
		out = append(out, s.dir)
	}
	return out
}

// lmStudio reads LM Studio's folder: PUBLISHER/MODEL/FILE.gguf.
func (r *reader) lmStudio() {
	repos := map[string]map[string]file{}
	r.files(r.place.Dir, func(rel string, size int64) {
		if !isGGUF(rel) {
			return
		}
		repo, rest := ".", rel
		if parts := strings.SplitN(rel, "/", 3); len(parts) == 3 {
			repo, rest = parts[0]+"/"+parts[1], parts[2]
		}
		if repos[repo] == nil {
			repos[repo] = map[string]file{}
		}
		repos[repo][rest] = file{filepath.Join(r.place.Dir, filepath.FromSlash(rel)), size}
	})
	for _, repo := range sortedKeys(repos) {
		if repo == "." {
			r.loose(repos[repo])
		} else {
			r.repository(repo, repos[repo])
		}
	}
}

// loose adds files that belong to no repository.
func (r *reader) loose(files map[string]file) {
	from := len(r.catalog.Models)
	r.repository(".", files)
	for i := from; i < len(r.catalog.Models); i++ {
		m := &r.catalog.Models[i]
		m.Name, m.others = strings.TrimPrefix(m.Name, "./"), nil
	}
}

// llamaCpp reads the flat cache that llama.cpp had before it took to the hub's own:
// ORG_REPO_FILE.gguf, and manifest=ORG=REPO=TAG.json, which says of what a tag is.
func (r *reader) llamaCpp() {
	files := map[string]file{}
	var manifests []string
	for _, n := range r.folder(r.place.Dir) {
		path := filepath.Join(r.place.Dir, n)
		switch info, err := os.Stat(path); {
		case err != nil:
			r.problem("%v", err)
		case strings.HasPrefix(n, "manifest="):
			manifests = append(manifests, n)
		case isGGUF(n) && info.Mode().IsRegular():
			files[n] = file{path, info.Size()}
		}
	}
	from := len(r.catalog.Models)
	r.loose(files)
	for _, n := range manifests {
		parts := strings.Split(strings.TrimSuffix(n, ".json"), "=")
		if len(parts) != 4 {
			continue
		}
		var m struct {
			GGUF struct {
				File string `json:"rfilename"`
			} `json:"ggufFile"`
		}
		if !r.manifest(filepath.Join(r.place.Dir, n), &m) || m.GGUF.File == "" {
			continue
		}
		repo := parts[1] + "/" + parts[2]
		flat := strings.NewReplacer("/", "_", `\`, "_").Replace(repo + "_" + m.GGUF.File)
		for i := from; i < len(r.catalog.Models); i++ {
			if model := &r.catalog.Models[i]; model.Name == flat {
				model.others = append(model.others, repo+":"+parts[3], repo)
				break
			}
		}
	}
}

// manifest decodes a small JSON file.
func (r *reader) manifest(path string, into any) bool {
	data, err := readSmall(path)
	if err != nil {
		r.problem("%v", err)
		return false
	}
	if err := json.Unmarshal(data, into); err != nil {
		r.problem("%s: %v", path, err)
		return false
	}
	return true
}

// modelLayer is the media type of the layer of a manifest that is a GGUF file.
const modelLayer = "application/vnd.ollama.image.model"

// ollama reads Ollama's store: manifests/HOST/NAMESPACE/NAME/TAG lists layers, of
// which one is the model, in blobs/sha256-HASH.
func (r *reader) ollama() {
	root := filepath.Join(r.place.Dir, "manifests")
	tags := map[string][]string{}
	var manifests []string
	r.files(root, func(rel string, _ int64) {
		parts := strings.Split(rel, "/")
		if len(parts) == 4 {
			manifests = append(manifests, rel)
			of := strings.Join(parts[:3], "/")
			tags[of] = append(tags[of], parts[3])
		}
	})
	slices.Sort(manifests)
	for _, rel := range manifests {
		path := filepath.Join(root, filepath.FromSlash(rel))
		var m struct {
			Layers []struct {
				MediaType string `json:"mediaType"`
				Digest    string `json:"digest"`
			} `json:"layers"`
		}
		if !r.manifest(path, &m) {
			continue
		}
		blob, found := "", false
		for _, l := range m.Layers {
			if l.MediaType == modelLayer && !found {
				found, blob = true, r.blob(l.Digest)
			}
		}
		if !found {
			r.problem("%s: it lists no GGUF file (a model that runs elsewhere, or of another format)", path)
			continue
		}
		if blob == "" {
			r.problem("%s: its model's digest is not sha256: and 64 hex digits", path)
			continue
		}
		info, err := os.Stat(blob)
		if err == nil && !info.Mode().IsRegular() {
			err = errors.New(blob + ": not a regular file")
		}
		if err != nil {
			r.problem("%s: its model: %v", path, err)
			continue
		}
		parts := strings.Split(rel, "/")
		long := strings.Join(parts[:3], "/")
		short := strings.TrimPrefix(strings.TrimPrefix(long, "registry.ollama.ai/"), "library/")
		model := Model{Name: short + ":" + parts[3], Store: Ollama, Path: blob, Files: []string{blob}, Bytes: info.Size()}
		model.others = []string{long + ":" + parts[3]}
		if of := tags[long]; parts[3] == "latest" || len(of) == 1 {
			model.others = append(model.others, short, long)
		}
		r.add(model)
	}
}

// blob is the file of a digest; empty where it is none, as one with a path in it.
func (r *reader) blob(digest string) string {
	sum, ok := strings.CutPrefix(digest, "sha256:")
	if raw, err := hex.DecodeString(sum); !ok || err != nil || len(raw) != 32 {
		return ""
	}
	return filepath.Join(r.place.Dir, "blobs", "sha256-"+strings.ToLower(sum))
}
