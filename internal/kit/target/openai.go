package target

import (
	"encoding/json"
	"strings"
)

// openAI is any server with OpenAI's API of which nothing more is known. What
// it does not say stays unknown.
type openAI struct{}

func (openAI) Name() string { return "openai" }

func (openAI) Recognise(*Probe) bool { return true }

func (openAI) Identify(p *Probe) Identity {
	id := Identity{Engine: "openai", Why: map[string]string{}}
	var m models
	if err := p.object("/v1/models", &m); err == nil && len(m.Data) > 0 {
		id.Model = m.Data[0].ID
	}
	for _, name := range []string{"version", "commit", "format", "context", "slots"} {
		id.Why[name] = "OpenAI's API does not say it"
	}
	var v struct {
		Version string `json:"version"`
	}
	if p.object("/version", &v) == nil && v.Version != "" {
		id.Version = &v.Version
		delete(id.Why, "version")
	}
	return id
}

// Fields: ignore_eos is what vLLM, SGLang and TabbyAPI call it. Others refuse
// it, which one request finds out, or ignore it, which a short row shows.
func (openAI) Fields(a Ask) map[string]any {
	if !a.IgnoreEOS {
		return nil
	}
	return map[string]any{"ignore_eos": true}
}

func (openAI) TokenizeForms() []TokenizeForm { return []TokenizeForm{llamaForm, vllmForm} }

func (openAI) Template() bool { return false }

func (openAI) Counters() CounterNames { return CounterNames{} }

func (openAI) ReadLog([]byte) (LogRecord, error) {
	return LogRecord{}, errUnknownLog
}

func (openAI) ReadThreads([]byte) (Threads, error) { return Threads{}, errUnknownLog }

func (openAI) Facts() Facts { return Facts{MayRefuse: true} }

// llamaCppPython is the server of the llama-cpp-python package. Its streams hold
// no usage; what it counts is only in its log, which it writes unless started
// with --verbose false.
type llamaCppPython struct{ openAI }

func (llamaCppPython) Name() string { return "llama-cpp-python" }

func (llamaCppPython) Recognise(p *Probe) bool {
	var doc struct {
		Info struct {
			Title string `json:"title"`
		} `json:"info"`
	}
	return json.Unmarshal([]byte(p.text("/openapi.json")), &doc) == nil && strings.Contains(doc.Info.Title, "llama.cpp Python API")
}

func (llamaCppPython) Identify(p *Probe) Identity {
	id := openAI{}.Identify(p)
	id.Engine = "llama-cpp-python"
	var doc struct {
		Info struct {
			Version string `json:"version"`
		} `json:"info"`
	}
	if p.object("/openapi.json", &doc) == nil && doc.Info.Version != "" {
		id.Version = &doc.Info.Version
		delete(id.Why, "version")
	}
	id.Why["commit"] = "the server names the version of its package, not of the llama.cpp within"
	return id
}

// Fields: it ignores ignore_eos; min_tokens bars the end token (the one, of a
// model that has several) until that many are generated.
func (llamaCppPython) Fields(a Ask) map[string]any {
	if !a.IgnoreEOS {
		return nil
	}
	return map[string]any{"min_tokens": a.MaxTokens}
}

func (llamaCppPython) TokenizeForms() []TokenizeForm { return []TokenizeForm{pythonForm} }

// ReadLog reads the lines that llama.cpp's library prints. It counts the passes
// of one token each; the first token came from the pass over the prompt.
func (llamaCppPython) ReadLog(segment []byte) (LogRecord, error) {
	rec, err := llamaServer{}.ReadLog(segment)
	if err == nil {
		rec.Offset, rec.OffsetWhy = 1, "the log counts passes of one token (runs); the first token came from the prompt's"
	}
	return rec, err
}

func (llamaCppPython) Facts() Facts { return Facts{DecodeBasis: "n-1", ExactLength: true} }
