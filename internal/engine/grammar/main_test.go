package grammar

import (
	"sync"
	"testing"

	"assay/internal/gguf"
	"assay/internal/tokenizer"
	"assay/models/seedling"
)

var sharedVocabulary = sync.OnceValues(func() (*Vocabulary, error) {
	f, err := gguf.Parse(seedling.Name, seedling.GGUF)
	if err != nil {
		return nil, err
	}
	t, err := tokenizer.New(f)
	if err != nil {
		return nil, err
	}
	return NewVocabulary(t), nil
})

// vocabulary is the built-in model's.
func vocabulary(t testing.TB) *Vocabulary {
	t.Helper()
	v, err := sharedVocabulary()
	if err != nil {
		t.Fatal(err)
	}
	return v
}
