package llamaserver

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/kit/target"
)

// Identify reads /props and /v1/models.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := Identify(p, "llama-server")
	id.Found = map[string]string{}
	var pr props
	if p.Object("/props", &pr) == nil {
		id.Found["slots"] = strconv.Itoa(pr.TotalSlots)
		if pr.TotalSlots > 1 {
			id.Found["slots"] += ": the context may be shared between them"
		}
	}
	if p.Log != nil {
		id.Found["cache_ram"] = cacheRAM(Text(p.Log))
	}
	if v := strings.TrimSpace(p.Version); v != "" {
		id.Found["version"], _, _ = strings.Cut(v, "\n")
	}
	if n := DraftWindow(p); n > 0 {
		id.Found[target.DraftWindow] = strconv.Itoa(n)
	}
	return id
}

// DraftWindow is how many tokens the server drafts a round at most, by /props; 0
// where it drafts none, or does not say.
func DraftWindow(p *target.Probe) int {
	var pr struct {
		Defaults struct {
			Params struct {
				Types string   `json:"speculative.types"`
				Most  *float64 `json:"speculative.n_max"`
			} `json:"params"`
		} `json:"default_generation_settings"`
	}
	if p.Object("/props", &pr) != nil {
		return 0
	}
	switch q := &pr.Defaults.Params; {
	case q.Types == "" || q.Types == "none" || q.Most == nil:
		return 0
	default:
		return max(0, int(min(*q.Most, maxPositions)))
	}
}

// cacheRAM says what a log tells of the cache of prompts in memory.
func cacheRAM(log []byte) string {
	if line := ramCacheOff.Find(log); line != nil {
		return "off, as the log says: " + strings.TrimSpace(string(line))
	}
	if line := ramCacheOn.Find(log); line != nil {
		return "on, as the log says: " + strings.TrimSpace(string(line))
	}
	return "not known: the log does not say it"
}

// Identify reads /props and /v1/models of a server that has them in llama-server's
// form.
func Identify(p *target.Probe, engine string) target.Identity {
	id := target.Identity{Engine: engine, Why: map[string]string{}}
	var m models
	if err := p.Object("/v1/models", &m); err == nil && len(m.Data) > 0 {
		id.Model = m.Data[0].ID
		if meta := m.Data[0].Meta; meta != nil {
			id.Format = target.NonEmpty(meta.Ftype)
			id.Context = target.Positive(meta.NCtx)
		}
	}
	var pr props
	if err := p.Object("/props", &pr); err != nil {
		id.Why["version"], id.Why["commit"], id.Why["slots"] = err.Error(), err.Error(), err.Error()
	} else {
		id.Slots = target.Positive(pr.TotalSlots)
		if f := target.NonEmpty(pr.ModelFtype); f != nil {
			id.Format = f
		}
		if c := target.Positive(pr.Defaults.NCtx); c != nil {
			id.Context = c
		}
		id.Version = target.NonEmpty(pr.BuildInfo)
		var err error
		if id.Commit, err = commitOf(pr.BuildInfo); err != nil {
			id.Why["commit"] = err.Error()
		}
	}
	for name, missing := range map[string]bool{"version": id.Version == nil, "slots": id.Slots == nil, "format": id.Format == nil, "context": id.Context == nil} {
		if missing && id.Why[name] == "" {
			id.Why[name] = "neither /props nor /v1/models says it"
		}
	}
	return id
}

// build is what /props calls build_info: a number and a commit. A checkout
// without history counts one commit, whose hash is its own and not upstream's.
var build = regexp.MustCompile(`(?:^|[^0-9a-z])b(\d+)-([0-9a-f]{7,40})$`)

func commitOf(info string) (*string, error) {
	m := build.FindStringSubmatch(info)
	switch {
	case info == "":
		return nil, errors.New("/props has no build_info")
	case m == nil:
		return nil, fmt.Errorf("build_info %q does not end in b<number>-<commit>", info)
	case m[1] == "0" || m[1] == "1":
		return nil, fmt.Errorf("build_info %q: built from a checkout without history, so the hash may not be upstream's", info)
	}
	return &m[2], nil
}

// Objection: a router has no model of its own. It is ready at once, and loads a
// model for the request that names it: that would be the first thing measured.
func (Adapter) Objection(p *target.Probe, model string) error {
	var pr props
	if p.Object("/props", &pr) != nil || pr.Role != "router" {
		return nil
	}
	var m models
	_ = p.Object("/v1/models", &m) // without it there are no names to choose from
	names := []string{}
	for _, d := range m.Data {
		names = append(names, d.ID)
		if model != "" && d.ID == model {
			return errors.New("this llama-server is a router: a model runs in a process of its own, whose context, log and /metrics are not this server's; measure that process, or start llama-server with -m FILE")
		}
	}
	list := "it lists none"
	if len(names) > 0 {
		list = "it lists " + strings.Join(names[:min(len(names), 8)], ", ")
	}
	return fmt.Errorf("this llama-server runs as a router without a model of its own (it was started without -m; %s): start it with -m FILE", list)
}

// models is the part of /v1/models that is the same everywhere, and what
// llama-server adds.
type models struct {
	Data []struct {
		ID      string `json:"id"`
		OwnedBy string `json:"owned_by"`
		Meta    *struct {
			Ftype string `json:"ftype"`
			NCtx  int    `json:"n_ctx"`
		} `json:"meta"`
	} `json:"data"`
}

// props is the part of llama-server's /props that is used here. Our own server
// gives the same.
type props struct {
	Role       string `json:"role"`
	BuildInfo  string `json:"build_info"`
	ModelPath  string `json:"model_path"`
	ModelAlias string `json:"model_alias"`
	ModelFtype string `json:"model_ftype"`
	TotalSlots int    `json:"total_slots"`
	Defaults   struct {
		NCtx int `json:"n_ctx"`
	} `json:"default_generation_settings"`
}
