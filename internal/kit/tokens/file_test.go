package tokens

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"assay/models/seedling"
)

// small is a tokenizer.json of two letters and what they merge to.
const small = `{
	"added_tokens": [{"id": 3, "content": "<|im_end|>", "special": true}],
	"pre_tokenizer": {"type": "Sequence", "pretokenizers": [
		{"type": "Split", "behavior": "Isolated", "invert": false, "pattern": {"Regex":
			"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"}},
		{"type": "ByteLevel", "add_prefix_space": false, "use_regex": false}
	]},
	"decoder": {"type": "ByteLevel"},
	"model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "ab": 2}, "merges": ["a b"]}
}`

func TestFromFile(t *testing.T) {
	tests := []struct {
		file, data string
		text       string
		tokens     int
		prompt     bool // whether chat prompts can be counted
	}{
		{"tokenizer.json", small, "abab", 2, false},
		{"OTHER.JSON", small, "ab", 1, false},
		{"model.gguf", string(seedling.GGUF), "Hello", -1, true},
	}
	for _, tt := range tests {
		t.Run(tt.file, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), tt.file)
			if err := os.WriteFile(path, []byte(tt.data), 0o644); err != nil {
				t.Fatal(err)
			}
			c, err := FromFile(path, "that file")
			if err != nil {
				t.Fatal(err)
			}
			ids, err := c.Encode(tt.text)
			if err != nil {
				t.Fatal(err)
			}
			if tt.tokens >= 0 && len(ids) != tt.tokens {
				t.Errorf("%q is %v, want %d tokens", tt.text, ids, tt.tokens)
			}
			var back strings.Builder
			for _, id := range ids {
				back.Write(c.Piece(id))
			}
			if back.String() != tt.text || c.Name != "that file" {
				t.Errorf("%q came back as %q from %q", tt.text, back.String(), c.Name)
			}
			if (c.Prompt != nil) != tt.prompt {
				t.Errorf("chat prompts can be counted: %t, want %t", c.Prompt != nil, tt.prompt)
			}
			if !tt.prompt {
				return
			}
			// The template outlives the file too.
			if size, err := c.Prompt(Chat{Messages: json.RawMessage(`[{"role":"user","content":"Hello nonce"}]`)}, "nonce"); err != nil || size.Total == nil || *size.Total <= size.BeforeNonce {
				t.Errorf("Prompt = %+v, %v", size, err)
			}
		})
	}
}

func TestFromFileErrorsNameTheFile(t *testing.T) {
	for _, file := range []string{"none.gguf", "none.json", "bad.gguf", "bad.json"} {
		path := filepath.Join(t.TempDir(), file)
		if strings.HasPrefix(file, "bad") {
			if err := os.WriteFile(path, []byte("{}"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := FromFile(path, file); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("error %v doesn't name %s", err, path)
		}
	}
}
