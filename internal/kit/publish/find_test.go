package publish

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"assay/internal/kit/row"
	"assay/internal/kit/stream"
)

// found is what a text gives away by its form.
func found(text string) []string {
	f := newFinder(Machine{}, nil)
	f.text([]byte(text))
	var out []string
	for value, kind := range f.found {
		out = append(out, kind+" "+value)
	}
	slices.Sort(out)
	return out
}

func TestFind(t *testing.T) {
	for text, want := range map[string]string{
		"opened /home/alice/m.gguf":                "home directory /home/alice",
		"/Users/bob-2/x":                           "home directory /Users/bob-2",
		`{"p":"\/home\/eve\/x"}`:                   "home directory /home/eve",
		"C:\\Users\\carol\\x":                      `home directory C:\Users\carol`,
		"at 10.1.2.3:80":                           "address 10.1.2.3",
		"at [fd00:12::7]:80":                       "address fd00:12::7",
		"eth0 de:ad:be:ef:00:17 up":                "address de:ad:be:ef:00:17",
		"mail me@corp.example, please":             "mail address me@corp.example",
		"Authorization: Bearer abcDEF.123456":      "key abcDEF.123456",
		"key sk-abcdefghij0123456789":              "key sk-abcdefghij0123456789",
		"token hf_abcdefghij0123456789":            "key hf_abcdefghij0123456789",
		"AKIAABCDEFGHIJKLMNOP!":                    "key AKIAABCDEFGHIJKLMNOP",
		"--api-key hunter22 --port 1":              "key hunter22",
		`"password": "hunter22"`:                   "key hunter22",
		"http://u:hunter22@host/":                  "key hunter22",
		"GPU-5c0e2f11-1a2b-3c4d-5e6f-0123456789ab": "serial number GPU-5c0e2f11-1a2b-3c4d-5e6f-0123456789ab",
		"Serial Number: S4EVNX0R123456":            "serial number S4EVNX0R123456",
		// What every machine has, and what only looks like it.
		"at 127.0.0.1:80 and ::1 and 0.0.0.0": "",
		"version 1.2.3":                       "",
		"12:34:56 done":                       "",
		"max_tokens=128 --max-tokens 128":     "",
		"n_tokens: 12345678":                  "",
		"--api-key ********":                  "",
		"the home of 999.1.1.1":               "",
	} {
		if got := strings.Join(found(text), "; "); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	f := newFinder(Machine{
		Users: []string{"root", "ed", "runner", "alice"}, Hosts: []string{"localhost", "box-7"}, Homes: []string{"/root/"}, Keys: []string{"k3y-of-mine"},
	}, []string{"box-7"})
	f.argv([]string{"x", "--hf-token", "abcd1234", "--token=efgh5678", "--max-tokens", "4096", "--tokenizer", "abcd.json", "--api-key", "--next"})
	f.env(map[string]string{"OPENAI_API_KEY": "ijkl9012", "OMP_NUM_THREADS": "4", "MAX_NEW_TOKENS": "9999"})
	got := []string{}
	for v := range f.found {
		got = append(got, v)
	}
	slices.Sort(got)
	if want := []string{"/root", "abcd1234", "alice", "efgh5678", "ijkl9012", "k3y-of-mine"}; !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Whatever the secret and whatever stands around it, it is found in every form,
// and gone when it was replaced.
func TestForms(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		value := rapid.StringMatching(`[a-zA-Z/<&"\\ +=._-][a-zA-Z0-9/<&"\\ +=._-]{6,30}[a-zA-Z0-9/=]`).Draw(t, "secret")
		if strings.Contains(value, `\`) && strings.ContainsAny(value, `"/`) {
			t.Skip("escapes of escapes")
		}
		before, after := rapid.StringMatching(`[a-z0-9 ]{0,9} `).Draw(t, "before"), rapid.StringMatching(` [a-z0-9 ]{0,9}`).Draw(t, "after")
		s := newSecret(KindListed, value)
		inJSON, err := json.Marshal(value)
		if err != nil {
			t.Fatal(err)
		}
		for form, text := range map[string]string{
			"as it is":       before + value + after,
			"JSON":           `"` + before + string(inJSON[1:len(inJSON)-1]) + after + `"`,
			"JSON, slashes":  `"` + before + strings.ReplaceAll(jsonText(value, false), "/", `\/`) + after + `"`,
			"URL":            before + url.QueryEscape(value) + after,
			"path":           before + url.PathEscape(value) + after,
			"base64":         base64.StdEncoding.EncodeToString([]byte(before + value + after)),
			"base64 of URLs": base64.URLEncoding.EncodeToString([]byte(before + value + after)),
		} {
			found := false
			for _, v := range views([]byte(text)) {
				found = found || len(hits(v.text, []*secret{s})) > 0
			}
			if !found {
				t.Fatalf("%s: %q is not found in %q", form, value, text)
			}
			if out, _ := replace([]byte(text), []*secret{s}, "MARK"); len(hits(out, []*secret{s})) > 0 {
				t.Fatalf("%s: %q is left in %q", form, value, out)
			}
		}
	})
}

// Names are words of their own; a port is one behind a host, or behind its name.
func TestWords(t *testing.T) {
	for _, tt := range []struct {
		kind, value, text, want string
	}{
		{KindUser, "will", "Will you? goodwill, WILL_1 /home/will/x", "M you? goodwill, WILL_1 /home/M/x"},
		{KindAddress, "10.0.0.1", "10.0.0.1 10.0.0.12 110.0.0.1 10.0.0.1:80", "M 10.0.0.12 110.0.0.1 M:80"},
		{KindAddress, "de:ad:be:ef:00:17", "DE:AD:BE:EF:00:17 de-ad-be-ef-00-17 deadbeef0017", "M M M"},
		{KindHome, "/root", "/root/x /rootfs x/root", "M/x /rootfs xM"},
		{KindField, "8080", `h:8080 :8080 8080 "port": 8080, --port 8080 --port=8080 x8080 h:80801 "n":8080`, `h:M :8080 8080 "port": M, --port M --port=M x8080 h:80801 "n":8080`},
	} {
		s := newSecret(tt.kind, tt.value)
		if got, _ := replace([]byte(tt.text), []*secret{s}, "M"); string(got) != tt.want {
			t.Errorf("%s: %s\nwant %s", tt.value, got, tt.want)
		}
	}
	for _, short := range []string{"a", "abc", "0", "7"} {
		if newSecret(KindField, short) != nil {
			t.Errorf("%q is searched for", short)
		}
	}
}

func TestSpans(t *testing.T) {
	doc := ` {"a" : [1, {"b.c":"x\u0041"}], "d":null ,"e":{}, "f":"\"" }`
	list, err := spans([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, s := range list {
		got = append(got, fmt.Sprintf("%s %v %s", s.path, s.name, doc[s.start:s.end]))
	}
	want := []string{
		` false ` + strings.TrimSpace(doc), `a true "a"`, `a false [1, {"b.c":"x\u0041"}]`, `a[0] false 1`, `a[1] false {"b.c":"x\u0041"}`,
		`a[1].b.c true "b.c"`, `a[1].b.c false "x\u0041"`, `d true "d"`, `d false null`, `e true "e"`, `e false {}`, `f true "f"`, `f false "\""`,
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q\nwant %q", got, want)
	}
	for _, bad := range []string{"", "{", `{"a"}`, "[1,]", "nul"} {
		if _, err := spans([]byte(bad)); err == nil {
			t.Errorf("%q has spans", bad)
		}
	}
	if out, changed := replaceJSON([]byte(doc), []*secret{{forms: []form{{text: []byte("xA")}}}}, "M"); !changed || string(out) != strings.Replace(doc, `x\u0041`, "M", 1) {
		t.Errorf("%s", out)
	}
}

// However a body is cut into reads, the text of the redacted reads is the redacted
// text, in their order, and none is empty.
func TestCutReads(t *testing.T) {
	all := []*secret{newSecret(KindListed, "hunter22")}
	rapid.Check(t, func(t *rapid.T) {
		body := []byte(strings.Join(rapid.SliceOfN(rapid.SampledFrom([]string{"hunter22", "a", "hunter", "22 ", "\n\n"}), 1, 12).Draw(t, "body"), ""))
		var reads []stream.Read
		for rest, at := body, int64(0); len(rest) > 0; at++ {
			n := rapid.IntRange(1, len(rest)).Draw(t, "n")
			reads = append(reads, stream.Read{At: at, Bytes: rest[:n]})
			rest = rest[n:]
		}
		want, _ := replace(body, all, "MARK")
		var got []byte
		last := int64(-1)
		for _, r := range cutReads(reads, hits(body, all), "MARK") {
			if len(r.Bytes) == 0 || r.At <= last {
				t.Fatalf("a read of %d bytes at %d, after %d", len(r.Bytes), r.At, last)
			}
			got, last = append(got, r.Bytes...), r.At
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%q, want %q", got, want)
		}
	})
}

func TestPatterns(t *testing.T) {
	for text, paths := range map[string][2]string{
		"completion_head":    {"completion_head", "completion_heads"},
		"host.*":             {"host.gpus[].slot", "hosts"},
		"host.gpus[].slot":   {"host.gpus[3].slot", "host.gpus[3].slots"},
		"telemetry.*.joules": {"telemetry.board.joules", "telemetry.board.joule"},
		"sources.ttft_ms":    {"sources.ttft_ms", "sourcesXttft_ms"},
	} {
		p, err := newPattern(text)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []bool{true, false} {
			if got := p.re.MatchString(indices.ReplaceAllString(paths[i], "")); got != want {
				t.Errorf("%s matches %s: %v", text, paths[i], got)
			}
		}
	}
}

// FuzzUnescape: readings of any text come to an end and hold what is plain in it.
func FuzzUnescape(f *testing.F) {
	for _, s := range []string{`a\/b`, `\\\\"x`, `\u0041\u`, `%41%4`, `\`, `%`, "/home/alice"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		for _, v := range views(text) {
			if len(v.text) > 3*len(text) {
				t.Fatalf("%d bytes of %d", len(v.text), len(text))
			}
		}
		fd := newFinder(Machine{}, nil)
		fd.text(text)
		secrets := fd.secrets()
		out, _ := replace(text, secrets, "redacted-2026-12-02")
		if left := hits(out, secrets); len(left) > 0 && !bytes.Contains([]byte("redacted-2026-12-02"), []byte(left[0].secret.value)) {
			t.Fatalf("%q is left in %q", left[0].secret.value, out)
		}
		_, _ = replaceJSON(text, secrets, "redacted-2026-12-02")
	})
}

// FuzzReplaceJSON: what is taken out of JSON leaves JSON with as many values, of which
// none holds it any more.
func FuzzReplaceJSON(f *testing.F) {
	for _, s := range []string{`{"a":["hunter22",{"hunter22":1}]}`, `"hunter\u00322"`, ` [ 1 , "x hunter22 y" ] `, `{"url":"http://h:48151/"}`, `{"argv":["--port","48151"]}`} {
		f.Add([]byte(s))
	}
	secrets := []*secret{newSecret(KindListed, "hunter22"), newSecret(KindField, "48151")}
	f.Fuzz(func(t *testing.T, doc []byte) {
		if !json.Valid(doc) || !utf8.Valid(doc) {
			return
		}
		before, err := spans(doc)
		if err != nil {
			t.Fatalf("%v of %q", err, doc)
		}
		out, changed := replaceJSON(doc, secrets, "M")
		if !changed && !bytes.Equal(out, doc) {
			t.Fatalf("%q became %q", doc, out)
		}
		after, err := spans(out)
		if err != nil || len(after) != len(before) {
			t.Fatalf("%q became %q: %d values and names of %d, %v", doc, out, len(after), len(before), err)
		}
		for _, s := range after {
			if !json.Valid(out[s.start:s.end]) || s.isText && strings.Contains(s.text, "hunter22") {
				t.Fatalf("%q became %q: %s", doc, out, out[s.start:s.end])
			}
		}
	})
}

// What is empty stays, and so does its hash, which tells nothing: the row of a request
// that failed.
func TestNothingToRedact(t *testing.T) {
	p, err := newPattern("completion_head")
	if err != nil {
		t.Fatal(err)
	}
	d := &Draft{match: []*pattern{p}, mark: "M"}
	for head, want := range map[string]int{"": 0, "Once": 2} {
		line := fmt.Appendf(nil, `{"completion_head":%q,"completion_sha256":"e3b0"}`, head)
		places, err := d.asked(line, &row.Row{CompletionHead: &head})
		if err != nil || len(places) != want {
			t.Errorf("%q: %d places, want %d: %v", head, len(places), want, err)
		}
	}
}
