package model

import (
	"encoding/json"
	"os"
	"testing"

	"assay/internal/engine/kernel"
	"assay/internal/engine/kv"
)

// A real model, trained by others, goes on as llama.cpp does: along llama.cpp's own
// greedy text the best token is the same at every step, but for near ties of its two
// best. tools/peers/gemma3.sh gives the model and the text.
//
// Both engines round activations to 8 bits, at different places. Over 224 positions of
// these texts (the first 32 steps of seven), the lead of the best token over the second
// was off the exact one, that of package ref, by 0.17 here and by 0.18 in llama.cpp
// (root mean square), so a margin of 0.2 is no more than one such error. One position
// in a hundred may therefore go the other way at up to twice the margin.
func TestGreedyTextOfARealModel(t *testing.T) {
	path := os.Getenv("ASSAY_PEER_MODEL")
	if path == "" {
		t.Skip("tools/peers/gemma3.sh runs this")
	}
	const margin = 0.2 // of formats with 4 bits, as for Seedling
	raw, err := os.ReadFile(os.Getenv("ASSAY_PEER_TEXTS"))
	if err != nil {
		t.Fatal(err)
	}
	var texts []struct {
		Prompt string
		IDs    []int32 `json:"prompt_ids"`
		Steps  []struct {
			IDs    []int32
			Logits []float32
		}
	}
	if err := json.Unmarshal(raw, &texts); err != nil {
		t.Fatal(err)
	}
	if len(texts) != 8 {
		t.Fatalf("%d texts, want 8", len(texts))
	}
	m, p := open(t, path, 2)
	pass, store, logits := NewPass(m, p), kv.NewStore(m.KVShape(kernel.KVF32)), make([]float32, m.Vocabulary)
	beyond, steps := 0, 0
	for _, text := range texts {
		cache, ids, ties := store.NewCache(), text.IDs, 0
		for len(ids) > MaxBatch {
			run(t, pass, Sequence{Cache: cache, Tokens: ids[:MaxBatch]})
			ids = ids[MaxBatch:]
		}
		run(t, pass, Sequence{Cache: cache, Tokens: ids, Logits: logits})
		for i, step := range text.Steps {
			switch got := argmax(logits); {
			case got == step.IDs[0]:
			case got == step.IDs[1] && step.Logits[0]-step.Logits[1] < margin:
				ties++
			case got == step.IDs[1] && step.Logits[0]-step.Logits[1] < 2*margin:
				t.Logf("%.40q, token %d: %d, which is %.3f behind llama.cpp's best", text.Prompt, i, got, step.Logits[0]-step.Logits[1])
				beyond++
			default:
				t.Errorf("%.40q, token %d: %d with a logit of %.3f, llama.cpp's are %d with %.3f", text.Prompt, i, got, logits[got], step.IDs, step.Logits)
			}
			run(t, pass, Sequence{Cache: cache, Tokens: step.IDs[:1], Logits: logits})
		}
		steps += len(text.Steps)
		t.Logf("%.40q (%d tokens): of %d tokens %d are near ties that fall the other way", text.Prompt, len(text.IDs), len(text.Steps), ties)
		cache.Release()
	}
	t.Logf("%d of %d tokens go the other way at more than the margin of %g", beyond, steps, margin)
	if 100*beyond > steps {
		t.Errorf("these are more than one in a hundred")
	}
}
