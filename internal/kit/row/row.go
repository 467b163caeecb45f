// Package row is the record of one measured request: one JSON object on one
// line of rows.jsonl.
//
// A row says what is known and, for what is not, why. A null never stands
// alone: Why maps its path, or an ancestor's, to a reason, and Validate refuses
// a row where one is missing. Zero always means that something was measured
// and was zero.
//
// The field names of published rows of this kind (see testdata) keep their
// names and meanings here; the few exceptions are listed in this package's
// tests. Reading is lenient about fields that are absent, unknown or redacted
// and strict about JSON that is broken or of another type.
//
// Fields describes every place of a row; the JSON Schema is made of it.
//
// Paths are written as "telemetry.board.joules" and "withheld[0].value".
package row

import (
	"encoding/json"

	"assay/internal/kit/host"
)

// Schema names the form of the rows that this package writes.
const Schema = "assay-row-1"

// Status says how a run ended.
type Status string

// The statuses of a row.
const (
	OK      Status = "ok"
	Failed  Status = "failed"  // the request or the target failed: no figure counts
	Stopped Status = "stopped" // the guard or the user ended the run early
)

// Phase says what a run was for.
type Phase string

// The phases of a run.
const (
	Warmup  Phase = "warmup"  // kept and marked, never summarised
	Measure Phase = "measure" // the real thing
)

// The flags of a row.
const (
	FlagShort   = "short"    // fewer than 90 % of the tokens asked for
	FlagLeftOut = "left-out" // takes no part in summaries: short, and no natural stop was allowed
	// FlagImported marks what another tool measured: it has no evidence, and is
	// compared with what Assay measured only when it is asked for.
	FlagImported = "imported"
)

// Row is one measured request. A pointer is nil when the value is unknown; Why
// then says why. Times are in milliseconds unless the name says otherwise.
type Row struct {
	Schema       string `json:"schema"`        // Schema; empty in rows of other tools
	AssayVersion string `json:"assay_version"` // the version that wrote the row
	TimingRule   string `json:"timing_rule"`   // the rule of every timed figure here, "timing-1"

	RowID        string            `json:"row_id"`
	Cell         string            `json:"cell"` // arm at one context and load
	Arm          string            `json:"arm"`
	Engine       string            `json:"engine"`
	EngineCommit *string           `json:"engine_commit"`
	Quant        *string           `json:"quant"`
	FileSHA256   map[string]string `json:"file_sha256"`  // of the model's files, by number from "1" or by name
	CommandLine  []string          `json:"command_line"` // argv of the target

	Ctx                string   `json:"ctx"` // the prompt's size as asked for: "512", "4K" (K = 1000)
	Phase              Phase    `json:"phase"`
	Block              int      `json:"block"`              // runs of a cell made within one start, counted from 0
	StartID            *string  `json:"start_id"`           // the launch of the target that served this run
	LoadMS             *float64 `json:"load_ms"`            // from the launch of that start until it answered
	PageCachePercent   *float64 `json:"page_cache_percent"` // of the model's files, before that launch
	Repeat             int      `json:"repeat"`             // from 0 within the cell
	Attempt            int      `json:"attempt"`            // from 1 within the repeat
	Run                int      `json:"run"`                // from 1 within the plan
	SliceSHA256        *string  `json:"slice_sha256"`
	PromptSHA256       *string  `json:"prompt_sha256"`
	Nonce              *string  `json:"nonce"`
	RequestsSinceStart *int     `json:"requests_since_start"` // 1 for the first request that the start served

	Requested Requested `json:"requested"`

	Status   Status  `json:"status"`
	FailKind *string `json:"fail_kind"` // a code such as "stream-error"; null when nothing failed
	Error    *string `json:"error"`     // in words, the server's own where it gave some

	DecodeTokS               *float64 `json:"decode_tok_s"` // by DecodeRule; null when withheld
	DecodeRule               string   `json:"decode_rule"`  // how DecodeTokS was computed, in words
	DecodeTokSServer         *float64 `json:"decode_tok_s_server"`
	DecodeTokSWithheld       *float64 `json:"decode_tok_s_withheld"` // the value kept aside when DecodeTokS is withheld
	DecodeTokSServerWithheld *float64 `json:"decode_tok_s_server_withheld"`
	DecodeTokSSimple         *float64 `json:"decode_tok_s_simple"` // (completion_tokens - 1) / (t_finish - t_first)

	TokensPerRound *float64 `json:"tokens_per_round"` // drafts: tokens that a verifying pass gave
	RoundsPerS     *float64 `json:"rounds_per_s"`

	Decode     Decode     `json:"decode"`
	CountCheck CountCheck `json:"count_check"`

	TokenFrames   *int  `json:"token_frames"`   // frames that carry generated text of any kind
	ContentFrames *int  `json:"content_frames"` // those that carry visible text
	Frames        *int  `json:"frames"`         // all SSE events
	ThinkingSeen  *bool `json:"thinking_seen"`  // reasoning text was streamed
	Gaps          Gaps  `json:"gaps"`

	Threads Threads `json:"threads"`

	PromptTokSServer     *float64 `json:"prompt_tok_s_server"`
	PromptTokSClient     *float64 `json:"prompt_tok_s_client"` // uncached prompt tokens over TTFT
	TTFTMS               *float64 `json:"ttft_ms"`             // first token frame
	TTFVMS               *float64 `json:"ttfv_ms"`             // first visible token frame
	PromptTokens         *int     `json:"prompt_tokens"`       // as the server counts them
	PromptTokensExpected *int     `json:"prompt_tokens_expected"`
	CompletionTokens     *int     `json:"completion_tokens"` // as the server counts them
	CachedTokens         *int     `json:"cached_tokens"`     // prompt tokens not computed anew
	FinishReason         *string  `json:"finish_reason"`

	ServerTimings ServerTimings `json:"server_timings"`
	EngineRates   EngineRates   `json:"engine_rates"`

	ShortCompletion  *bool    `json:"short_completion"` // under 90 % of the tokens asked for
	Flags            []string `json:"flags" row:"present"`
	CacheFlag        *string  `json:"cache_flag"` // what stands against reading PromptTokSClient as uncached; null when nothing does
	CompletionSHA256 *string  `json:"completion_sha256"`
	CompletionHead   *string  `json:"completion_head"` // the first characters of the completion

	Assay *EngineBlock `json:"assay" row:"optional"` // only in rows of our engine
	// IdentitiesFailed lists numbers of the engine's own that contradict each other.
	IdentitiesFailed []string `json:"identities_failed" row:"present"`

	Telemetry Telemetry         `json:"telemetry"`
	EngineEnv map[string]string `json:"engine_env"` // the environment that matters to the target
	Host      Host              `json:"host"`

	Withheld []Withheld        `json:"withheld" row:"present"`
	Sources  map[string]string `json:"sources" row:"present"` // path of a figure to where it comes from
	Notes    map[string]string `json:"notes" row:"present"`   // path of a figure to what marks it, though it is shown
	Evidence Evidence          `json:"evidence"`
	Why      map[string]string `json:"why" row:"present"` // path of a null, or of what holds it, to the reason

	Seq        int     `json:"seq"`         // from 1 within the journal
	PrevSHA256 *string `json:"prev_sha256"` // of the journal's line before, without its line feed

	// Extra holds the fields that this package does not know, by the path of
	// the object they stand in ("" is the row) and their name: the block that an
	// engine other than ours has under its own name, and what other tools or
	// later versions wrote.
	Extra map[string]map[string]json.RawMessage `json:"-"`

	// Redacted holds, by path, the marks that stand in place of values which were
	// taken out for publication. A text keeps its mark as its value as well; any
	// other value is nil, or empty where it is an object.
	Redacted map[string]string `json:"-"`
}

// Requested is what the run asked for.
type Requested struct {
	MaxTokens   *int     `json:"max_tokens"`
	Ctx         *int     `json:"ctx"` // prompt tokens asked for
	Sampling    Sampling `json:"sampling"`
	Reasoning   *string  `json:"reasoning"`    // "on", "off" or an effort; null when left to the model
	Cache       *string  `json:"cache"`        // what was asked of the prompt cache
	NaturalStop *bool    `json:"natural_stop"` // the model may end before MaxTokens
	Endpoint    *string  `json:"endpoint"`     // the path that was asked
}

// Sampling is the part of the request that chooses tokens; null is the
// server's default.
type Sampling struct {
	Temperature      *float64 `json:"temperature"`
	Seed             *int64   `json:"seed"`
	TopK             *int     `json:"top_k"`
	TopP             *float64 `json:"top_p"`
	MinP             *float64 `json:"min_p"`
	RepeatPenalty    *float64 `json:"repeat_penalty"`
	PresencePenalty  *float64 `json:"presence_penalty"`
	FrequencyPenalty *float64 `json:"frequency_penalty"`
}

// Decode is how the decode rate was bounded: the rate is
// (NLast - NFirst) / (TLastMS - TFirstMS).
type Decode struct {
	NFirst     *float64 `json:"n_first"`      // tokens produced at the end of the first burst; the middle where only bounds are known
	NLast      *float64 `json:"n_last"`       // tokens produced at the last token frame
	NLow       *float64 `json:"n_low"`        // bounds of NLast - NFirst
	NHigh      *float64 `json:"n_high"`       //
	NSource    *string  `json:"n_source"`     // where the tokens' positions come from
	TFirstMS   *float64 `json:"t_first_ms"`   // end of the first burst, from t0
	TLastMS    *float64 `json:"t_last_ms"`    // last token frame, from t0
	Bursts     *int     `json:"bursts"`       // groups of token frames that arrived together
	Intervals  *int     `json:"intervals"`    // between bursts
	BurstGapMS *float64 `json:"burst_gap_ms"` // the middle gap between arrivals, by which bursts were told apart
}

// CountCheck is the comparison of every source of the completion's length.
type CountCheck struct {
	Verdict          *string        `json:"verdict"`
	CompletionTokens *int           `json:"completion_tokens"`
	Against          map[string]int `json:"against"` // source to its count
	Gaps             map[string]int `json:"gaps"`    // source to its count less the reported one, offset applied
	Unread           []Unread       `json:"unread" row:"present"`
	Tolerance        *string        `json:"tolerance"`
	Rule             *string        `json:"rule"`
	Why              *string        `json:"why"`  // what agreed, or what did not
	From             *string        `json:"from"` // the source that CompletionTokens is from
	Sources          []CountSource  `json:"sources" row:"present"`
}

// CountSource is one reading of the completion's length.
type CountSource struct {
	Name   string `json:"name"`
	Origin string `json:"origin"` // sources of one origin are one counter seen again
	Tokens int    `json:"tokens"`
	Offset int    `json:"offset"` // documented difference, added to Tokens before comparing
}

// Unread is a source that could not be read.
type Unread struct {
	Source string `json:"source"`
	Why    string `json:"why"`
}

// Gaps are the times between token frames: never latencies of single tokens.
type Gaps struct {
	N        *int     `json:"n"`
	MedianMS *float64 `json:"median_ms"`
	P90MS    *float64 `json:"p90_ms"`
	P99MS    *float64 `json:"p99_ms"`
	MaxMS    *float64 `json:"max_ms"`
}

// Threads is what the engine says of its threads.
type Threads struct {
	Workers    *int    `json:"workers"`
	HostThread *bool   `json:"host_thread"` // the thread that feeds them works too
	Line       *string `json:"line"`        // where it was read
}

// ServerTimings is the server's own timing of the request, as it sent it.
type ServerTimings struct {
	CacheN              *int     `json:"cache_n"`
	PromptN             *int     `json:"prompt_n"`
	PromptMS            *float64 `json:"prompt_ms"`
	PromptPerTokenMS    *float64 `json:"prompt_per_token_ms"`
	PromptPerSecond     *float64 `json:"prompt_per_second"`
	PredictedN          *int     `json:"predicted_n"`
	PredictedMS         *float64 `json:"predicted_ms"`
	PredictedPerTokenMS *float64 `json:"predicted_per_token_ms"`
	PredictedPerSecond  *float64 `json:"predicted_per_second"`
	DraftN              *int     `json:"draft_n"`
	DraftNAccepted      *int     `json:"draft_n_accepted"`
}

// EngineRates are the engine's rates computed anew from its count and time.
type EngineRates struct {
	Prompt EngineRate `json:"prompt"`
	Decode EngineRate `json:"decode"`
}

// EngineRate is a rate beside the count and the time that it is made of.
type EngineRate struct {
	ReportedTokS *float64 `json:"reported_tok_s"` // as the engine says it
	TokS         *float64 `json:"tok_s"`          // computed from Tokens and MS; null when withheld
	Tokens       *int     `json:"tokens"`
	MS           *float64 `json:"ms"`
	Basis        *string  `json:"basis"` // what is divided by MS: "n", "n-1", "n with prefill" or "unknown"
	Source       *string  `json:"source"`
}

// Withheld is a figure that was computed and may not be shown.
type Withheld struct {
	Figure string   `json:"figure"` // its path in the row
	Value  *float64 `json:"value"`
	Unit   string   `json:"unit"`
	Codes  []string `json:"codes"`
	Why    string   `json:"why"`
}

// Host is the machine that the client ran on; package host says what each
// field means.
type Host struct {
	OS             *string `json:"os"`
	Distribution   *string `json:"distribution"`
	Kernel         *string `json:"kernel"`
	Arch           *string `json:"arch"`
	CPUModel       *string `json:"cpu_model"`
	Sockets        *int    `json:"sockets"`
	Cores          *int    `json:"cores"`
	CPUs           *int    `json:"cpus"`
	Governor       *string `json:"governor"`
	MemoryBytes    *int64  `json:"memory_bytes"`
	Virtualisation *string `json:"virtualisation"`

	Caches      []host.Cache      `json:"caches"`
	NUMANodes   []host.Node       `json:"numa_nodes"`
	SMT         *bool             `json:"smt"`
	Microcode   *string           `json:"microcode"`
	Mitigations map[string]string `json:"mitigations"`
	HugePages   *string           `json:"huge_pages"`
	Clock       *string           `json:"clock"`
	SwapBytes   *int64            `json:"swap_bytes"`
	GPUs        []GPU             `json:"gpus"`
	ModelDisk   ModelDisk         `json:"model_disk"`
}

// GPU is one graphics processor of the machine.
type GPU struct {
	Vendor        string  `json:"vendor"`
	Name          *string `json:"name"`
	PCIID         string  `json:"pci_id"`
	Slot          string  `json:"slot"`
	Driver        *string `json:"driver"`
	DriverVersion *string `json:"driver_version"`
	MemoryBytes   *int64  `json:"memory_bytes"`
}

// ModelDisk is where the model's files lie.
type ModelDisk struct {
	FileSystem *string  `json:"file_system"`
	Kind       *string  `json:"kind"`
	Device     *string  `json:"device"`
	Below      []string `json:"below"`
	Model      *string  `json:"model"`
	Rotational *bool    `json:"rotational"`
}

// Evidence is what was kept so that every figure can be computed again.
type Evidence struct {
	Dir   *string           `json:"dir"`   // relative to the journal's directory
	Files map[string]string `json:"files"` // name within Dir to sha256
}
