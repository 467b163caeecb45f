package target

import (
	"net/http"
	"strings"
	"testing"

	"assay/internal/kit/stream"
)

// A first stream of any kind is put in words, and leaves requests that encode.
func FuzzUnderstand(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"index\":0,\"delta\":{\"role\":\"assistant\",\"reasoning\":\"x\"}}],\"usage\":{\"completion_tokens\":1}}\n\ndata: [DONE]\n\n"), []byte(`{"stream_options":{"a":1,"b":2},"return_token_ids":true}`), "unknown field a")
	f.Add([]byte("0"), []byte(`{"":{"":1,"b":2}}`), "unknown field a") // found by fuzzing: a field without a name
	f.Fuzz(func(t *testing.T, body, request []byte, words string) {
		rec := &stream.Recording{Status: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}}
		if len(body) > 0 {
			rec.Reads = []stream.Read{{At: 1, Kernel: -1, Bytes: body}}
		}
		tg := &Target{Adapter: anyServer{}, left: map[string]string{}}
		for range 4 {
			if !tg.leaveOut(request, words) {
				break
			}
		}
		if err := tg.understand(rec, request, 8); err == nil && (tg.Identity.Found["role"] == "" || tg.Identity.Found["usage"] == "") {
			t.Errorf("found %q", tg.Identity.Found)
		}
		if out, err := tg.Body(Ask{Prompt: "x", MaxTokens: 1}); err != nil || !strings.Contains(string(out), `"messages"`) && tg.left["messages"] == "" {
			t.Errorf("%s, %v", out, err)
		}
	})
}
