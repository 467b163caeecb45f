package row

// EngineBlock is what our engine says of itself. Its keys are those of the
// engine that the row format was first used with, so that rows line up.
type EngineBlock struct {
	HitRateLog            *float64      `json:"hit_rate_log"` // percent of expert lookups found in the fast tier
	Hits                  *int64        `json:"hits"`
	Lookups               *int64        `json:"lookups"`
	HitRateLine           *string       `json:"hit_rate_line"` // the log line the three were read from, or "absent"
	Offloaded             *int64        `json:"offloaded"`     // lookups served over PCIe
	PCIeShareLog          *float64      `json:"pcie_share_log"`
	Routed                *int64        `json:"routed"` // lookups + offloaded
	DraftsAccepted        *int          `json:"drafts_accepted"`
	DraftsOffered         *int          `json:"drafts_offered"`
	EngineGenerated       *int          `json:"engine_generated"` // tokens, as the engine counted them
	EngineDecodeTokS      *float64      `json:"engine_decode_tok_s"`
	EnginePromptTokS      *float64      `json:"engine_prompt_tok_s"`
	Reused                *int          `json:"reused"` // prompt tokens taken from the cache
	Metrics               EngineMetrics `json:"metrics"`
	TokensPerRoundDerived *float64      `json:"tokens_per_round_derived"` // engine_generated / (engine_generated - drafts_accepted)
	TokensPerRoundRule    *string       `json:"tokens_per_round_rule"`
	Drafting              *Drafting     `json:"drafting,omitempty" row:"optional"` // only where the engine can draft
}

// Drafting is what our engine says of its rounds: passes that generate, the
// prompt's own left out.
type Drafting struct {
	From               *string         `json:"from"`    // where drafts and rounds were read: timings, log or /metrics
	Drafter            *string         `json:"drafter"` // who guesses
	Most               *int            `json:"most"`    // drafts of a round, by /props
	Rounds             *int            `json:"rounds"`
	TokensPerRound     *float64        `json:"tokens_per_round"` // by the rule below
	TokensPerRoundRule *string         `json:"tokens_per_round_rule"`
	RoundsPerS         *float64        `json:"rounds_per_s"` // rounds over the engine's own time
	Metrics            DraftingMetrics `json:"metrics"`
}

// DraftingMetrics is the request's share of the engine's totals.
type DraftingMetrics struct {
	DraftsOffered  *int `json:"drafts_offered"`
	DraftsAccepted *int `json:"drafts_accepted"`
	Rounds         *int `json:"rounds"`
}

// EngineMetrics is the request's entry in the engine's /metrics.
type EngineMetrics struct {
	HitRate         *float64 `json:"hit_rate"`
	PCIeShare       *float64 `json:"pcie_share"`
	DecodeTokS      *float64 `json:"decode_tok_s"`
	EngineGenerated *int     `json:"engine_generated"`
	PromptMS        *float64 `json:"prompt_ms"`
	DecodeMS        *float64 `json:"decode_ms"`
	Reused          *int     `json:"reused"`
	OutputTokens    *int     `json:"output_tokens"`
	Finish          *string  `json:"finish"`
	Projection      *string  `json:"projection"`
}
