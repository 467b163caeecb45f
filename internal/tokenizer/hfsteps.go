package tokenizer

import (
	"fmt"
	"strconv"
)

// How a tokenizer.json spells the rules.
const (
	hfContraction = `(?i:'s|'t|'re|'ve|'m|'ll|'d)`
	hfTail        = `|\s*[\r\n]+|\s+(?!\S)|\s+`
	hfQwen2       = hfContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*` + hfTail
	hfQwen35      = hfContraction + `|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*` + hfTail
	hfLlama3      = hfContraction + `|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*` + hfTail
	hfUpper       = `[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]`
	hfLower       = `[\p{Ll}\p{Lm}\p{Lo}\p{M}]`
	hfO200k       = `[^\r\n\p{L}\p{N}]?` + hfUpper + `*` + hfLower + `+` + hfContraction + `?|[^\r\n\p{L}\p{N}]?` + hfUpper + `+` + hfLower + `*` + hfContraction + `?` +
		`|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*` + hfTail
)

var hfRules = map[string]splitter{hfQwen2: ruleQwen2.split, hfQwen35: ruleQwen35.split, hfLlama3: ruleLlama3.split, hfO200k: splitO200k}

// checkSteps says whether what surrounds the model is what this package does.
func (h *hfLoader) checkSteps() error {
	if n := h.file.Normalizer; n != nil && n.Type != "NFC" {
		return h.errorf("normalizer.type", "%s is not supported; want NFC or no normalizer", quote(n.Type))
	}
	if err := h.checkPreTokenizer(); err != nil {
		return err
	}
	// That of type ByteLevel is about offsets only. Others add tokens.
	if p := h.file.PostProcessor; p != nil && p.Type != "ByteLevel" {
		return h.errorf("post_processor.type", "%s is not supported; want ByteLevel or no post_processor", quote(p.Type))
	}
	if d := h.file.Decoder; d == nil || d.Type != "ByteLevel" {
		return h.errorf("decoder.type", "%s is not supported; want ByteLevel", quote(typeOf(d)))
	}
	return nil
}

func typeOf(s *hfStep) string {
	if s == nil {
		return "null"
	}
	return s.Type
}

// checkPreTokenizer wants the cut into words, then the byte alphabet.
func (h *hfLoader) checkPreTokenizer() error {
	const at = "pre_tokenizer"
	p := h.file.PreTokenizer
	if typeOf(p) != "Sequence" {
		return h.errorf(at+".type", "%s is not supported; want a Sequence of Split and ByteLevel", quote(typeOf(p)))
	}
	steps := p.PreTokenizers
	if len(steps) != 2 {
		return h.errorf(at+".pretokenizers", "has %d steps; want two, Split and ByteLevel", len(steps))
	}
	for i, want := range []string{"Split", "ByteLevel"} {
		if got := steps[i].Type; got != want {
			return h.errorf(fmt.Sprintf("%s.pretokenizers[%d].type", at, i), "%s is not supported; want %s", quote(got), want)
		}
	}
	split, bytes := steps[0], steps[1]
	rule, ok := hfRules[split.Pattern.Regex]
	if !ok {
		return h.errorf(at+".pretokenizers[0].pattern.Regex", "%s is not supported; supported are those of qwen2 (%s), qwen35, llama3 and o200k",
			quoteUpTo(200, split.Pattern.Regex), strconv.Quote(hfQwen2))
	}
	h.t.rule.split = rule
	if split.Behavior != "Isolated" || split.Invert {
		return h.errorf(at+".pretokenizers[0]", "behavior %s with invert %t is not supported; want \"Isolated\" with false",
			quote(split.Behavior), split.Invert)
	}
	for _, f := range []struct {
		name string
		on   *bool
	}{{"add_prefix_space", bytes.AddPrefixSpace}, {"use_regex", bytes.UseRegex}} {
		if f.on == nil || *f.on {
			return h.errorf(at+".pretokenizers[1]."+f.name, "true, or absent, is not supported; want false")
		}
	}
	return nil
}
