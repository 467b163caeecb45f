package serve

import (
	"net/http"
	"time"

	"assay/internal/engine"
	"assay/internal/engine/sample"
	"assay/internal/tokenizer"
)

func (s *Server) health(w http.ResponseWriter, _ *http.Request, _ *engine.Engine) {
	writeJSON(w, http.StatusOK, map[string]string{"status": "ok"})
}

type model struct {
	ID      string   `json:"id"`
	Aliases []string `json:"aliases"`
	Object  string   `json:"object"`
	Created int64    `json:"created"`
	OwnedBy string   `json:"owned_by"`
	Meta    struct {
		Vocabulary   int    `json:"n_vocab"`
		Context      int    `json:"n_ctx"`
		TrainContext int    `json:"n_ctx_train"`
		Embedding    int    `json:"n_embd"`
		Parameters   uint64 `json:"n_params"`
		Size         uint64 `json:"size"` // bytes
		FileType     string `json:"ftype"`
	} `json:"meta"`
}

func (s *Server) model(e *engine.Engine) model {
	info := e.Info()
	m := model{ID: s.modelID(), Aliases: []string{s.modelID()}, Object: "model", Created: time.Now().Unix(), OwnedBy: "assay"}
	m.Meta.Vocabulary = info.Vocabulary
	m.Meta.Context = e.Options().Context
	m.Meta.TrainContext = info.TrainContext
	m.Meta.Embedding = info.Embedding
	m.Meta.Parameters = info.Parameters
	m.Meta.Size = info.Bytes
	m.Meta.FileType = info.FileType
	return m
}

// models is GET /v1/models: the one model there is.
func (s *Server) models(w http.ResponseWriter, _ *http.Request, e *engine.Engine) {
	writeJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []model{s.model(e)}})
}

func (s *Server) modelByID(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	if id := r.PathValue("id"); id != s.modelID() {
		err := badField("model", "%q is not here (there is %q)", id, s.modelID())
		err.Type, err.Code = typeNotFound, http.StatusNotFound
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s.model(e))
}

// defaults are the settings of a request that names none.
type defaults struct {
	Seed             int     `json:"seed"` // -1: drawn for each request
	Temperature      float32 `json:"temperature"`
	TopK             int     `json:"top_k"`
	TopP             float32 `json:"top_p"`
	MinP             float32 `json:"min_p"`
	RepeatLastN      int     `json:"repeat_last_n"`
	RepeatPenalty    float32 `json:"repeat_penalty"`
	PresencePenalty  float32 `json:"presence_penalty"`
	FrequencyPenalty float32 `json:"frequency_penalty"`
	MaxTokens        int     `json:"max_tokens"`
	Predict          int     `json:"n_predict"`
	IgnoreEOS        bool    `json:"ignore_eos"`
	Stream           bool    `json:"stream"`
	TimingsPerToken  bool    `json:"timings_per_token"`
	Drafter          string  `json:"speculative.types"` // none: nothing is drafted
	Drafts           int     `json:"speculative.n_max"`
	DraftMinP        float32 `json:"speculative.p_min"`
}

type props struct {
	Defaults struct {
		Params  defaults `json:"params"`
		Context int      `json:"n_ctx"`
	} `json:"default_generation_settings"`
	Slots         int             `json:"total_slots"`
	Alias         string          `json:"model_alias"`
	FileType      string          `json:"model_ftype"`
	Path          string          `json:"model_path"`
	Modalities    map[string]bool `json:"modalities"`
	EndpointSlots bool            `json:"endpoint_slots"`
	EndpointProps bool            `json:"endpoint_props"` // POST, which changes them
	Metrics       bool            `json:"endpoint_metrics"`
	ChatTemplate  string          `json:"chat_template"`
	BOS           string          `json:"bos_token"`
	EOS           string          `json:"eos_token"`
	Build         string          `json:"build_info"`

	// Ours: requests that may wait for a slot, and what is kept of earlier prompts.
	Queue      int    `json:"queue_limit"`
	ReuseBytes int64  `json:"cache_ram_bytes"`
	ReuseDir   string `json:"cache_disk,omitempty"`

	Experts *expertProps `json:"experts,omitempty"` // ours too; only where they are read when they are wanted
}

// props is GET /props: what the server runs, and with which settings.
func (s *Server) props(w http.ResponseWriter, _ *http.Request, e *engine.Engine) {
	info, o, d := e.Info(), e.Options(), sample.Defaults()
	p := props{
		Slots: o.Slots, Alias: s.modelID(), FileType: info.FileType, Path: s.config.ModelPath,
		Modalities: map[string]bool{"vision": false, "video": false, "audio": false},
		Queue:      max(0, o.Queue), ReuseBytes: o.ReuseBytes, ReuseDir: o.ReuseDir,
		Experts:       newExpertProps(e),
		EndpointSlots: true, Metrics: true, Build: s.config.Build,
		BOS: special(e.Tokenizer(), e.Tokenizer().BOS), EOS: special(e.Tokenizer(), e.Tokenizer().EOS),
	}
	p.Defaults.Context = o.Context
	p.Defaults.Params = defaults{
		Seed: -1, Temperature: d.Temperature, TopK: d.TopK, TopP: d.TopP, MinP: d.MinP,
		RepeatLastN: d.RepeatLastN, RepeatPenalty: d.RepeatPenalty,
		PresencePenalty: d.PresencePenalty, FrequencyPenalty: d.FrequencyPenalty,
		MaxTokens: -1, Predict: -1,
		Drafter: "none", Drafts: o.Drafts, DraftMinP: o.DraftMinP,
	}
	if o.Drafter != "" {
		p.Defaults.Params.Drafter = o.Drafter
	}
	if t, err := e.Template(); err == nil { // a model without one serves /v1/completions
		p.ChatTemplate = t.Source()
	}
	writeJSON(w, http.StatusOK, p)
}

// special is the text of a token that a model may not have.
func special(t *tokenizer.Tokenizer, which func() (int32, bool)) string {
	id, ok := which()
	if !ok {
		return ""
	}
	return string(t.Piece(id))
}

type slot struct {
	ID         int  `json:"id"`
	Context    int  `json:"n_ctx"`
	Speculates bool `json:"speculative"`
	Processing bool `json:"is_processing"`

	// What llama-server tells too of a slot that is at work.
	Prompt *int         `json:"n_prompt_tokens,omitempty"`
	Read   *int         `json:"n_prompt_tokens_processed,omitempty"` // computed so far
	Cached *int         `json:"n_prompt_tokens_cache,omitempty"`
	Next   []slotDecode `json:"next_token,omitempty"`
}

type slotDecode struct {
	Decoded int `json:"n_decoded"`
}

// slots is GET /slots.
func (s *Server) slots(w http.ResponseWriter, _ *http.Request, e *engine.Engine) {
	states := e.SlotStates()
	out := make([]slot, len(states))
	for i, st := range states {
		out[i] = slot{ID: i, Context: e.Options().Context, Processing: st.Busy, Speculates: e.Options().Drafts > 0}
		if st.Busy {
			out[i].Prompt, out[i].Read, out[i].Cached = &st.Prompt, &st.Read, &st.Cached
			out[i].Next = []slotDecode{{st.Predicted}}
		}
	}
	writeJSON(w, http.StatusOK, out)
}

func (s *Server) serveMetrics(w http.ResponseWriter, r *http.Request, _ *engine.Engine) {
	s.metrics.handler.ServeHTTP(w, r)
}
