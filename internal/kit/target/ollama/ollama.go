// Package ollama is the adapter for Ollama, asked by its own API: /api/chat, whose
// stream is a line of JSON a frame and whose last frame has counts, and times in
// nanoseconds. It loads models when they are asked for, with settings that come
// with each request, so the model is loaded before anything is measured.
//
// What it can't do: turn its prompt cache off, say what came from it, or generate
// past an end token.
package ollama

import (
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"assay/internal/kit/prompt"
	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
)

// Adapter is for Ollama.
type Adapter struct{ target.Base }

// Name is "ollama".
func (Adapter) Name() string { return "ollama" }

// Facts: eval_count has the end token in it, and the documented rate divides all of
// it by a time that begins with the first token.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:           "Ollama, by its own API",
		EndTokenCounted: new(true),
		DecodeBasis:     "n",
		Exactly:         "can't be: num_predict is only a cap, and nothing bars the end token; it also ends a stream, without its last frame, after more than 30 equal tokens",
		CacheOff:        "can't be turned off: only the nonce at the start keeps prefixes apart. What came from it is told by the log from 0.30 on, and not at all before; there the kit also keeps llama-server's second cache off (LLAMA_ARG_CACHE_RAM=0)",
		Counts:          []string{"eval_count", "log (from 0.30 on)", "the text, by the tokenizer of the model's file"},
	}
}

// Endpoint is its own for chats.
func (Adapter) Endpoint() string { return chatPath }

const (
	chatPath     = "/api/chat"
	generatePath = "/api/generate"
)

// Recognise knows it by its version's path. KoboldCpp answers there too.
func (Adapter) Recognise(p *target.Probe) bool {
	var v struct {
		Version *string `json:"version"`
	}
	return p.Object("/api/version", &v) == nil && v.Version != nil && p.Text("/api/extra/version") == ""
}

// Further asks for the models that are there and loaded, and for the one that is
// measured.
func (Adapter) Further(model string) []target.Question {
	return []target.Question{
		{Path: "/api/tags"},
		{Path: "/api/ps"},
		{Method: http.MethodPost, Path: "/api/show", Body: map[string]any{"model": model}},
	}
}

// Prepare loads the model with the settings that the runs will have: another one
// would load it anew, from 0.30 on another "shift" too.
func (Adapter) Prepare(s target.Settings, model string) (target.Question, error) {
	if model == "" {
		return target.Question{}, errors.New("it has no model: pull or create one")
	}
	return target.Question{Method: http.MethodPost, Path: generatePath, Body: map[string]any{
		"model": model, "keep_alive": keepAlive, "stream": false, "shift": false, "options": pinned(s.Context, s.Threads, s.GPULayers),
	}}, nil
}

// keepAlive is how long the model stays loaded after a request: longer than any
// wait between two runs, and not for ever, for the server may be someone's.
const keepAlive = "1h"

// pinned are the options that the model is loaded with.
func pinned(context int, threads, layers *int) map[string]any {
	o := map[string]any{}
	target.Set(o, "num_ctx", target.Positive(context))
	target.Set(o, "num_thread", threads)
	target.Set(o, "num_gpu", layers)
	return o
}

// Body is a request of /api/chat. The prompt must fit as it is: where the version
// knows "truncate" and "shift" it then answers with an error instead of cutting.
func (Adapter) Body(a target.Ask, model string) map[string]any {
	o := pinned(a.Context, a.Threads, a.GPULayers)
	o["num_predict"] = a.MaxTokens
	target.Set(o, "temperature", a.Temperature)
	target.Set(o, "seed", a.Seed)
	target.Set(o, "top_k", a.TopK)
	target.Set(o, "top_p", a.TopP)
	target.Set(o, "min_p", a.MinP)
	target.Set(o, "repeat_penalty", a.RepeatPenalty)
	target.Set(o, "presence_penalty", a.PresencePenalty)
	target.Set(o, "frequency_penalty", a.FrequencyPenalty)
	body := map[string]any{
		"model":      model,
		"messages":   append(slices.Clone(a.Before), prompt.Message{Role: "user", Content: a.Prompt}),
		"stream":     true,
		"keep_alive": keepAlive,
		"truncate":   false,
		"shift":      false,
		"options":    o,
	}
	switch a.Reasoning {
	case "on", "off":
		body["think"] = a.Reasoning == "on"
	case "low", "medium", "high":
		body["think"] = a.Reasoning
	}
	return body
}

// Command is ollama serve. It is told by its environment: one request at a time,
// one model, which stays.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	program := s.Program
	if len(program) == 0 {
		program = []string{"ollama"}
	}
	env := []string{
		"OLLAMA_HOST=127.0.0.1:" + strconv.Itoa(s.Port),
		"OLLAMA_NUM_PARALLEL=1",
		"OLLAMA_MAX_LOADED_MODELS=1",
		"OLLAMA_KEEP_ALIVE=" + keepAlive,
		"OLLAMA_NOPRUNE=1",
		"LLAMA_ARG_CACHE_RAM=0", // for the llama-server that it runs from 0.30 on
	}
	if s.Context > 0 {
		env = append(env, "OLLAMA_CONTEXT_LENGTH="+strconv.Itoa(s.Context))
	}
	argv := append(append([]string(nil), program...), "serve")
	return target.Command{Argv: append(argv, s.Args...), Env: env}, nil
}

// listening is how it names its address.
var listening = regexp.MustCompile(`Listening on (?:https?://)?([^\s"\\]+:\d+)`)

// Readiness: the server is there at once, and no model with it; Prepare loads that.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Address: listening, Path: "/api/version"}
}

// model is what /api/show, /api/ps and /api/tags say of one.
type model struct {
	Name    string `json:"name"`
	Model   string `json:"model"`
	Digest  string `json:"digest"`
	Context int    `json:"context_length"`
	Details struct {
		Quant string `json:"quantization_level"`
	} `json:"details"`
	Modelfile string `json:"modelfile"`
}

type models struct {
	Models []model `json:"models"`
}

func (m *models) find(name string) *model {
	for i := range m.Models {
		if it := &m.Models[i]; it.Name == name || it.Model == name || it.Name == name+":latest" {
			return it
		}
	}
	return nil
}

// Identify reads the version and what is said of the model.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := target.Identity{Engine: "ollama", Model: p.FirstModel(), Found: map[string]string{}, Why: map[string]string{
		"commit": "the API names a version and no commit, neither its own nor that of the llama.cpp within",
	}}
	var v struct {
		Version string `json:"version"`
	}
	if err := p.Object("/api/version", &v); err != nil {
		id.Why["version"] = err.Error()
	} else if id.Version = target.NonEmpty(v.Version); id.Version == nil {
		id.Why["version"] = "/api/version does not say it"
	} else {
		id.Found["version"] = v.Version
	}
	var shown model
	if err := p.Object("/api/show", &shown); err != nil {
		id.Why["format"] = err.Error()
	} else if id.Format = target.NonEmpty(shown.Details.Quant); id.Format == nil {
		id.Why["format"] = "/api/show does not say it"
	}
	if m := from.FindStringSubmatch(shown.Modelfile); m != nil {
		id.Found["model_file"] = m[1]
	}
	identifyLoaded(p, &id)
	if m := parallel.FindStringSubmatch(string(p.Log)); m != nil {
		n, _ := strconv.Atoi(m[1])
		id.Slots = target.Positive(n)
	}
	if id.Slots == nil {
		id.Why["slots"] = "OLLAMA_NUM_PARALLEL, which only the log of its start tells"
	}
	return id
}

// from is the file of the weights in a model's description; its name ends in its
// sha256.
var from = regexp.MustCompile(`(?m)^FROM (\S+)$`)

var parallel = regexp.MustCompile(`OLLAMA_NUM_PARALLEL:(\d+)`)

// identifyLoaded reads how the model is loaded, and what it is called exactly.
func identifyLoaded(p *target.Probe, id *target.Identity) {
	var tags, loaded models
	if err := p.Object("/api/tags", &tags); err == nil {
		if m := tags.find(id.Model); m != nil {
			id.Found["digest"] = m.Digest
		}
	}
	switch err := p.Object("/api/ps", &loaded); {
	case err != nil:
		id.Why["context"] = err.Error()
	case len(loaded.Models) == 0:
		id.Why["context"] = "no model is loaded"
	default:
		m := loaded.find(id.Model)
		if m == nil {
			id.Why["context"] = fmt.Sprintf("the model is not loaded; %s is", loaded.Models[0].Name)
		} else if id.Context = target.Positive(m.Context); id.Context == nil {
			id.Why["context"] = "/api/ps does not say it"
		}
	}
}

// ReadThreads finds the threads that the last model was loaded with.
func (Adapter) ReadThreads(log []byte) (target.Threads, error) {
	all := threads.FindAllSubmatch(log, -1)
	if len(all) == 0 {
		t, err := llamaserver.Adapter{}.ReadThreads(log)
		if err != nil {
			return t, errors.New("no NumThreads or n_threads in the log")
		}
		return t, nil
	}
	g := target.Groups(all[len(all)-1])
	t := target.Threads{HostThread: new(true), Line: strings.TrimSpace(g.Text(0))}
	if n := g.Int(1); n != nil && *n > 0 {
		t.Workers = new(*n - 1) // the thread that calls is one of them
	}
	return t, nil
}

var threads = regexp.MustCompile(`(?m)^.*Operation:commit.*\bNumThreads:(\d+).*$`)
