package target

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"assay/internal/kit/stream"
)

// learn finds out how a server of which little is known talks: by one streamed
// request for eight tokens, with every field that the adapter would like to send,
// before anything is measured. Fields that the server refuses, and those that it
// takes without giving what they ask for, are left out of all requests after it.
// What was not seen stays unknown.
func (t *Target) learn(ctx context.Context) error {
	const tokens, tries = 8, 12
	ask := Ask{Prompt: "Count from one to twenty.", MaxTokens: tokens, IgnoreEOS: true}
	t.left = map[string]string{}
	for range tries {
		body, err := t.Body(ask)
		if err != nil {
			return err
		}
		rec, err := t.streamed(ctx, body)
		if err != nil {
			return err
		}
		if rec.Status == http.StatusOK {
			return t.understand(rec, body, tokens)
		}
		words := inWords(rec.Body())
		if rec.Status != http.StatusBadRequest && rec.Status != http.StatusUnprocessableEntity || !t.leaveOut(body, words) {
			return fmt.Errorf("POST %s: status %d: %s", t.Adapter.Endpoint(), rec.Status, words)
		}
	}
	return fmt.Errorf("POST %s: the server refused the request %d times, each time with another field left out", t.Adapter.Endpoint(), tries)
}

// streamed asks for a stream; a status that tells of an error is no error here.
func (t *Target) streamed(ctx context.Context, body []byte) (*stream.Recording, error) {
	ctx, cancel := context.WithTimeout(ctx, firstAnswer)
	defer cancel()
	rec, err := stream.Do(ctx, stream.Options{}, stream.Request{URL: t.Endpoint(), Header: t.Header(), Body: body})
	var failed *stream.Error
	if err != nil && !(errors.As(err, &failed) && failed.Phase == stream.PhaseStatus && rec != nil) {
		return nil, fmt.Errorf("POST %s: %w", t.Adapter.Endpoint(), err)
	}
	return rec, nil
}

// firstAnswer is how long the first token may take; a server may load its model
// for it.
const firstAnswer = 10 * time.Minute

// needed are the fields without which there is no request.
var needed = []string{"model", "messages", "stream", "max_tokens", "max_completion_tokens"}

// leaveOut leaves a field out of all requests to come because of the server's
// words: the one that they name, else the last in the alphabet. false: there is
// none left.
func (t *Target) leaveOut(body []byte, words string) bool {
	names := optional(body)
	if strings.Contains(words, "max_completion_tokens") && strings.Contains(words, "max_tokens") && t.limitName == "" {
		t.limitName = "max_completion_tokens"
		return true
	}
	if len(names) == 0 {
		return false
	}
	// Nested names first: they hold the name of what they are in.
	slices.SortFunc(names, func(a, b string) int { return strings.Count(b, ".") - strings.Count(a, ".") })
	choice := names[0]
	for _, name := range names {
		if lists(words, name[strings.LastIndexByte(name, '.')+1:]) {
			choice = name
			break
		}
	}
	t.left[choice] = "refused: " + words
	return true
}

// optional are the fields of a request that it can go without, those within others
// by path.
func optional(body []byte) []string {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil {
		return nil
	}
	var names []string
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		if slices.Contains(needed, name) {
			continue
		}
		names = append(names, name)
		var inner map[string]json.RawMessage
		if json.Unmarshal(fields[name], &inner) == nil && len(inner) > 1 {
			for _, n := range slices.Sorted(maps.Keys(inner)) {
				names = append(names, name+"."+n)
			}
		}
	}
	return names
}

// without takes the fields that are left out from a request.
func (t *Target) without(body map[string]any) {
	for path := range t.left {
		name, inner, nested := strings.Cut(path, ".")
		if !nested {
			delete(body, name)
			continue
		}
		switch m := body[name].(type) {
		case map[string]bool:
			delete(m, inner)
		case map[string]any:
			delete(m, inner)
		}
	}
	if t.limitName != "" {
		body[t.limitName] = body["max_tokens"]
		delete(body, "max_tokens")
	}
}

// The fields by which tokens can be placed in a stream, and what they bring.
const (
	runningField = "stream_options.continuous_usage_stats"
	idsField     = "return_token_ids"
)

// understand reads what the first stream shows of the server.
func (t *Target) understand(rec *stream.Recording, body []byte, asked int) error {
	kind, err := rec.KindOf()
	if err != nil {
		return fmt.Errorf("POST %s: %w", t.Adapter.Endpoint(), err)
	}
	frames, err := stream.Frames(rec, kind)
	if err != nil {
		return fmt.Errorf("POST %s: %w", t.Adapter.Endpoint(), err)
	}
	c := stream.Decode(frames)
	if len(c.Errors) > 0 {
		return fmt.Errorf("POST %s: status 200, and an error in the stream: %s", t.Adapter.Endpoint(), strings.Join(c.Errors, "; "))
	}
	sent := optional(body)
	if slices.Contains(sent, runningField) && !c.RunningCount {
		t.left[runningField] = "taken, but no running count came"
	}
	if slices.Contains(sent, idsField) {
		switch {
		case !c.HasTokenIDs:
			t.left[idsField] = "taken, but no token ids came"
		case c.RunningCount:
			t.left[idsField] = "not needed: a running count comes with each frame"
		}
	}
	found := seen(frames, c, asked)
	for path, why := range t.left {
		found["left_out."+path] = why
	}
	if t.limitName != "" {
		found["limit"] = t.limitName
	}
	if t.Identity.Found == nil {
		t.Identity.Found = map[string]string{}
	}
	maps.Copy(t.Identity.Found, found)
	return nil
}

// seen says in words how a stream was made.
func seen(frames []stream.Frame, c *stream.Completion, asked int) map[string]string {
	out := map[string]string{
		"role": roles(frames), "reasoning": reasoningName(frames), "usage": usages(frames), "terminator": "none",
		"comments": fmt.Sprint(c.Comments), "token_ids": "none came", "running_count": "none came", "finish_reason": "none came",
	}
	if c.Done {
		out["terminator"] = "[DONE]"
	}
	if c.HasTokenIDs {
		out["token_ids"] = fmt.Sprintf("%d ids came", len(c.TokenIDs))
	}
	if c.RunningCount {
		out["running_count"] = "with each frame of text"
	}
	if c.FinishReason != "" {
		out["finish_reason"] = c.FinishReason
	}
	for _, name := range []string{"timings", "metrics", "stats"} {
		out[name] = "none came"
		if raw, ok := c.Objects[name]; ok {
			out[name] = "an object with " + strings.Join(fieldNames(raw), ", ")
		}
	}
	out["length"] = "not known: the server tells no count"
	if u := c.Usage; u != nil && u.Completion != nil {
		out["length"] = fmt.Sprintf("%d of %d tokens", *u.Completion, asked)
	}
	if c.Unknown > 0 {
		out["unknown_frames"] = fmt.Sprintf("%d; the first: %s", c.Unknown, c.UnknownFirst)
	}
	return out
}

// fieldNames are the names in an object, as many as a reader wants to see.
func fieldNames(raw json.RawMessage) []string {
	const most = 24
	var fields map[string]json.RawMessage
	if json.Unmarshal(raw, &fields) != nil {
		return nil
	}
	names := slices.Sorted(maps.Keys(fields))
	return names[:min(len(names), most)]
}

// piece is the part of a frame that tells of its shape.
type piece struct {
	Choices []struct {
		Delta  map[string]json.RawMessage `json:"delta"`
		Finish *string                    `json:"finish_reason"`
	} `json:"choices"`
	Usage map[string]json.RawMessage `json:"usage"`
}

// pieces are the data frames that have the shape of OpenAI's.
func pieces(frames []stream.Frame) []piece {
	var out []piece
	for i := range frames {
		var p piece
		if !frames[i].Comment && json.Unmarshal([]byte(frames[i].Data), &p) == nil {
			out = append(out, p)
		}
	}
	return out
}

// texts are the names under which a delta may hold generated text.
var texts = []string{"content", "reasoning_content", "reasoning", "thinking"}

// text says whether a delta holds text under a name.
func text(delta map[string]json.RawMessage, name string) bool {
	var s string
	return json.Unmarshal(delta[name], &s) == nil && s != ""
}

// roles says where the role stands.
func roles(frames []stream.Frame) string {
	alone, with, bare := 0, 0, 0
	for _, p := range pieces(frames) {
		for _, ch := range p.Choices {
			has := slices.ContainsFunc(texts, func(n string) bool { return text(ch.Delta, n) })
			switch _, role := ch.Delta["role"]; {
			case role && has:
				with++
			case role:
				alone++
			case has:
				bare++
			}
		}
	}
	switch {
	case alone == 0 && with == 0:
		return "never"
	case alone > 0 && with == 0:
		return "in a frame without text"
	case with > 1 || bare == 0:
		return "in every frame"
	}
	return "with the first text"
}

// reasoningName is what reasoning is called, if any came.
func reasoningName(frames []stream.Frame) string {
	for _, p := range pieces(frames) {
		for _, ch := range p.Choices {
			for _, name := range texts[1:] {
				if text(ch.Delta, name) {
					return name
				}
			}
		}
	}
	return "none came"
}

// usages says which frames carry the usage object.
func usages(frames []stream.Frame) string {
	n, all, finish, bare := 0, 0, 0, 0
	for _, p := range pieces(frames) {
		all++
		if p.Usage == nil {
			continue
		}
		n++
		switch {
		case len(p.Choices) == 0:
			bare++
		case p.Choices[0].Finish != nil:
			finish++
		}
	}
	switch {
	case n == 0:
		return "none came"
	case n > 1 && n >= all-1:
		return "with every frame"
	case bare > 0:
		return "in a frame of its own"
	case finish > 0:
		return "in the frame with finish_reason"
	}
	return fmt.Sprintf("in %d of %d frames", n, all)
}
