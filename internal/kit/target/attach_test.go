package target_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"assay/internal/kit/target"
	"assay/internal/kit/target/adapters"
)

func TestParseURL(t *testing.T) {
	for _, c := range []struct{ raw, want, err string }{
		{"http://127.0.0.1:8080", "http://127.0.0.1:8080", ""},
		{" http://localhost:8080/v1/ ", "http://localhost:8080", ""},
		{"https://host/prefix/v1", "https://host/prefix", ""},
		{"http://[::1]:8080/", "http://[::1]:8080", ""},
		{"127.0.0.1:8080", "", "want http://127.0.0.1:8080"},
		{"localhost:8080", "", "is not the URL of a server"},
		{"http://", "", "is not the URL of a server"},
		{"http://me:secret@host/", "", target.KeyVariable},
		{"http://host/?key=1", "", "query"},
		{"http://ho\x00st secret", "", "does not parse"},
	} {
		got, err := target.ParseURL(c.raw)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("ParseURL(%q) = %q, %v; want %q, %q", c.raw, got, err, c.want, c.err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("ParseURL(%q) repeats a secret: %v", c.raw, err)
		}
	}
}

// saysNothing answers a request for a completion with an empty object.
func saysNothing(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, "{}")
}

// serve answers GET with the texts, by path.
func serve(t *testing.T, answers map[string]string) string {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, ok := answers[r.URL.Path]
		if !ok {
			w.WriteHeader(http.StatusNotFound)
		}
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// openAIServer answers /v1/models, and what the test adds.
func openAIServer(t *testing.T, routes map[string]http.HandlerFunc) string {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, `{"object":"list","data":[{"id":"tiny","object":"model","owned_by":"me"}]}`)
	})
	for path, h := range routes {
		mux.HandleFunc(path, h)
	}
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	return s.URL
}

// A server that refuses a field it does not know gets requests without it, and
// the reason is kept. One that takes it gets it every time.
func TestNegotiate(t *testing.T) {
	for _, c := range []struct {
		name   string
		strict bool
		exact  string
	}{
		{"refuses", true, "the server refused the fields that ask for an exact length: unknown field ignore_eos"},
		{"takes", false, "openai is not known to go on past an end token"},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := openAIServer(t, map[string]http.HandlerFunc{
				"POST " + target.ChatPath: func(w http.ResponseWriter, r *http.Request) {
					body, _ := io.ReadAll(r.Body)
					if c.strict && strings.Contains(string(body), "ignore_eos") {
						w.WriteHeader(http.StatusBadRequest)
						fmt.Fprint(w, `{"error":{"message":"unknown field ignore_eos"}}`)
						return
					}
					w.Header().Set("Content-Type", "text/event-stream")
					fmt.Fprint(w, "data: [DONE]\n\n")
				},
			})
			tg, err := target.Attach(t.Context(), url, target.Options{Adapters: adapters.All})
			if err != nil {
				t.Fatal(err)
			}
			if tg.Adapter.Name() != "openai" || tg.Identity.Model != "tiny" {
				t.Errorf("adapter %s, model %s", tg.Adapter.Name(), tg.Identity.Model)
			}
			body, err := tg.Body(target.Ask{Prompt: "x", MaxTokens: 8, IgnoreEOS: true})
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(body), "ignore_eos"); got == c.strict {
				t.Errorf("request: %s", body)
			}
			if ok, why := tg.ExactLength(); ok || why != c.exact {
				t.Errorf("exact length: %v, %q", ok, why)
			}
		})
	}
}

func TestAttachTellsWhatIsWrong(t *testing.T) {
	status := func(code int, body string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(code)
			fmt.Fprint(w, body)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	for _, c := range []struct{ name, url, adapter, want string }{
		{"nobody", gone.URL, "", "connection refused"},
		{"key", status(401, `{"error":{"message":"no key"}}`), "", target.KeyVariable},
		{"loading", status(503, `{"error":{"message":"Loading model"}}`), "", "is not ready: Loading model"},
		{"no such page", status(404, "<html>"), "", "not an OpenAI server"},
		{"unknown adapter", openAIServer(t, nil), "ollamma", `no adapter is called "ollamma"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := target.Attach(t.Context(), c.url, target.Options{Adapters: adapters.All, Adapter: c.adapter})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}

// The key goes into the Authorization header of every request, and into no
// error.
func TestKey(t *testing.T) {
	const key = "sk-very-secret"
	url := openAIServer(t, map[string]http.HandlerFunc{
		"POST " + target.ChatPath: func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, `{"error":{"message":"key was right: %v"}}`, r.Header.Get("Authorization") == "Bearer "+key)
		},
	})
	_, err := target.Attach(t.Context(), url, target.Options{Adapters: adapters.All, Key: key})
	if err == nil || !strings.Contains(err.Error(), "key was right: true") || strings.Contains(err.Error(), key) {
		t.Errorf("error %v", err)
	}
}

// A server that puts a BOS before every text: it is not part of the text.
func TestEncoderTakesTheStartTokenOff(t *testing.T) {
	url := openAIServer(t, map[string]http.HandlerFunc{
		"POST " + target.ChatPath: saysNothing,
		"POST /tokenize": func(w http.ResponseWriter, r *http.Request) {
			var in struct{ Prompt *string }
			if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Prompt == nil {
				w.WriteHeader(http.StatusUnprocessableEntity) // it knows vLLM's form only
				return
			}
			ids := []int{1}
			for range strings.Fields(*in.Prompt) {
				ids = append(ids, 7)
			}
			_ = json.NewEncoder(w).Encode(map[string]any{"tokens": ids})
		},
	})
	tg, err := target.Attach(t.Context(), url, target.Options{Adapters: adapters.All})
	if err != nil {
		t.Fatal(err)
	}
	encode, err := tg.Encoder(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if ids, err := encode("three short words"); err != nil || len(ids) != 3 {
		t.Errorf("%v, %v", ids, err)
	}
}

func TestNoTokenizeEndpoint(t *testing.T) {
	url := openAIServer(t, map[string]http.HandlerFunc{
		"POST " + target.ChatPath: saysNothing,
	})
	tg, err := target.Attach(t.Context(), url, target.Options{Adapters: adapters.All})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tg.Encoder(t.Context()); err == nil || !strings.Contains(err.Error(), "POST /tokenize: status 404") {
		t.Errorf("error %v", err)
	}
}

// Only of a target on this machine do this machine's figures say anything.
func TestLoopback(t *testing.T) {
	for url, want := range map[string]bool{
		"http://127.0.0.1:8080": true, "http://127.9.9.9": true, "http://localhost:1": true, "http://[::1]:8080": true,
		"http://192.168.1.2:8080": false, "https://example.com": false, "http://localhost.example.com": false, "http://[fe80::1]:1": false,
	} {
		if got := target.Loopback(url); got != want {
			t.Errorf("Loopback(%q) = %v", url, got)
		}
	}
}
