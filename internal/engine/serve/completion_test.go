package serve

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http/httptest"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"assay/internal/engine"
	"assay/internal/gguf"
	"assay/internal/tokenizer"
)

const chatPrompt = `"messages":[{"role":"user","content":"Ticket 48213377. Alice was beginning to get very tired of sitting by her sister on the bank, and"}]`

// A chat stream: the role, a frame a token, the finish, the usage with the
// timings, [DONE]; and all figures say the same.
func TestChatStream(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	frames, done := stream(t, s.url+"/v1/chat/completions", requestOf(t, "chat-usage", `"return_token_ids":true,`))
	theirs, _ := readFrames(t, strings.NewReader(recorded(t, "chat-usage")))
	if !done || len(frames) != len(theirs) {
		t.Fatalf("%d frames, [DONE] %v; llama-server sent %d", len(frames), done, len(theirs))
	}
	n := len(frames)
	for i, f := range frames {
		if f.Object != "chat.completion.chunk" || f.ID != frames[0].ID || f.Model != "builtin:seedling" || f.Fingerprint != "assay-test" {
			t.Errorf("frame %d: %+v", i, f)
		}
		if (f.Usage != nil || f.Timings != nil) != (i == n-1) {
			t.Errorf("frame %d of %d: usage %v, timings %v", i, n, f.Usage, f.Timings)
		}
		if i < n-1 && i > 0 && i < n-2 && (f.content() == "" || len(f.Choices[0].TokenIDs) != 1) {
			t.Errorf("frame %d: %q from the tokens %v", i, f.content(), f.Choices[0].TokenIDs)
		}
	}
	if c := frames[0].Choices[0]; c.Delta.Role != "assistant" || c.Delta.Content != nil {
		t.Errorf("the first frame has %+v", c)
	}
	if c := frames[n-2].Choices[0]; c.FinishReason == nil || *c.FinishReason != "length" {
		t.Errorf("the last frame but one has %+v", c)
	}
	u, tm := frames[n-1].Usage, frames[n-1].Timings
	if len(frames[n-1].Choices) != 0 || u.CompletionTokens != 48 || u.PromptTokens != 41 || u.TotalTokens != 89 {
		t.Errorf("the last frame has %+v", frames[n-1])
	}
	if tm.PredictedN != 48 || tm.PromptN != 41 || tm.CacheN != 0 || tm.PromptMS <= 0 || tm.PredictedMS <= 0 {
		t.Errorf("timings %+v", tm)
	}
	line := regexp.MustCompile(`^assay serve: request 1: prompt 41 tokens = 0 reused \+ 41 read in [\d.]+ ms \([\d.]+ tok/s\), 48 generated in [\d.]+ ms \([\d.]+ tok/s\), finish length\n$`)
	if !line.MatchString(s.log.String()) {
		t.Errorf("log %q", s.log.String())
	}
}

// The raw bytes of our frames have llama-server's members, in its types.
func TestFramesHaveLlamaServersShape(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	for name, path := range map[string]string{"chat-usage": "/v1/chat/completions", "completions": "/v1/completions"} {
		t.Run(name, func(t *testing.T) {
			_, _, body := do(t, s.url+path, requestOf(t, name, ""))
			got, want := rawFrames(t, body), rawFrames(t, recorded(t, name))
			for from, to := range map[int]int{0: 0, 1: 1, len(want) - 2: len(got) - 2, len(want) - 1: len(got) - 1} {
				sameShape(t, fmt.Sprintf("frame %d", from), want[from], got[to], nil)
				sameShape(t, fmt.Sprintf("frame %d (ours has more)", to), got[to], want[from], nil)
			}
		})
	}
}

func rawFrames(t *testing.T, body string) (out []any) {
	t.Helper()
	for line := range strings.Lines(body) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			var v any
			if err := json.Unmarshal([]byte("{"+data), &v); err != nil {
				t.Fatal(err)
			}
			out = append(out, v)
		}
	}
	return out
}

func TestTimingsPerToken(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	frames, _ := stream(t, s.url+"/v1/chat/completions", requestOf(t, "chat-timings-per-token-progress", ""))
	// As there: how far the prompt was read, then the role, then the tokens.
	theirs, _ := readFrames(t, strings.NewReader(recorded(t, "chat-timings-per-token-progress")))
	for i, f := range frames[:2] {
		want, got := theirs[i].Progress, f.Progress
		if want == nil || got == nil || got.Total != want.Total || got.Processed != want.Processed || f.Timings.PromptN != theirs[i].Timings.PromptN || f.Choices[0].Delta.Role != "assistant" {
			t.Errorf("progress frame %d: %+v, theirs %+v", i, got, want)
		}
	}
	count := 0
	for _, f := range frames[3 : len(frames)-2] {
		count++
		if f.Timings == nil || f.Timings.PredictedN != count || f.Timings.PromptN != 41 {
			t.Fatalf("token frame %d has the timings %+v", count, f.Timings)
		}
	}
	if last := frames[len(frames)-1]; count != 24 || last.Timings.PredictedN != 24 {
		t.Errorf("%d token frames, the last timings are %+v", count, last.Timings)
	}
}

// Rates are computed as llama-server does from the same counts and times.
func TestTimingsAreLlamaServers(t *testing.T) {
	for _, name := range []string{"chat-usage", "chat-timings-per-token-progress", "completions"} {
		frames, _ := readFrames(t, strings.NewReader(recorded(t, name)))
		for _, f := range frames {
			if f.Timings == nil || f.Timings.PromptN == 0 || f.Timings.PredictedN == 0 {
				continue
			}
			want := *f.Timings
			if want.PredictedN == 1 {
				want.PredictedMS = 0 // theirs is 0.001, so that it can be divided by
			}
			got := *newTimings(engine.Timings{
				Prompt: want.PromptN, Cached: want.CacheN, PromptTime: time.Duration(math.Round(want.PromptMS * 1e6)),
				Predicted: want.PredictedN, DecodeTime: time.Duration(math.Round(want.PredictedMS * 1e6)),
			})
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) <= 1e-9*math.Max(math.Abs(a), math.Abs(b)) })
			if diff := cmp.Diff(want, got, near); diff != "" {
				t.Errorf("%s, -llama-server +assay:\n%s", name, diff)
			}
		}
	}
}

// Streamed or not, chat or text, the same seed gives the same text, and the
// token ids add up to it and to the usage.
func TestStreamedAndWholeAgree(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	tok := sharedEngine(t).Tokenizer()
	for path, settings := range map[string][]string{
		"/v1/chat/completions": {`"temperature":0`, `"seed":5`},
		"/v1/completions":      {`"temperature":0`, `"seed":6,"ignore_eos":true`},
		"/chat/completions":    {`"seed":7`},
	} {
		for _, more := range settings {
			prompt := chatPrompt
			if !strings.Contains(path, "chat") {
				prompt = `"prompt":"Once upon a time"`
			}
			body := fmt.Sprintf(`%s,%s,"max_tokens":40,"return_token_ids":true,"stream_options":{"include_usage":true}`, prompt, more)
			whole := ask[received](t, s.url+path, "{"+body+"}")
			frames, done := stream(t, s.url+path, `{"stream":true,`+body+"}")
			c := whole.Choices[0]
			want := c.Text + c.Message.Content
			if got := text(frames); got != want || !done {
				t.Errorf("%s %s: streamed %q ([DONE] %v), whole %q", path, more, got, done, want)
			}
			var streamed []int32
			var finish string
			for _, f := range frames {
				if len(f.Choices) > 0 {
					streamed = append(streamed, f.Choices[0].TokenIDs...)
					if f.Choices[0].FinishReason != nil {
						finish = *f.Choices[0].FinishReason
					}
				}
			}
			last := frames[len(frames)-1]
			if !slices.Equal(streamed, c.TokenIDs) || len(streamed) != whole.Usage.CompletionTokens || *last.Usage != *whole.Usage {
				t.Errorf("%s %s: tokens %v and %v, usage %+v and %+v", path, more, streamed, c.TokenIDs, last.Usage, whole.Usage)
			}
			if c.FinishReason == nil || finish != *c.FinishReason {
				t.Errorf("%s %s: finish %q and %v", path, more, finish, c.FinishReason)
			}
			if got := tok.Decode(streamed, false); got != want {
				t.Errorf("%s %s: the tokens are the text %q, not %q", path, more, got, want)
			}
		}
	}
}

// A prompt may be a text, its tokens, or a list with one of either.
func TestPromptForms(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	var texts []string
	for _, prompt := range []string{`"Once upon a time"`, `["Once upon a time"]`, `[2996,331,548,258,575]`, `[[2996,331,548,258,575]]`} {
		r := ask[received](t, s.url+"/v1/completions", `{"temperature":0,"max_tokens":8,"prompt":`+prompt+`}`)
		if r.Usage.PromptTokens != 5 || r.Object != "text_completion" {
			t.Errorf("%s: %+v", prompt, r)
		}
		texts = append(texts, r.Choices[0].Text)
	}
	if len(slices.Compact(slices.Clone(texts))) != 1 {
		t.Errorf("texts differ: %q", texts)
	}
}

// A stop string ends the text before it, wherever tokens cut it, and no part of
// it is ever sent.
func TestStop(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	const body = `"prompt":"Once upon a time","temperature":0,"max_tokens":40,"ignore_eos":true,"return_token_ids":true`
	all := ask[received](t, s.url+"/v1/completions", "{"+body+"}").Choices[0].Text
	for at := 10; at < 60; at += 9 {
		for _, size := range []int{1, 12} {
			stop := all[at : at+size]
			want := all[:strings.Index(all, stop)]
			quoted, _ := json.Marshal([]string{"never in it", stop})
			frames, done := stream(t, s.url+"/v1/completions", fmt.Sprintf(`{%s,"stream":true,"stop":%s}`, body, quoted))
			last := frames[len(frames)-1]
			if got := text(frames); got != want || !done || *last.Choices[0].FinishReason != "stop" {
				t.Errorf("stop %q: %q, want %q; last frame %+v", stop, got, want, last)
			}
			ids := 0
			for _, f := range frames {
				ids += len(f.Choices[0].TokenIDs)
			}
			if ids != last.Usage.CompletionTokens {
				t.Errorf("stop %q: %d token ids, %d completion tokens", stop, ids, last.Usage.CompletionTokens)
			}
		}
	}
}

// What was held back for a stop string is shown when the answer ends before the
// string is whole.
func TestStopThatIsOnlyBegun(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	const body = `"prompt":"Once upon a time","temperature":0,"max_tokens":12,"ignore_eos":true`
	all := ask[received](t, s.url+"/v1/completions", "{"+body+"}").Choices[0].Text
	begun, _ := json.Marshal(all[len(all)-8:] + "~")
	frames, _ := stream(t, s.url+"/v1/completions", fmt.Sprintf(`{%s,"stream":true,"stop":%s}`, body, begun))
	if got := text(frames); got != all || *frames[len(frames)-1].Choices[0].FinishReason != "length" {
		t.Errorf("%q, want %q; last frame %+v", got, all, frames[len(frames)-1])
	}
}

// A failure after the first frame is a frame of its own, without [DONE]; before
// it, an HTTP error.
func TestFailedStreams(t *testing.T) {
	w := httptest.NewRecorder()
	ev := newEvents(w, time.Minute)
	if err := ev.add(map[string]int{"a": 1}); err != nil || ev.send() != nil {
		t.Fatal(err)
	}
	if ev.add(math.NaN()) == nil {
		t.Fatal("a frame that is no JSON was added")
	}
	ev.fail(asAPIError(errors.New("out of order")))
	const want = "data: {\"a\":1}\n\n" + `data: {"error":{"message":"out of order","type":"server_error","param":null,"code":500}}` + "\n\n"
	if got := w.Body.String(); w.Code != 200 || got != want {
		t.Errorf("%d %q, want %q", w.Code, got, want)
	}

	w = httptest.NewRecorder()
	newEvents(w, time.Minute).fail(asAPIError(engine.ErrClosed))
	if got := w.Body.String(); w.Code != 503 || !strings.Contains(got, "shutting down") {
		t.Errorf("%d %q", w.Code, got)
	}
}

// A model that wants a start token, and whose template writes it too, gets one.
func TestStartTokenOnce(t *testing.T) {
	b := gguf.NewBuilder()
	for key, value := range map[string]any{
		"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "qwen2",
		"tokenizer.ggml.tokens": []string{"a", "b", "<s>"}, "tokenizer.ggml.token_type": []int32{1, 1, 3},
		"tokenizer.ggml.merges": []string{}, "tokenizer.ggml.bos_token_id": uint32(2), "tokenizer.ggml.add_bos_token": true,
	} {
		b.Set(key, value)
	}
	var file bytes.Buffer
	if _, err := b.WriteTo(&file); err != nil {
		t.Fatal(err)
	}
	f, err := gguf.Parse("start.gguf", file.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	tok, err := tokenizer.New(f)
	if err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string][]int32{"ab": {2, 0, 1}, "<s>ab": {2, 0, 1}, "": {2}, "<s>": {2}} {
		if got := EncodePrompt(tok, text); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestChatLogprobs(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	body := `{` + chatPrompt + `,"temperature":0,"max_tokens":12,"ignore_eos":true,"logprobs":true,"top_logprobs":3`
	whole := ask[received](t, s.url+"/v1/chat/completions", body+"}").Choices[0]
	var got chatLogprobs
	if err := json.Unmarshal(whole.Logprobs, &got); err != nil {
		t.Fatal(err)
	}
	var tokens string
	for i, l := range got.Content {
		tokens += l.Token
		if l.Logprob > 0 || len(l.Top) != 3 || l.Top[0].ID != l.ID || l.Top[0].Logprob != l.Logprob {
			t.Errorf("entry %d: %+v; a greedy token is the best of three", i, l)
		}
		for k := 1; k < len(l.Top); k++ {
			if l.Top[k].Logprob > l.Top[k-1].Logprob {
				t.Errorf("entry %d: not best first: %+v", i, l.Top)
			}
		}
		if string(bytesOf(l.Bytes)) != l.Token {
			t.Errorf("entry %d: bytes %v of %q", i, l.Bytes, l.Token)
		}
	}
	if len(got.Content) != 12 || tokens != whole.Message.Content {
		t.Errorf("%d entries spell %q, the content is %q", len(got.Content), tokens, whole.Message.Content)
	}
	frames, _ := stream(t, s.url+"/v1/chat/completions", body+`,"stream":true}`)
	var streamed chatLogprobs
	for _, f := range frames {
		var l chatLogprobs
		if len(f.Choices) > 0 && len(f.Choices[0].Logprobs) > 0 {
			if err := json.Unmarshal(f.Choices[0].Logprobs, &l); err != nil {
				t.Fatal(err)
			}
			streamed.Content = append(streamed.Content, l.Content...)
		}
	}
	if diff := cmp.Diff(got, streamed, cmp.AllowUnexported(chatLogprob{})); diff != "" {
		t.Errorf("-whole +streamed:\n%s", diff)
	}
}

func bytesOf(values []int) []byte {
	out := make([]byte, len(values))
	for i, v := range values {
		out[i] = byte(v)
	}
	return out
}

func TestTextLogprobs(t *testing.T) {
	alone(t)
	s := newTestServer(t, Config{})
	c := ask[received](t, s.url+"/v1/completions", `{"prompt":"Once upon a time","temperature":0,"max_tokens":12,"ignore_eos":true,"logprobs":2}`).Choices[0]
	var got textLogprobs
	if err := json.Unmarshal(c.Logprobs, &got); err != nil {
		t.Fatal(err)
	}
	if len(got.Tokens) != 12 || len(got.TokenLogprobs) != 12 || len(got.TopLogprobs) != 12 || len(got.TextOffset) != 12 {
		t.Fatalf("%+v", got)
	}
	for i, tok := range got.Tokens {
		if !strings.HasPrefix(c.Text[got.TextOffset[i]:], tok) {
			t.Errorf("token %d, %q, is not at %d of %q", i, tok, got.TextOffset[i], c.Text)
		}
		if len(got.TopLogprobs[i]) != 2 || got.TopLogprobs[i][tok] != got.TokenLogprobs[i] {
			t.Errorf("token %d, %q: %v of %v", i, tok, got.TokenLogprobs[i], got.TopLogprobs[i])
		}
	}
}

// Characters of several tokens are sent when they are complete, with all their
// tokens; what stays incomplete comes as U+FFFD at the end.
func TestIncompleteCharactersWait(t *testing.T) {
	tok := sharedEngine(t).Tokenizer()
	a := newAssembler(tok, []string{"文"}, nil)
	push := func(id int32) (string, []int32, bool) {
		seg, stopped := a.push(engine.Token{ID: id})
		return seg.text, ids(seg.tokens), stopped
	}
	steps := []struct {
		id      int32
		text    string
		tokens  []int32
		stopped bool
	}{
		{160, "", []int32{}, false},
		{116, "", []int32{}, false},
		{255, "中", []int32{160, 116, 255}, false},
		{11, ",", []int32{11}, false},
		{162, "", []int32{}, false},
		{244, "", []int32{}, false},
		{229, "", []int32{}, true},
	}
	for _, step := range steps {
		text, tokens, stopped := push(step.id)
		if text != step.text || !slices.Equal(tokens, step.tokens) || stopped != step.stopped {
			t.Errorf("token %d: %q %v %v, want %+v", step.id, text, tokens, stopped, step)
		}
	}
	if rest := ids(a.rest()); !slices.Equal(rest, []int32{162, 244, 229}) {
		t.Errorf("the rest is %v", rest)
	}

	a = newAssembler(tok, nil, nil)
	a.push(engine.Token{ID: 11})
	a.push(engine.Token{ID: 160})
	if seg := a.flush(); seg.text != "�" || !slices.Equal(ids(seg.tokens), []int32{160}) {
		t.Errorf("flushed %q %v", seg.text, ids(seg.tokens))
	}
}

// With two slots, two requests are in work and the third waits; all get the text
// that they get alone.
func TestConcurrentRequests(t *testing.T) {
	s := newTestServer(t, Config{})
	body := func(i int) string {
		return fmt.Sprintf(`{"prompt":"Once upon a time","seed":%d,"max_tokens":8,"ignore_eos":true}`, i)
	}
	want := make([]string, 4)
	for i := range want {
		want[i] = ask[received](t, s.url+"/v1/completions", body(i)).Choices[0].Text
	}
	var wg sync.WaitGroup
	for i := range want {
		wg.Go(func() {
			if got := ask[received](t, s.url+"/v1/completions", body(i)).Choices[0].Text; got != want[i] {
				t.Errorf("seed %d: %q among others, %q alone", i, got, want[i])
			}
		})
	}
	wg.Wait()
}
