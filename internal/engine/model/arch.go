package model

import (
	"maps"
	"slices"
)

// architectures are by general.architecture. Each reads its hyper-parameters and
// says how the model is put together; see docs/adding-a-model.md.
var architectures = map[string]func(b *builder) family{
	"deepseek2":  deepseek2,
	"gemma3":     gemma3,
	"glm4moe":    glm4moe,
	"gpt-oss":    gptOss,
	"granitemoe": granite,
	"lfm2moe":    lfm2,
	"llama":      llama,
	"olmoe":      olmoe,
	"qwen2":      qwen2,
	"qwen3":      qwen3,
	"qwen35moe":  qwen35,
	"qwen3moe":   qwen3,
	"qwen3next":  qwen35,
	"qwen4exp":   qwen4,
}

// family is what an architecture's function returns. The zero value of a field is
// the usual case.
type family struct {
	layer      func(i int) layer // layer i, whose tensors are named blk.i.*
	embedScale float32           // that embeddings are multiplied by
	streams    int               // the residual stream is so many times as wide
	outputNorm string            // its tensor; output_norm.weight
	ending     func() ending     // in place of the output norm
	logitScale float32           // that logits are divided by
}

// Architectures are those that this engine runs, in alphabetical order.
func Architectures() []string { return slices.Sorted(maps.Keys(architectures)) }
