package derive

import (
	"encoding/json"
	"fmt"
	"slices"

	"assay/internal/kit/count"
	"assay/internal/kit/evidence"
	"assay/internal/kit/row"
	"assay/internal/kit/tokens"
)

// CountPrompt counts the rendered prompt of a request, which holds the nonce.
func CountPrompt(c *tokens.Counter, request []byte, nonce string) Prompt {
	p := Prompt{Nonce: nonce}
	switch {
	case c.Encode == nil:
		p.Why = c.Why
		return p
	case c.Prompt == nil:
		p.Why = "the model's chat template is not known"
		return p
	}
	var chat tokens.Chat
	err := json.Unmarshal(request, &chat)
	var size tokens.Size
	if err == nil {
		size, err = c.Prompt(chat, nonce)
	}
	if err != nil {
		p.Why = err.Error()
		return p
	}
	p.Total, p.BeforeNonce = size.Total, &size.BeforeNonce
	if p.Total == nil {
		p.Why = "the server renders the prompt, but is not asked for its count: that would be its own word again"
	}
	return p
}

// CountText tokenises the completion of a run once, whole.
func CountText(c *tokens.Counter, rec *evidence.Record) Text {
	if c.Encode == nil {
		return Text{Why: c.Why}
	}
	t := Text{Tokenizer: c.Name}
	completion, _ := Completion(rec)
	if ok, why := completion.WholeText(); !ok {
		t.Why = why
		return t
	}
	ids, err := c.Encode(completion.Joined)
	if err != nil {
		t.Why = err.Error()
		return t
	}
	if c.Piece != nil {
		// Where the pieces are not the text's bytes, only their number is known.
		if ends, err := count.Ends(completion.Joined, ids, c.Piece); err == nil {
			t.Ends = ends
			return t
		}
	}
	t.IDs = append([]int32{}, ids...)
	return t
}

// Recount counts text and prompt anew, as far as they were counted, and says
// what of the kept counts is not what the tokenizer gives.
func (f *Facts) Recount(c *tokens.Counter, rec *evidence.Record) []error {
	var wrong []error
	old := f.Text
	if old.Ends != nil || old.IDs != nil {
		f.Text = CountText(c, rec)
		f.Text.Tokenizer = old.Tokenizer
		switch now := &f.Text; {
		case now.Why != "":
			wrong = append(wrong, fmt.Errorf("%s: facts.text: %s", evidence.MetaFile, now.Why))
			f.Text = old
		case old.Ends != nil && !slices.Equal(old.Ends, now.Ends):
			wrong = append(wrong, fmt.Errorf("%s: facts.text.ends: %d tokens, but %s makes %d of the text, or others", evidence.MetaFile, len(old.Ends), c.Name, len(now.Ends)+len(now.IDs)))
		case old.Ends == nil:
			// The server's ids may be of another build of the tokenizer; what counts is
			// their number.
			if n := len(now.Ends) + len(now.IDs); n != len(old.IDs) {
				wrong = append(wrong, fmt.Errorf("%s: facts.text.ids: %d tokens, but %s makes %d of the text", evidence.MetaFile, len(old.IDs), c.Name, n))
			}
			f.Text = Text{Tokenizer: old.Tokenizer, IDs: make([]int32, len(now.Ends)+len(now.IDs))}
		}
	}
	if c.Prompt == nil || f.Prompt.BeforeNonce == nil {
		return wrong
	}
	p := CountPrompt(c, rec.Request, f.Prompt.Nonce)
	if p.BeforeNonce == nil {
		return append(wrong, fmt.Errorf("%s: facts.prompt: %s", evidence.MetaFile, p.Why))
	}
	if f.Prompt.Total == nil {
		p.Total, p.Why = nil, f.Prompt.Why
	}
	f.Prompt = p
	return wrong
}

// Later makes a run's row once more with its text counted by c, where the run
// itself could not count it: the second of the two stages at which a count is
// checked. It returns nil where the run did count, or where c can't either.
func Later(rec *evidence.Record, f Facts, c *tokens.Counter) (*row.Row, error) {
	if f.Text.Ends != nil || f.Text.IDs != nil {
		return nil, nil
	}
	if f.Text = CountText(c, rec); f.Text.Ends == nil && f.Text.IDs == nil {
		return nil, nil
	}
	return Row(rec, &f)
}
