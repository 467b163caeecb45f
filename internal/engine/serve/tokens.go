package serve

import (
	"net/http"
	"unicode/utf8"

	"assay/internal/engine"
	"assay/internal/tokenizer"
)

// tokenWithPiece is a token of /tokenize with with_pieces: the text, or the
// bytes where they are no text of their own.
type tokenWithPiece struct {
	ID    int32 `json:"id"`
	Piece any   `json:"piece"`
}

// tokenize is POST /tokenize. As in llama-server nothing is added by default,
// while a completion's prompt gets a start token where the model has one.
func (s *Server) tokenize(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	f, err := s.readFields(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	defer f.release()
	if f.get("content") == nil {
		f.fail("content", "missing (want a string)")
	}
	text := f.string("content", "")
	options := tokenizer.Options{AddSpecial: f.bool("add_special", false), ParseSpecial: f.bool("parse_special", true)}
	withPieces := f.bool("with_pieces", false)
	if f.err != nil {
		writeError(w, f.err)
		return
	}
	t := e.Tokenizer()
	tokens := t.Encode(text, options)
	if !withPieces {
		if tokens == nil {
			tokens = []int32{} // [], not null
		}
		writeJSON(w, http.StatusOK, map[string]any{"tokens": tokens})
		return
	}
	out := make([]tokenWithPiece, len(tokens))
	for i, id := range tokens {
		out[i] = tokenWithPiece{id, pieceValue(t.Piece(id))}
	}
	writeJSON(w, http.StatusOK, map[string]any{"tokens": out})
}

func pieceValue(piece []byte) any {
	if utf8.Valid(piece) {
		return string(piece)
	}
	values := make([]int, len(piece)) // encoding/json writes []byte as base64
	for i, b := range piece {
		values[i] = int(b)
	}
	return values
}

// detokenize is POST /detokenize. Special tokens are written out.
func (s *Server) detokenize(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	f, err := s.readFields(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	defer f.release()
	raw := f.get("tokens")
	if raw == nil {
		f.fail("tokens", "missing (want an array of token ids)")
	}
	tokens := readTokens(f, "tokens", raw, e.Info().Vocabulary)
	if f.err != nil {
		writeError(w, f.err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"content": e.Tokenizer().Decode(tokens, true)})
}

// applyTemplate is POST /apply-template: the prompt that a chat request makes.
func (s *Server) applyTemplate(w http.ResponseWriter, r *http.Request, e *engine.Engine) {
	f, err := s.readFields(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	defer f.release()
	prompt, _, err := renderPrompt(f, e, &form{})
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"prompt": prompt})
}
