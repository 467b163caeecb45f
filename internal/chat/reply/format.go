// Package reply reads what a model writes after a chat's prompt: its reasoning,
// its text and its tool calls, as they come, a piece at a time.
//
// Models mark these in ways of their own, which their chat templates show. So
// the format is found in the template's text (see Detect):
//
//	Hermes   <tool_call>{"name": ..., "arguments": {...}}</tool_call>           Qwen2.5, Qwen3, Hermes
//	XML      <tool_call><function=NAME><parameter=KEY>value</parameter>...      Qwen3-Coder, Qwen3.5 and later
//	GLM      <tool_call>NAME<arg_key>KEY</arg_key><arg_value>value</arg_value>  GLM-4.5 and later
//	Harmony  <|channel|>commentary to=functions.NAME<|message|>{...}<|call|>    gpt-oss
//	Bare     {"name": ..., "parameters": {...}}, <|python_tag|> in front or not Llama 3, and templates without any of these
//
// and, of templates that are Bare otherwise, behind a mark of theirs (Format.Mark):
//
//	[TOOL_CALLS]                  NAME[ARGS]{...}, or [{"name": ..., "arguments": ...}]       Mistral
//	<｜tool▁calls▁begin｜>         ...NAME<｜tool▁sep｜>{...}, or function<｜tool▁sep｜>NAME     DeepSeek
//	<|tool_calls_section_begin|>  ...functions.NAME:0<|tool_call_argument_begin|>{...}        Kimi, LLaDA
//	<|tool_call_start|>           [NAME(key=value)]                                          LFM2
//	<function_calls>              NAME(key=value), a line each                               OLMo 3
//
// Reasoning is what stands between <think>, <seed:think> or [THINK] and its
// end, at the start of an answer or begun by the prompt's last words; and, of
// Harmony, the channel "analysis".
package reply

import "strings"

// Style is how tool calls are written.
type Style string

// The styles that are read.
const (
	Bare    Style = "bare"
	Hermes  Style = "hermes"
	XML     Style = "xml"
	GLM     Style = "glm"
	Harmony Style = "harmony"
)

// Format is what a template's model writes.
type Format struct {
	Style      Style
	ThinkOpen  string // "": no tags of reasoning
	ThinkClose string
	Mark       string // of Bare: what begins calls beside an object at the start; "": nothing
}

// The tags of reasoning that are known.
var thinkTags = [][2]string{
	{"<think>", "</think>"},
	{"<seed:think>", "</seed:think>"},
	{"[THINK]", "[/THINK]"},
}

// PythonTag stands before calls of Llama 3.
const PythonTag = "<|python_tag|>"

// Detect finds the format in a chat template's text.
func Detect(template string) Format {
	has := func(s string) bool { return strings.Contains(template, s) }
	f := Format{Style: Bare}
	switch {
	case has("<|channel|>") && has("<|start|>"):
		return Format{Style: Harmony}
	case has("<arg_key>"):
		f.Style = GLM
	case has("<tool_call>") && has("<function="):
		f.Style = XML
	case has("<tool_call>"):
		f.Style = Hermes
	}
	if f.Style == Bare {
		for _, known := range families {
			if has(known.mark) {
				f.Mark = known.mark
				break
			}
		}
	}
	for _, tags := range thinkTags {
		if has(tags[0]) || has(tags[1]) {
			f.ThinkOpen, f.ThinkClose = tags[0], tags[1]
			break
		}
	}
	return f
}

// Thinking says what a prompt's end tells of the reasoning of its answer.
type Thinking uint8

// The answer may begin with reasoning; the prompt has begun it; the prompt has
// ended it already, as templates do that are told to leave it out.
const (
	ThinkMaybe Thinking = iota
	ThinkBegun
	ThinkOver
)

// After is the state of the reasoning at the end of a prompt.
func (f Format) After(prompt string) Thinking {
	if f.ThinkOpen == "" {
		return ThinkMaybe
	}
	end := strings.TrimRight(prompt, " \n")
	switch {
	case strings.HasSuffix(end, f.ThinkOpen):
		return ThinkBegun
	case strings.HasSuffix(end, f.ThinkClose):
		return ThinkOver
	}
	return ThinkMaybe
}

// Marks are the texts that may be control tokens of a model and that a Parser
// with these options must see all the same.
func (f Format) Marks(o Options) []string {
	var marks []string
	if f.ThinkOpen != "" && o.Reasoning {
		marks = append(marks, f.ThinkOpen, f.ThinkClose)
	}
	switch {
	case len(o.Tools) == 0:
	case f.Style == Bare && f.Mark != "":
		of := familyOf(f.Mark)
		marks = append(append(marks, PythonTag, f.Mark), of.inner...)
		if of.end != "" {
			marks = append(marks, of.end)
		}
	case f.Style == Bare:
		marks = append(marks, PythonTag)
	case f.Style != Harmony: // whose marks the tokenizer shows anyway
		marks = append(marks, "<tool_call>", "</tool_call>")
	}
	return marks
}
