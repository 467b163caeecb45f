package imported

import (
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"
)

// llamaBench reads llama-bench -o json and -o jsonl. Every repetition is a row.
var llamaBench = format{
	tool: "llama-bench", decode: "n_gen over the time of generating, within the engine: no server, no sampling, no text",
	is: func(f *file) bool {
		return len(f.list) > 0 && has(f.list[0], "n_prompt", "n_gen", "avg_ns") || len(f.lines) > 0 && has(f.lines[0], "n_prompt", "n_gen", "avg_ns")
	},
	read: func(f *file) ([]one, error) {
		var out []one
		for i, m := range append(f.list, f.lines...) {
			raw := again(m)
			v, err := decoded[struct {
				Commit  string    `json:"build_commit"`
				Model   string    `json:"model_filename"`
				Arm     string    `json:"assay_arm"` // of assay export
				Type    string    `json:"model_type"`
				Threads *int      `json:"n_threads"`
				NPrompt int       `json:"n_prompt"`
				NGen    int       `json:"n_gen"`
				NDepth  int       `json:"n_depth"`
				Time    time.Time `json:"test_time"`
				NS      []float64 `json:"samples_ns"`
				TS      []float64 `json:"samples_ts"`
			}](raw)
			if err != nil {
				return nil, fmt.Errorf("result %d: %w", i, err)
			}
			if v.NPrompt < 0 || v.NGen < 0 || v.NDepth < 0 || len(v.TS) != len(v.NS) || len(v.TS) == 0 {
				return nil, fmt.Errorf("result %d: samples_ns and samples_ts: %d and %d, want as many as there were repetitions", i, len(v.NS), len(v.TS))
			}
			if len(out)+len(v.TS) > maxRows {
				return nil, fmt.Errorf("result %d: %w repetitions: %d at most in one file", i, errTooMany, maxRows)
			}
			if v.Commit == "unknown" {
				v.Commit = ""
			}
			model := v.Arm
			if v.Model != "" {
				model = strings.TrimSuffix(path.Base(strings.ReplaceAll(v.Model, `\`, "/")), ".gguf")
			}
			kind := strings.Fields(v.Type)
			for s := range v.TS {
				// samples_ts has six digits; the times have all of theirs.
				n := v.NPrompt + v.NGen
				ts := float64(n) / v.NS[s] * 1e9
				o := one{
					model: model, engine: "llama.cpp", commit: v.Commit, threads: v.Threads, record: raw,
					seconds: new(v.NS[s] / 1e9), notes: map[string]string{},
				}
				if len(kind) > 0 {
					o.quant = kind[len(kind)-1]
				}
				if !v.Time.IsZero() {
					o.began = new(float64(v.Time.Unix()))
				}
				ms := new(v.NS[s] / 1e6)
				switch {
				case v.NPrompt > 0 && v.NGen > 0:
					o.part, o.prompt, o.output = "pp+tg", new(v.NPrompt), new(v.NGen)
					o.notes["decode_tok_s"] = "one rate of prompt and generation together: in the record only"
				case v.NGen > 0:
					o.part, o.prompt, o.output, o.asked = "tg", new(v.NDepth), new(v.NGen), new(v.NGen)
					o.decodeRate, o.decodeMS = new(ts), ms
				default:
					o.part, o.prompt = "pp", new(v.NPrompt)
					o.cached = new(0)
					o.promptRate, o.promptMS = new(ts), ms
				}
				out = append(out, o)
			}
		}
		return out, nil
	},
}

// guideLLM reads the JSON report of guidellm. Every request is a row.
var guideLLM = format{
	tool: "guidellm", together: true, decode: "1000 over the inter-token latency: (last token - first token)/(output tokens - 1), by its client",
	is: func(f *file) bool { return has(f.object, "benchmarks", "metadata") },
	read: func(f *file) ([]one, error) {
		type request struct {
			Start  *float64 `json:"request_start_time"`
			Took   *float64 `json:"request_latency"`
			Prompt *int     `json:"prompt_tokens"`
			Cached *int     `json:"cached_tokens"`
			Output *int     `json:"output_tokens"`
			TTFT   *float64 `json:"time_to_first_token_ms"`
			ITL    *float64 `json:"inter_token_latency_ms"`
			Info   struct {
				Error json.RawMessage `json:"error"`
			} `json:"info"`
		}
		v, err := decoded[struct {
			Metadata struct {
				Version string `json:"guidellm_version"`
			} `json:"metadata"`
			Benchmarks list[struct {
				Config struct {
					Strategy struct {
						Type    string   `json:"type_"`
						Streams *int     `json:"streams"`
						Rate    *float64 `json:"rate"`
					} `json:"strategy"`
					Backend struct {
						Model string `json:"model"`
						Max   *int   `json:"max_tokens"`
					} `json:"backend"`
				} `json:"config"`
				Requests struct {
					Successful, Errored, Incomplete list[json.RawMessage]
				} `json:"requests"`
			}] `json:"benchmarks"`
		}](f.data)
		if err != nil {
			return nil, err
		}
		f.version = v.Metadata.Version
		if f.rest, err = guideLLMRest(f.object); err != nil {
			return nil, err
		}
		var out []one
		for b, bench := range v.Benchmarks {
			part := bench.Config.Strategy.Type
			if n := bench.Config.Strategy.Streams; n != nil {
				part += fmt.Sprintf("@%d", *n)
			} else if r := bench.Config.Strategy.Rate; r != nil {
				part += fmt.Sprintf("@%g", *r)
			}
			for _, list := range []struct {
				state    string
				requests list[json.RawMessage]
			}{{"", bench.Requests.Successful}, {"errored", bench.Requests.Errored}, {"incomplete", bench.Requests.Incomplete}} {
				for i, raw := range list.requests {
					q, err := decoded[request](raw)
					if err != nil {
						return nil, fmt.Errorf("benchmarks[%d]: request %d: %w", b, i, err)
					}
					o := one{
						model: bench.Config.Backend.Model, part: part, prompt: q.Prompt, output: q.Output, cached: q.Cached, asked: bench.Config.Backend.Max,
						ttft: q.TTFT, began: q.Start, seconds: q.Took, record: raw, failed: list.state,
					}
					if list.state != "" && !isNull(q.Info.Error) {
						o.failed = list.state + ": " + plain(q.Info.Error)
					}
					if q.ITL != nil && *q.ITL > 0 {
						o.decodeRate = new(1000 / *q.ITL)
					}
					o.clientPrompt()
					out = append(out, o)
				}
			}
		}
		return out, nil
	},
}

// guideLLMRest is the report without its requests.
func guideLLMRest(report map[string]json.RawMessage) (json.RawMessage, error) {
	benchmarks, err := decoded[list[object]](report["benchmarks"])
	if err != nil {
		return nil, err
	}
	for _, b := range benchmarks {
		requests, err := decoded[object](b["requests"])
		if err != nil {
			return nil, err
		}
		b["requests"] = again(without(requests, "successful", "errored", "incomplete"))
	}
	rest := without(report)
	if rest["benchmarks"], err = json.Marshal(benchmarks); err != nil {
		return nil, err
	}
	return again(rest), nil
}

// clientPrompt is the prompt rate over the time to the first token, as ours.
func (o *one) clientPrompt() {
	if o.prompt == nil || o.ttft == nil {
		return
	}
	n := *o.prompt
	if o.cached != nil {
		n -= *o.cached
	}
	o.promptRate = over(&n, o.ttft)
}

// value is a figure of AIPerf with its unit.
type value struct {
	Value json.RawMessage `json:"value"`
	Unit  string          `json:"unit"`
	P50   *float64        `json:"p50"`
	Avg   *float64        `json:"avg"`
}

func (v value) number() *float64 {
	var n float64
	if json.Unmarshal(v.Value, &n) != nil {
		return nil
	}
	if v.Unit == "sec" {
		n *= 1000
	}
	return &n
}

func (v value) count() *int {
	n := v.number()
	if n == nil {
		return nil
	}
	return new(int(*n))
}

const aiPerfDecode = "1000 over the inter-token latency: (request latency - time to first token)/(output tokens - 1), by its client"

// aiPerf reads the lines of AIPerf's profile_export.jsonl. Every request is a row.
var aiPerf = format{
	tool: "aiperf", together: true, decode: aiPerfDecode,
	is: func(f *file) bool { return len(f.lines) > 0 && has(f.lines[0], "metadata", "metrics") },
	read: func(f *file) ([]one, error) {
		var out []one
		for i, m := range f.lines {
			raw := again(m)
			v, err := decoded[struct {
				Metadata struct {
					Start int64  `json:"request_start_ns"`
					Phase string `json:"benchmark_phase"`
				} `json:"metadata"`
				Metrics map[string]value `json:"metrics"`
				Error   json.RawMessage  `json:"error"`
			}](raw)
			if err != nil {
				return nil, fmt.Errorf("line %d: %w", i+1, err)
			}
			g := func(names ...string) value {
				for _, n := range names {
					if v, ok := v.Metrics[n]; ok {
						return v
					}
				}
				return value{}
			}
			o := one{
				prompt: g("usage_prompt_tokens", "input_sequence_length").count(), output: g("usage_completion_tokens", "output_sequence_length").count(),
				cached: g("usage_prompt_cache_read_tokens").count(), ttft: g("time_to_first_token").number(), record: raw,
				began: new(float64(v.Metadata.Start) / 1e9),
			}
			if took := g("request_latency").number(); took != nil {
				o.seconds = new(*took / 1000)
			}
			if itl := g("inter_token_latency").number(); itl != nil && *itl > 0 {
				o.decodeRate = new(1000 / *itl)
			}
			_ = json.Unmarshal(g("inter_chunk_latency").Value, &o.gaps)
			if !isNull(v.Error) {
				o.failed = "errored: " + plain(v.Error)
			}
			o.clientPrompt()
			out = append(out, o)
		}
		return out, nil
	},
}

// aiPerfSummary reads AIPerf's profile_export_aiperf.json: one row of medians.
var aiPerfSummary = format{
	tool: "aiperf", decode: aiPerfDecode + "; the median of all requests",
	is: func(f *file) bool { return has(f.object, "aiperf_version", "request_count") },
	read: func(f *file) ([]one, error) {
		v, err := decoded[struct {
			Version string `json:"aiperf_version"`
			Config  struct {
				Models struct {
					Items []struct {
						Name string `json:"name"`
					} `json:"items"`
				} `json:"models"`
			} `json:"input_config"`
			Count, TTFT, ITL, ISL, OSL, Latency value
		}](aiPerfNames(f.object))
		if err != nil {
			return nil, err
		}
		f.version = v.Version
		o := one{ttft: v.TTFT.P50, record: again(f.object), summary: true, prompt: wholeOf(v.ISL.P50), output: wholeOf(v.OSL.P50)}
		if items := v.Config.Models.Items; len(items) > 0 {
			o.model = items[0].Name
		}
		if itl := v.ITL.P50; itl != nil && *itl > 0 {
			o.decodeRate = new(1000 / *itl)
		}
		if v.Count.Avg != nil {
			o.many("median", int(*v.Count.Avg))
		}
		return []one{o}, nil
	},
}

// aiPerfNames gives the figures that are read the names of the struct's fields.
func aiPerfNames(m map[string]json.RawMessage) json.RawMessage {
	out := map[string]json.RawMessage{}
	for from, to := range map[string]string{
		"aiperf_version": "aiperf_version", "input_config": "input_config", "request_count": "Count", "time_to_first_token": "TTFT",
		"inter_token_latency": "ITL", "input_sequence_length": "ISL", "output_sequence_length": "OSL", "request_latency": "Latency",
	} {
		if raw, ok := m[from]; ok {
			out[to] = raw
		}
	}
	return again(out)
}

func wholeOf(v *float64) *int {
	if v == nil || *v < 0 || *v > 1<<40 {
		return nil
	}
	return new(int(*v + 0.5))
}

// many notes that figures stand for many requests.
func (o *one) many(what string, requests int) {
	if o.notes == nil {
		o.notes = map[string]string{}
	}
	for path, v := range map[string]*float64{"ttft_ms": o.ttft, "decode_tok_s": o.decodeRate, "prompt_tok_s_client": o.promptRate} {
		if v != nil {
			o.notes[path] = fmt.Sprintf("the %s of %d requests, of which the file has no more", what, requests)
		}
	}
}

// vllmServe reads the JSON of vllm bench serve: with --save-detailed a row for
// every request, else one of medians.
var vllmServe = format{
	tool: "vllm-bench-serve", together: true, decode: "(output tokens - 1) over the sum of the inter-token latencies, by its client",
	is: func(f *file) bool { return has(f.object, "model_id", "num_prompts", "total_output_tokens") },
	read: func(f *file) ([]one, error) {
		v, err := decoded[struct {
			Model     string          `json:"model_id"`
			Backend   string          `json:"backend"`
			Rate      json.RawMessage `json:"request_rate"`
			Streams   *int            `json:"max_concurrency"`
			Completed int             `json:"completed"`
			In        list[int]       `json:"input_lens"`
			Out       list[int]       `json:"output_lens"`
			TTFT      list[float64]   `json:"ttfts"` // seconds
			ITL       list[[]float64] `json:"itls"`
			Errors    list[string]    `json:"errors"`
			TotalIn   int             `json:"total_input_tokens"`
			TotalOut  int             `json:"total_output_tokens"`
			MTTFT     *float64        `json:"median_ttft_ms"`
			MTPOT     *float64        `json:"median_tpot_ms"`
		}](f.data)
		if err != nil {
			return nil, err
		}
		part := "rate-" + plain(v.Rate)
		if v.Streams != nil {
			part = fmt.Sprintf("concurrent@%d", *v.Streams)
		}
		if len(v.TTFT) == 0 {
			o := one{model: v.Model, part: part, ttft: v.MTTFT, record: again(f.object), summary: true}
			if v.MTPOT != nil && *v.MTPOT > 0 {
				o.decodeRate = new(1000 / *v.MTPOT)
			}
			if v.Completed > 0 {
				o.prompt, o.output = new(v.TotalIn/v.Completed), new(v.TotalOut/v.Completed)
			}
			o.many("median", v.Completed)
			return []one{o}, nil
		}
		n := len(v.TTFT)
		for name, l := range map[string]int{"input_lens": len(v.In), "output_lens": len(v.Out), "itls": len(v.ITL)} {
			if l != n {
				return nil, fmt.Errorf("%s: %d, but there are %d ttfts", name, l, n)
			}
		}
		detail := listsOf(f.object, n)
		f.rest = again(without(f.object, slices.Collect(maps.Keys(detail))...))
		var out []one
		for i := range n {
			o := one{model: v.Model, part: part, prompt: &v.In[i], output: &v.Out[i], ttft: new(v.TTFT[i] * 1000)}
			sum := 0.0
			for _, gap := range v.ITL[i] {
				o.gaps = append(o.gaps, gap*1000)
				sum += gap
			}
			if sum > 0 && v.Out[i] > 1 {
				o.decodeRate = new(float64(v.Out[i]-1) / sum)
			}
			o.seconds = new(v.TTFT[i] + sum)
			if i < len(v.Errors) && v.Errors[i] != "" {
				o.failed = v.Errors[i]
			}
			o.clientPrompt()
			record := map[string]json.RawMessage{}
			for name, list := range detail {
				record[name] = list[i]
			}
			o.record = again(record)
			out = append(out, o)
		}
		return out, nil
	},
}

// listsOf are the fields that have a value for each of n requests.
func listsOf(m map[string]json.RawMessage, n int) map[string]list[json.RawMessage] {
	out := map[string]list[json.RawMessage]{}
	for name, raw := range m {
		if all, err := decoded[list[json.RawMessage]](raw); err == nil && len(all) == n {
			out[name] = all
		}
	}
	return out
}
