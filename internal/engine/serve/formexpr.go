package serve

import (
	"encoding/json"
	"slices"
	"strings"

	"assay/internal/chat/reply"
	"assay/internal/engine/grammar"
)

// answerExpr is the whole of an answer: its reasoning, where the format has
// any, and then text of a form, or calls. Without a form (text is nil) text is
// free, and calls are kept in theirs from the tag on that begins one. It is nil
// where all is free.
func answerExpr(format reply.Format, after reply.Thinking, must, many bool, text, calls *grammar.Expr) *grammar.Expr {
	if format.Style == reply.Harmony {
		return harmonyExpr(must, text, calls)
	}
	lines := grammar.Repeat(grammar.Lit("\n"), 0, 2)
	var body *grammar.Expr
	switch {
	case calls != nil && (must || text != nil):
		several := calls
		if many && format.Style != reply.Bare {
			several = grammar.Seq(calls, grammar.Repeat(grammar.Seq(grammar.Opt(grammar.Lit("\n")), calls), 0, -1))
		}
		body = several
		if !must {
			body = grammar.Alt(text, several)
		}
	case text != nil:
		body = text
	case format.Style == reply.Bare: // nothing tells a call from text before it is over
		return nil
	default:
		const tag = "<tool_call>" // calls begin with it, too
		most := 1
		if many {
			most = -1
		}
		one := grammar.Seq(grammar.Until(tag), grammar.Behind(tag, calls))
		body = grammar.Seq(grammar.Repeat(one, 0, most), grammar.Without(tag))
	}
	if format.ThinkOpen == "" {
		return body
	}
	thought := grammar.Seq(grammar.Until(format.ThinkClose), lines)
	switch after {
	case reply.ThinkBegun:
		return grammar.Seq(thought, body)
	case reply.ThinkMaybe:
		return grammar.Seq(grammar.Opt(grammar.Seq(grammar.Mark(format.ThinkOpen), thought)), body)
	}
	return body
}

// harmonyExpr is an answer in gpt-oss's channels.
func harmonyExpr(must bool, text, calls *grammar.Expr) *grammar.Expr {
	analysis := grammar.Seq(grammar.Lit("<|channel|>analysis<|message|>"), grammar.Until("<|end|>"), grammar.Lit("<|start|>assistant"))
	var body *grammar.Expr
	switch {
	case calls != nil && must:
		body = calls
	case text == nil:
		return nil
	default:
		body = grammar.Seq(grammar.Lit("<|channel|>final"), grammar.Opt(grammar.Lit(" <|constrain|>json")), grammar.Lit("<|message|>"), text)
		if calls != nil {
			body = grammar.Alt(body, calls)
		}
	}
	return grammar.Seq(grammar.Opt(analysis), body)
}

// callWriter makes the grammar of a call in a format.
type callWriter struct {
	style reply.Style
}

func (w callWriter) call(t tool) (*grammar.Expr, error) {
	if w.style == reply.XML || w.style == reply.GLM {
		return w.tagged(t)
	}
	arguments, err := grammar.Schema(t.parameters)
	if err != nil {
		return nil, err
	}
	name, _ := json.Marshal(t.name) // letters and digits
	head := func(key string) *grammar.Expr {
		return grammar.Seq(grammar.Lit(`{"name":`), grammar.Blank(), grammar.Lit(string(name)+","), grammar.Blank(), grammar.Lit(`"`+key+`":`), grammar.Blank(), arguments, grammar.Blank(), grammar.Lit("}"))
	}
	switch w.style {
	case reply.Hermes:
		return grammar.Seq(grammar.Lit("<tool_call>"), grammar.Blank(), head("arguments"), grammar.Blank(), grammar.Lit("</tool_call>")), nil
	case reply.Harmony:
		return grammar.Seq(grammar.Lit("<|channel|>commentary to=functions."+t.name+" <|constrain|>json<|message|>"), arguments), nil
	}
	return head("parameters"), nil
}

// tagged is a call whose values stand between tags: texts as they are, other
// values as JSON.
func (w callWriter) tagged(t tool) (*grammar.Expr, error) {
	names, required, ok := grammar.Properties(t.parameters)
	if !ok {
		names, required = nil, nil // nothing to be named: no arguments
	}
	body := grammar.Seq()
	for _, n := range names {
		if strings.ContainsAny(n, "<>\n") {
			return nil, &grammar.SchemaError{Problems: []string{"a parameter's name has <, > or a line's end in it"}}
		}
		value, isText, err := grammar.Property(t.parameters, n)
		if err != nil {
			return nil, err
		}
		open, end := "<parameter="+n+">\n", "\n</parameter>\n"
		if w.style == reply.GLM {
			open, end = "<arg_key>"+n+"</arg_key>\n<arg_value>", "</arg_value>\n"
		}
		if isText {
			value = grammar.Until(end)
		} else {
			value = grammar.Seq(value, grammar.Lit(end))
		}
		one := grammar.Seq(grammar.Lit(open), value)
		if !slices.Contains(required, n) {
			one = grammar.Opt(one)
		}
		body = grammar.Seq(body, one)
	}
	if w.style == reply.GLM {
		return grammar.Seq(grammar.Lit("<tool_call>"+t.name+"\n"), body, grammar.Lit("</tool_call>")), nil
	}
	return grammar.Seq(grammar.Lit("<tool_call>"), grammar.Opt(grammar.Lit("\n")), grammar.Lit("<function="+t.name+">\n"), body, grammar.Lit("</function>\n</tool_call>")), nil
}
