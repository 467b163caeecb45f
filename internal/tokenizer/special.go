package tokenizer

import "slices"

// attr says what a token is. A token can be several: one that is known by its
// text to end generation is control, whatever its type.
type attr uint8

const (
	unknown attr = 1 << iota
	unused
	normal
	control
	userDefined
	byteToken
)

// attrOfType is by the numbers of tokenizer.ggml.token_type. Other numbers are
// like 0: the token stands for nothing.
var attrOfType = [...]attr{
	1: normal, 2: unknown, 3: control, 4: userDefined, 5: unused, 6: byteToken,
}

// role is a purpose for which a file may name a token. Where it doesn't, the
// first of the texts that is a token has it.
type role struct {
	keys  []string // a later one goes before an earlier one
	texts []string
	ends  bool // generation ends with this token
}

// As llama.cpp has them. Texts of the first two are also in endTexts.
var tokenRoles = []role{
	{keys: []string{"tokenizer.ggml.eot_token_id"}, ends: true},
	{keys: []string{"tokenizer.ggml.eom_token_id"}, ends: true},
	{
		keys: []string{"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
		texts: []string{
			"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>",
			"<|code_prefix|>", "<|prefix|>",
		},
	},
	{
		keys: []string{"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
		texts: []string{
			"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>",
			"<|code_suffix|>", "<|suffix|>",
		},
	},
	{
		keys: []string{"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
		texts: []string{
			"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>",
			"<|code_middle|>", "<|middle|>",
		},
	},
	{
		keys:  []string{"tokenizer.ggml.fim_pad_token_id"},
		texts: []string{"<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]"},
		ends:  true,
	},
	{
		keys:  []string{"tokenizer.ggml.fim_rep_token_id"},
		texts: []string{"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"},
		ends:  true,
	},
	{
		keys:  []string{"tokenizer.ggml.fim_sep_token_id"},
		texts: []string{"<|file_sep|>"},
		ends:  true,
	},
}

// endTexts are the tokens that end generation wherever they occur. That Qwen2's
// plain token </s> is one of them is llama.cpp's doing: what a model may say
// should not depend on which of the two runs it.
var endTexts = []string{
	"<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
	"<end_of_turn>", "<|endoftext|>", "</s>", "<|eom_id|>", "<EOT>", "_<EOT>", "[EOT]", "[EOS]",
	"<|end_of_text|>", "<end_of_utterance>", "<eos>", "<turn|>", "<|tool_response>",
	"<｜end▁of▁sentence｜>", "[e~[",
}

// shownTexts are marks of gpt-oss that are shown although they are control.
var shownTexts = []string{"<|channel|>", "<|message|>", "<|start|>", "<|constrain|>"}

// roles returns the tokens of the roles that end generation. It makes those
// found by their text control tokens.
func (l *loader) roles() (ends []int32, err error) {
	for _, r := range tokenRoles {
		id := none
		for _, key := range r.keys {
			named, err := l.id(key)
			if err != nil {
				return nil, err
			}
			if named != none {
				id = named
			}
		}
		for _, text := range r.texts {
			if id != none {
				break
			}
			if found, ok := l.ids[text]; ok {
				id = found
				l.t.attrs[id] |= control
			}
		}
		if r.ends {
			ends = append(ends, id)
		}
	}
	return ends, nil
}

// endOfGeneration adds to the tokens that end generation by their role (none
// among them is skipped) those that do by their text, ascending.
func (l *loader) endOfGeneration(ids []int32) []int32 {
	for _, text := range endTexts {
		if id, ok := l.ids[text]; ok {
			ids = append(ids, id)
			l.t.attrs[id] |= control
		}
	}
	for _, text := range shownTexts {
		if id, ok := l.ids[text]; ok {
			l.t.attrs[id] = userDefined
		}
	}
	has := func(text string) bool {
		id, ok := l.ids[text]
		return ok && slices.Contains(ids, id)
	}
	// drop is for models in which a text of the list means something else.
	drop := func(text string, a attr) {
		id := l.ids[text]
		ids = slices.DeleteFunc(ids, func(other int32) bool { return other == id })
		l.t.attrs[id] = a
	}
	if call := has("<|call|>") || has("<|calls|>"); has("<|end|>") && call && (has("<|return|>") || has("<|flush|>")) {
		drop("<|end|>", userDefined) // the end of a part of the answer
	}
	if has("</s>") && has("<|tool_response>") {
		drop("</s>", normal)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	return slices.DeleteFunc(ids, func(id int32) bool { return id == none })
}
