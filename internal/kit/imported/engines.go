package imported

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

const strataDecode = "output tokens over the engine's decode time, as it states it: the first round is in that time"

// strataRequest is an entry of Strata's /metrics, and of a result that is made of
// one.
type strataRequest struct {
	Time     *float64 `json:"time"`
	Seconds  *float64 `json:"duration_s"`
	Prompt   *int     `json:"prompt_tokens"`
	Reused   *int     `json:"reused"`
	Output   *int     `json:"output_tokens"`
	PromptMS *float64 `json:"prompt_ms"`
	PromptTS *float64 `json:"prompt_tok_s"`
	DecodeMS *float64 `json:"decode_ms"`
	DecodeTS *float64 `json:"decode_tok_s"`
	Offered  *int     `json:"drafts_offered"`
	Accepted *int     `json:"drafts_accepted"`
	Finish   string   `json:"finish"`
	Label    string   `json:"label"`
	Target   *int     `json:"target"`
}

func (q *strataRequest) run(record json.RawMessage) (one, error) {
	if q.DecodeTS == nil && q.DecodeMS == nil && q.PromptMS == nil {
		return one{}, errNoRate
	}
	o := one{
		engine: "strata", prompt: q.Prompt, output: q.Output, cached: q.Reused, promptMS: q.PromptMS, decodeMS: q.DecodeMS,
		decodeRate: q.DecodeTS, promptRate: q.PromptTS, drafts: q.Offered, accepts: q.Accepted, finish: q.Finish, began: q.Time, seconds: q.Seconds,
		ctx: strings.TrimPrefix(clean(q.Label), "~"), record: record,
	}
	if o.decodeRate == nil {
		o.decodeRate = over(q.Output, q.DecodeMS)
	}
	if o.promptRate == nil && q.Prompt != nil && q.Reused != nil {
		o.promptRate = over(new(*q.Prompt-*q.Reused), q.PromptMS)
	}
	return o, nil
}

// strataMatrix reads matrix.json of a folder of Strata's results: a list of
// requests, each as the engine told of it.
var strataMatrix = format{
	tool: "strata", decode: strataDecode,
	is: func(f *file) bool {
		return len(f.list) > 0 && has(f.list[0], "prompt_ms", "decode_ms", "output_tokens")
	},
	read: func(f *file) ([]one, error) {
		var out []one
		for i, m := range f.list {
			raw := again(m)
			q, err := decoded[strataRequest](raw)
			if err != nil {
				return nil, fmt.Errorf("result %d: %w", i, err)
			}
			o, err := q.run(raw)
			if err != nil {
				return nil, fmt.Errorf("result %d: %w", i, err)
			}
			out = append(out, o)
		}
		return out, nil
	},
}

// strataRun reads a run that was recorded with /metrics before and after it.
var strataRun = format{
	tool: "strata", decode: strataDecode,
	is: func(f *file) bool { return has(f.object, "metrics_before", "metrics_after") },
	read: func(f *file) ([]one, error) {
		type metrics struct {
			Engine struct {
				Model   string `json:"model"`
				Version string `json:"version"`
			} `json:"engine"`
			Requests list[json.RawMessage] `json:"requests"`
		}
		v, err := decoded[struct {
			TTFT          *float64 `json:"client_ttft_s"`
			Total         *float64 `json:"client_total_latency_s"`
			Before, After metrics
		}](again(map[string]json.RawMessage{
			"client_ttft_s": orNull(f.object["client_ttft_s"]), "client_total_latency_s": orNull(f.object["client_total_latency_s"]),
			"Before": f.object["metrics_before"], "After": f.object["metrics_after"],
		}))
		if err != nil {
			return nil, err
		}
		f.version = v.After.Engine.Version
		old := map[string]bool{}
		for _, raw := range v.Before.Requests {
			old[string(raw)] = true
		}
		var fresh []json.RawMessage
		for _, raw := range v.After.Requests {
			if !old[string(raw)] {
				fresh = append(fresh, raw)
			}
		}
		if len(fresh) != 1 {
			return nil, fmt.Errorf("metrics_after.requests: %d that are not in metrics_before, want the one of the run", len(fresh))
		}
		q, err := decoded[strataRequest](fresh[0])
		if err != nil {
			return nil, err
		}
		o, err := q.run(again(f.object))
		if err != nil {
			return nil, err
		}
		o.model = v.After.Engine.Model
		if v.TTFT != nil {
			o.ttft = new(*v.TTFT * 1000)
		}
		if v.Total != nil {
			o.seconds = v.Total
		}
		return []one{o}, nil
	},
}

func orNull(raw json.RawMessage) json.RawMessage {
	if raw == nil {
		return json.RawMessage("null")
	}
	return raw
}

// ollamaStep is a line of Ollama's bench, in any of its three forms.
type ollamaStep struct {
	model, step string
	count       int
	ns          float64 // a token; of load and total, in all
	rate        float64 // tokens a second, as printed: more digits than ns gives
	line        string
}

var (
	ollamaStat  = regexp.MustCompile(`^BenchmarkModel/name=(.+?)(?:/step=([a-z]+))? ([0-9]+) ([0-9.]+) ns/(token|request)(?: ([0-9.]+) token/sec)?$`)
	ollamaTable = regexp.MustCompile(`^\| (.+) \| (prefill|generate|load|total) \| ([0-9]+) \| (\S+) \| (\S+) \| (\S+) \|$`)
)

// ollamaSteps reads the lines of a result; none where it is none. rest are the lines
// that are no steps.
func ollamaSteps(data []byte) (out []ollamaStep, rest []string) {
	header := false
	for raw := range strings.Lines(string(data)) {
		line := strings.TrimSpace(raw)
		if len(out)+len(rest) > 4*maxRows {
			return nil, nil
		}
		if line == "NAME,STEP,COUNT,NS_PER_COUNT,TOKEN_PER_SEC" || strings.HasPrefix(line, "| Model | Step | Count |") {
			header = true
			rest = append(rest, line)
			continue
		}
		s := ollamaStep{line: line, step: "total"}
		var number, ns, rate string
		if m := ollamaStat.FindStringSubmatch(line); m != nil {
			s.model, number, ns, rate = m[1], m[3], m[4], m[6]
			if m[2] != "" {
				s.step = m[2]
			}
			header = true
		} else if m := ollamaTable.FindStringSubmatch(line); m != nil && header {
			s.model, s.step, number, ns, rate = m[1], m[2], m[3], m[5], m[6]
			if ns == "-" {
				took, err := time.ParseDuration(m[4])
				if err != nil {
					return nil, nil
				}
				ns = strconv.FormatInt(took.Nanoseconds(), 10)
			}
		} else if f := strings.Split(line, ","); len(f) >= 5 && header { // a name may have commas
			n := len(f)
			s.model, s.step, number, ns, rate = strings.Join(f[:n-4], ","), f[n-4], f[n-3], f[n-2], f[n-1]
		} else {
			if line != "" {
				rest = append(rest, line)
			}
			continue
		}
		var err1, err2 error
		s.count, err1 = strconv.Atoi(number)
		s.ns, err2 = strconv.ParseFloat(ns, 64)
		s.rate, _ = strconv.ParseFloat(rate, 64) // load and total have none
		if err1 != nil || err2 != nil || !slices.Contains([]string{"prefill", "generate", "load", "total"}, s.step) {
			return nil, nil
		}
		out = append(out, s)
	}
	return out, rest
}

// ollamaBench reads the output of Ollama's cmd/bench: csv, benchstat or Markdown.
// A row is made of the four lines of an epoch.
var ollamaBench = format{
	tool: "ollama-bench", decode: "eval_count over eval_duration, as the server states them",
	is: func(f *file) bool {
		if f.object != nil || f.list != nil || f.lines != nil {
			return false
		}
		steps, _ := ollamaSteps(f.data)
		return len(steps) > 0
	},
	read: func(f *file) ([]one, error) {
		steps, rest := ollamaSteps(f.data)
		if len(rest) > 0 {
			f.rest, _ = json.Marshal(rest) // texts always can be
		}
		var out []one
		lines := map[string]string{} // of the epoch in work, by their steps
		for i, s := range steps {
			if s.step == "prefill" {
				out = append(out, one{engine: "ollama", model: s.model})
				clear(lines)
			}
			if len(out) == 0 {
				return nil, fmt.Errorf("line %d: %s comes before any prefill", i+1, s.step)
			}
			o := &out[len(out)-1]
			if o.model != s.model {
				return nil, fmt.Errorf("line %d: of %q, within an epoch of %q", i+1, s.model, o.model)
			}
			if lines[s.step] != "" {
				return nil, fmt.Errorf("line %d: %s comes twice in one epoch", i+1, s.step)
			}
			lines[s.step] = s.line
			o.record, _ = json.Marshal(lines) // texts always can be
			ms := s.ns / 1e6
			if s.step == "prefill" || s.step == "generate" {
				ms *= float64(s.count)
			}
			rate := func() *float64 {
				if s.rate <= 0 {
					return nil
				}
				return &s.rate
			}
			switch s.step {
			case "prefill":
				o.prompt, o.promptMS, o.promptRate = &s.count, &ms, rate()
			case "generate":
				o.output, o.decodeMS, o.decodeRate = &s.count, &ms, rate()
			case "load":
				o.load = &ms
			case "total":
				o.seconds = new(ms / 1000)
			}
		}
		return out, nil
	},
}
