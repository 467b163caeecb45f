package derive

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"assay/internal/kit/evidence"
	"assay/internal/kit/figure"
	"assay/internal/kit/prompt"
	"assay/internal/kit/row"
)

// rules are the timing rules that this version can compute by.
var rules = map[string]func(figure.Inputs) *figure.Figures{
	figure.Rule: figure.Compute,
}

// ErrUnknownRule is returned for evidence whose figures follow a timing rule of
// another version.
var ErrUnknownRule = errors.New("this version does not know the rule")

// Row makes the row of a run from its evidence and facts. What is left to set is
// the row's evidence and its place in the journal.
func Row(rec *evidence.Record, f *Facts) (*row.Row, error) {
	compute, ok := rules[f.TimingRule]
	if !ok {
		return nil, fmt.Errorf("timing rule %q: %w", f.TimingRule, ErrUnknownRule)
	}
	src, err := read(rec, f)
	if err != nil {
		return nil, err
	}
	in := src.inputs()
	src.measure(&in, new(compute(in).Window))
	r, err := src.row()
	if err != nil {
		return nil, err
	}
	r.Fill(&in, compute(in))
	src.ending(r)
	if err := src.block(r); err != nil {
		return nil, err
	}
	src.telemetry(r)
	r.Explain()
	if why := f.Exchange.NotSent; why != "" {
		err := r.Because("nothing was sent: " + why)
		delete(r.Why, "evidence") // is set when the row is appended, as its place is
		delete(r.Why, "prev_sha256")
		return r, err
	}
	return r, nil
}

// row has what does not depend on the stream.
func (s *source) row() (*row.Row, error) {
	p := &s.facts.Plan
	r := &row.Row{
		Schema: row.Schema, AssayVersion: s.facts.AssayVersion,
		RowID: s.rec.Meta.Row, Cell: p.Cell, Arm: p.Arm, Engine: s.facts.Target.Engine,
		EngineCommit: s.facts.Target.Commit, Quant: s.facts.Target.Format, FileSHA256: s.facts.Model.FileSHA256,
		Ctx: p.size(), Phase: p.Phase, Block: p.Block, Repeat: p.Repeat, Attempt: p.Attempt, Run: p.Run,
	}
	if r.EngineCommit == nil {
		r.Null(s.facts.Target.Why["commit"], "engine_commit")
	}
	if r.Quant == nil {
		r.Null(s.facts.Target.Why["format"], "quant")
	}
	if r.FileSHA256 == nil {
		r.Null(s.facts.Model.Why, "file_sha256")
	}
	r.SetHost(s.facts.Host)
	r.SetModelFiles(s.facts.Around.Model, cmp.Or(s.facts.Around.Why, "the model's files were not looked at"))
	s.start(r)
	if err := s.prompt(r); err != nil {
		return nil, err
	}
	return r, s.requested(r)
}

// size is the prompt's size as tables show it, or the name of its file.
func (p *Plan) size() string {
	if p.Ctx == 0 {
		return p.File
	}
	return prompt.FormatCount(p.Ctx)
}

// start sets what is known of the launch. Of a target that was only attached to
// none of it is.
func (s *source) start(r *row.Row) {
	t := &s.facts.Target
	why := t.ThreadsWhy
	if why == "" {
		threads, err := s.adapter.ReadThreads([]byte(t.ThreadsLog))
		if err != nil {
			why = err.Error()
		} else {
			r.Threads = row.Threads{Workers: threads.Workers, HostThread: threads.HostThread, Line: &threads.Line}
			if threads.Workers == nil {
				r.Null("not in that line", "threads.workers")
			}
			if threads.HostThread == nil {
				r.Null("not known of this engine", "threads.host_thread")
			}
		}
	}
	if why != "" {
		r.Null(why, "threads")
	}
	st := s.facts.Start
	if st == nil && s.facts.Exchange.NotSent != "" {
		return
	}
	if st == nil {
		r.Null("attached to a server that was running: its start was not seen", "command_line", "start_id", "load_ms", "requests_since_start", "engine_env")
		return
	}
	r.CommandLine, r.EngineEnv = st.Argv, st.Env
	r.StartID, r.LoadMS, r.RequestsSinceStart = &st.ID, &st.LoadMS, &st.Requests
}

func (s *source) prompt(r *row.Row) error {
	if s.facts.Exchange.NotSent != "" {
		return nil
	}
	p := &s.facts.Prompt
	first := s.rec.Prompt
	if s.facts.Plan.Turn > 0 && len(s.request.Messages) > 0 {
		first = s.request.Messages[0].Content // the nonce is where the conversation begins
	}
	slice, ok := prompt.SliceOf(first, p.Nonce)
	if !ok {
		return fmt.Errorf("%s: it does not begin with the nonce %q", evidence.PromptFile, p.Nonce)
	}
	if s.facts.Plan.Turn > 0 {
		slice = s.rec.Prompt
	}
	r.Nonce, r.PromptSHA256, r.SliceSHA256 = &p.Nonce, new(hash(s.rec.Prompt)), new(hash(slice))
	r.PromptTokensExpected = p.Total
	if p.Total == nil {
		r.Null(p.Why, "prompt_tokens_expected")
	}
	return nil
}

func hash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// request is the part of a request's body that a row tells.
type request struct {
	MaxTokens        *int      `json:"max_tokens"`
	MaxCompletion    *int      `json:"max_completion_tokens"` // OpenAI's newer name for the same
	Temperature      *float64  `json:"temperature"`
	Seed             *int64    `json:"seed"`
	TopK             *int      `json:"top_k"`
	TopP             *float64  `json:"top_p"`
	MinP             *float64  `json:"min_p"`
	RepeatPenalty    *float64  `json:"repeat_penalty"`
	PresencePenalty  *float64  `json:"presence_penalty"`
	FrequencyPenalty *float64  `json:"frequency_penalty"`
	Reasoning        *string   `json:"reasoning_effort"`
	Messages         []message `json:"messages"`
	// What servers other than OpenAI's have for the same.
	RepetitionPenalty *float64 `json:"repetition_penalty"`
	RepPen            *float64 `json:"rep_pen"`
	Template          struct {
		Thinking *bool `json:"enable_thinking"`
	} `json:"chat_template_kwargs"`
	Options *options        `json:"options"`
	Think   json.RawMessage `json:"think"`
}

// options are Ollama's place for what others have in the request itself.
type options struct {
	request
	NumPredict *int `json:"num_predict"`
}

type message struct {
	Content string `json:"content"`
}

func readRequest(body []byte) (*request, error) {
	q := new(request)
	if err := json.Unmarshal(body, q); err != nil {
		return nil, fmt.Errorf("%s: %w", evidence.RequestFile, err)
	}
	if o := q.Options; o != nil {
		thinks, messages := q.Think, q.Messages
		*q = o.request
		q.Think, q.Messages, q.MaxTokens = thinks, messages, o.NumPredict
	}
	if q.MaxTokens == nil {
		q.MaxTokens = q.MaxCompletion
	}
	if q.RepeatPenalty == nil {
		q.RepeatPenalty = cmp.Or(q.RepetitionPenalty, q.RepPen)
	}
	if len(q.Think) > 0 && q.Reasoning == nil {
		var effort string
		switch {
		case string(q.Think) == "true":
			q.Reasoning = new("on")
		case string(q.Think) == "false":
			q.Reasoning = new("off")
		case json.Unmarshal(q.Think, &effort) == nil:
			q.Reasoning = &effort
		}
	}
	if t := q.Template.Thinking; t != nil && q.Reasoning == nil {
		q.Reasoning = new(map[bool]string{true: "on", false: "off"}[*t])
	}
	return q, nil
}

func (s *source) requested(r *row.Row) error {
	q, p := s.request, &s.facts.Plan
	if s.facts.Exchange.NotSent != "" {
		r.Requested = row.Requested{Cache: &p.Cache, NaturalStop: &p.NaturalStop}
		return nil
	}
	u, err := url.Parse(s.rec.Meta.URL)
	if err != nil {
		return fmt.Errorf("%s: url: %w", evidence.MetaFile, err)
	}
	r.Requested = row.Requested{
		MaxTokens: q.MaxTokens,
		Sampling: row.Sampling{
			Temperature: q.Temperature, Seed: q.Seed, TopK: q.TopK, TopP: q.TopP, MinP: q.MinP,
			RepeatPenalty: q.RepeatPenalty, PresencePenalty: q.PresencePenalty, FrequencyPenalty: q.FrequencyPenalty,
		},
		Reasoning: q.Reasoning, Cache: &p.Cache, NaturalStop: &p.NaturalStop, Endpoint: new(u.Path),
	}
	if r.Requested.Ctx = &p.Ctx; p.Ctx == 0 {
		r.Requested.Ctx = nil
		r.Null("the prompt is a file, read whole", "requested.ctx")
	}
	if q.MaxTokens == nil {
		r.Null("the request asks for no number of tokens", "requested.max_tokens")
	}
	return nil
}

// ending sets what the figures can't know: how a run that did not end by itself
// ended.
func (s *source) ending(r *row.Row) {
	switch x := &s.facts.Exchange; {
	case x.NotSent != "":
		r.FailKind, r.Error = &x.NotSentKind, &x.NotSent
	case x.tripped() != nil:
		r.Status, r.FailKind, r.Error = row.Stopped, new("guard"), new(x.tripped().String())
	case x.Interrupted:
		r.Status, r.FailKind, r.Error = row.Stopped, new("interrupted"), new(interrupted)
	case x.TimedOut:
		r.FailKind = new("run-limit")
	case x.Ended != "":
		r.FailKind, r.Error = new("target-ended"), new(reasons("the target ended by itself: "+x.Ended, s.streamErr))
	}
}

const interrupted = "interrupted by the user"

// reasons joins the reasons that are there.
func reasons(all ...string) string {
	var out []string
	for _, s := range all {
		if s != "" {
			out = append(out, s)
		}
	}
	return strings.Join(out, "; ")
}
