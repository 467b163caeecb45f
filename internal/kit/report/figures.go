package report

import (
	"slices"
	"strings"

	"assay/internal/kit/row"
)

// Figure is a figure that summaries and comparisons show.
type Figure struct {
	Path  string `json:"figure"` // in the row
	Name  string `json:"name"`   // on the command line: --metric, --fail-if
	Label string `json:"label"`  // in tables
	Unit  string `json:"unit"`
	Lower bool   `json:"lower_is_better"`
	// PerStart: a figure of the launch, which all of its runs share.
	PerStart bool `json:"per_start,omitempty"`

	less, more string // in a sentence, for a ratio under and over 1
	value      func(r *row.Row) *float64
}

const (
	decodePath = "decode_tok_s"
	ttftPath   = "ttft_ms"
	promptPath = "prompt_tok_s_client"
)

// mainFigures are the columns of the table, by their place in Figures.
const mainFigures = 3

// Figures are all that is summed up, in the order in which it is shown.
var Figures = []Figure{
	{Path: ttftPath, Name: "ttft", Label: "TTFT", Unit: "ms", Lower: true, less: "faster", more: "slower", value: func(r *row.Row) *float64 { return r.TTFTMS }},
	{Path: promptPath, Name: "prompt", Label: "prompt", Unit: "tok/s", less: "slower", more: "faster", value: func(r *row.Row) *float64 { return r.PromptTokSClient }},
	{Path: decodePath, Name: "decode", Label: "decode", Unit: "tok/s", less: "slower", more: "faster", value: func(r *row.Row) *float64 { return r.DecodeTokS }},
	{Path: "ttfv_ms", Name: "first-visible", Label: "first visible", Unit: "ms", Lower: true, less: "faster", more: "slower", value: func(r *row.Row) *float64 { return r.TTFVMS }},
	{Path: "rounds_per_s", Name: "rounds", Label: "rounds", Unit: "1/s", less: "slower", more: "faster", value: func(r *row.Row) *float64 { return r.RoundsPerS }},
	{Path: "tokens_per_round", Name: "tokens-per-round", Label: "tokens per round", Unit: "tokens", less: "less", more: "more", value: func(r *row.Row) *float64 { return r.TokensPerRound }},
	{Path: "gaps.median_ms", Name: "gap-p50", Label: "gap p50", Unit: "ms", Lower: true, less: "faster", more: "slower", value: func(r *row.Row) *float64 { return r.Gaps.MedianMS }},
	{Path: "gaps.p99_ms", Name: "gap-p99", Label: "gap p99", Unit: "ms", Lower: true, less: "faster", more: "slower", value: func(r *row.Row) *float64 { return r.Gaps.P99MS }},
	{Path: "load_ms", Name: "load", Label: "load", Unit: "ms", Lower: true, PerStart: true, less: "faster", more: "slower", value: func(r *row.Row) *float64 { return r.LoadMS }},
	{Path: "telemetry.board.j_per_prompt_token", Name: "gpu-j-prompt", Label: "GPU per prompt token", Unit: "J", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return r.Telemetry.Board.JPerPromptToken }},
	{Path: "telemetry.board.j_per_output_token", Name: "gpu-j-output", Label: "GPU per output token", Unit: "J", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return r.Telemetry.Board.JPerOutputToken }},
	{Path: "telemetry.rapl_package0.j_per_prompt_token", Name: "package-j-prompt", Label: "package (NOT WALL) per prompt token", Unit: "J", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return r.Telemetry.RAPLPackage0.JPerPromptToken }},
	{Path: "telemetry.rapl_package0.j_per_output_token", Name: "package-j-output", Label: "package (NOT WALL) per output token", Unit: "J", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return r.Telemetry.RAPLPackage0.JPerOutputToken }},
	{Path: "telemetry.wall.j_per_prompt_token", Name: "wall-j-prompt", Label: "wall per prompt token", Unit: "J", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return r.Telemetry.Wall.JPerPromptToken }},
	{Path: "telemetry.wall.j_per_output_token", Name: "wall-j-output", Label: "wall per output token", Unit: "J", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return r.Telemetry.Wall.JPerOutputToken }},
	{Path: "telemetry.pinned.vmrss_max_bytes", Name: "memory", Label: "peak memory", Unit: "MiB", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return mebibytes(r.Telemetry.Pinned.VmRSSMaxBytes) }},
	{Path: "telemetry.vram.growth_mib", Name: "gpu-memory", Label: "GPU memory growth", Unit: "MiB", Lower: true, less: "less", more: "more", value: func(r *row.Row) *float64 { return r.Telemetry.VRAM.GrowthMiB }},
}

func mebibytes(n *int64) *float64 {
	if n == nil {
		return nil
	}
	return new(float64(*n) / (1 << 20))
}

// FigureOf finds a figure by its path or its name.
func FigureOf(name string) (Figure, bool) {
	i := slices.IndexFunc(Figures, func(f Figure) bool { return f.Name == name || f.Path == name })
	if i < 0 {
		return Figure{}, false
	}
	return Figures[i], true
}

// otherLabels name figures that rows withhold and tables do not show.
var otherLabels = map[string]string{
	"decode_tok_s_simple": "decode by the simple rule",
	"decode_tok_s_server": "the engine's decode",
	"prompt_tok_s_server": "the engine's prompt",
	"gaps.p90_ms":         "gap p90",
	"gaps.max_ms":         "longest gap",
}

// meters are the parts of a row's telemetry that measure energy, in words.
var meters = []struct{ part, label string }{
	{"telemetry.board.", "GPU "}, {"telemetry.rapl_package0.", "package (NOT WALL) "}, {"telemetry.wall.", "wall "},
}

// Label is a figure's name in a sentence, whether it is one of Figures or not. Text
// of a row that is no figure's path stays as it is, but for what is not printable.
func Label(path string) string {
	if f, ok := FigureOf(path); ok {
		return f.Label
	}
	if l, ok := otherLabels[path]; ok {
		return l
	}
	for _, m := range meters {
		if rest, ok := strings.CutPrefix(path, m.part); ok {
			return m.label + clean(strings.ReplaceAll(rest, "_", " "))
		}
	}
	return clean(path)
}
