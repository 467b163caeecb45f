package count

import (
	"fmt"

	"assay/internal/kit/stream"
)

// Read makes a source of v; with a nil v it is unread because of why.
func Read(name string, origin Origin, v *int, why string) Source {
	s := Source{Name: name, Origin: origin, Value: v}
	if v == nil {
		s.Why = why
	}
	return s
}

// FromStream gives the sources that the stream itself holds: usage, timings and
// the ids of tokens. Sources that this kind of stream never has are left out.
func FromStream(c *stream.Completion) []Source {
	var out []Source
	if c.Usage == nil {
		out = append(out, Read("usage.completion_tokens", ServerCounter, nil, "no usage in the stream"))
	} else {
		out = append(out, Read(c.Usage.Field, ServerCounter, c.Usage.Completion, "the server left it out"))
	}
	// Where timings are usage's own numbers they would only agree with themselves.
	if c.Timings != nil && !c.Timings.WholePrompt {
		out = append(out, Read("timings.predicted_n", ServerCounter, c.Timings.PredictedN, "timings have no predicted_n"))
	}
	if c.HasTokenIDs {
		out = append(out, ids(c))
	}
	return out
}

// ids counts the token ids of the stream. An engine that shows no frame for a
// token also shows no id, so a count of zero says nothing.
func ids(c *stream.Completion) Source {
	n := len(c.TokenIDs)
	if n == 0 {
		return Read("token ids", TokenIDs, nil, "the stream's lists of token ids are empty")
	}
	return Read("token ids", TokenIDs, &n, "")
}

// Recount counts the kept text by a tokenizer: the whole text, once, without
// special tokens. name says whose tokenizer it is. The source is unread, with
// the reason, when tok is nil or when the text does not hold every token.
func Recount(c *stream.Completion, name string, tok func(text string) []int32) Source {
	s := Source{Name: "text by " + name, Origin: Text}
	if tok == nil {
		s.Name, s.Why = "text", "no tokenizer of this model"
		return s
	}
	if ok, why := c.WholeText(); !ok {
		s.Why = why
		return s
	}
	n := len(tok(c.Joined))
	s.Value = &n
	return s
}

// Ends gives for each token the offset in text at which its bytes end, so that
// a place in the text can be turned into a number of tokens. It fails when the
// tokens' bytes are not the text's, as with a tokenizer that adds a space.
func Ends(text string, ids []int32, piece func(id int32) []byte) ([]int, error) {
	ends := make([]int, len(ids))
	at := 0
	for i, id := range ids {
		p := piece(id)
		if len(p) > len(text)-at || text[at:at+len(p)] != string(p) {
			return nil, fmt.Errorf("token %d of %d (id %d, %q) is not what the text holds at byte %d", i, len(ids), id, p, at)
		}
		at += len(p)
		ends[i] = at
	}
	if at != len(text) {
		return nil, fmt.Errorf("%d tokens hold %d bytes, the text %d", len(ids), at, len(text))
	}
	return ends, nil
}
