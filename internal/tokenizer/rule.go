package tokenizer

import (
	"maps"
	"slices"
	"strings"
)

// splitter cuts a text into words and hands over each, in order. No word is empty.
type splitter func(text string, word func(string))

// rule is how a pre-tokeniser prepares a text.
type rule struct {
	split splitter
	// wholeWords: a word that is a token is that token, whatever the merges say.
	wholeWords bool
}

// rules are by the labels of tokenizer.ggml.pre, those that mean the same
// together.
var rules = func() map[string]rule {
	out := map[string]rule{}
	for _, r := range []struct {
		labels string
		rule
	}{
		{"qwen2 deepseek-r1-qwen f2llmv2 grok-2 hunyuan kormo megrez solar-open stablelm2", rule{split: ruleQwen2.split}},
		{"qwen35", rule{split: ruleQwen35.split}},
		{"llama-bpe llama3 llama-v3 falcon3 falcon-h1 pixtral midm-2.0 lfm2", rule{split: ruleLlama3.split, wholeWords: true}},
		{"dbrx smaug-bpe glm4 chatglm-bpe", rule{split: ruleLlama3.split}},
		{"gpt-2 phi-2 jina-es jina-de jina-v2-es jina-v2-de a.x-4.0 mellum modern-bert mpt olmo jais trillion granite-docling", rule{split: splitGPT2}},
		{"gpt-4o llama4 kanana2", rule{split: splitO200k}},
		{"starcoder refact command-r smollm codeshell exaone minerva-7b", rule{split: inSteps(stepsDigits, splitGPT2)}},
		{"deepseek-llm", rule{split: inSteps(stepsDeepseekLLM, nil)}},
		{"deepseek-coder", rule{split: inSteps(stepsDeepseekCoder, nil)}},
		{"deepseek-v3 hunyuan-dense", rule{split: inSteps(stepsDeepseekV3, splitV3)}},
	} {
		for label := range strings.FieldsSeq(r.labels) {
			out[label] = r.rule
		}
	}
	return out
}()

// inSteps cuts by steps, and what they leave by a last rule, if there is one.
func inSteps(st func() steps, last splitter) splitter {
	return func(text string, word func(string)) { st().split(text, last, word) }
}

// labels lists those that are supported, for errors.
func labels() string {
	return strings.Join(slices.Sorted(maps.Keys(rules)), ", ")
}
