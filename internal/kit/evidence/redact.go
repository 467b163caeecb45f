package evidence

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"assay/internal/kit/stream"
)

// secretHeaders carry credentials, whatever their value.
var secretHeaders = []string{
	"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key",
	"Cookie", "Set-Cookie", "Www-Authenticate",
}

const redacted = "[redacted]"

// shortestSecret: masking shorter text would only spoil the evidence.
const shortestSecret = 4

// mask puts stars in place of each secret, as it is and as JSON would write it,
// with and without the escapes that guard HTML, byte for byte, so that offsets
// stay. b itself is not changed.
func mask(b []byte, secrets []string) []byte {
	for _, s := range secrets {
		if len(s) < shortestSecret {
			continue
		}
		for _, form := range [][]byte{[]byte(s), inJSON(s, false), inJSON(s, true)} {
			b = bytes.ReplaceAll(b, form, bytes.Repeat([]byte{'*'}, len(form)))
		}
	}
	return b
}

// inJSON is s as it stands between the quotes of a JSON string.
func inJSON(s string, guardHTML bool) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(guardHTML)
	if err := e.Encode(s); err != nil {
		return []byte(s) // can't be: every string can be written
	}
	return b.Bytes()[1 : b.Len()-2] // without the quotes and the line end
}

// maskRecording masks secrets in the body, also those that lie across reads, and
// in the header.
func maskRecording(rec *stream.Recording, secrets []string) *stream.Recording {
	out := *rec
	out.Header = redactHeader(rec.Header)
	for k, values := range out.Header {
		for i, v := range values {
			out.Header[k][i] = string(mask([]byte(v), secrets))
		}
	}
	out.Err = string(mask([]byte(rec.Err), secrets))
	body := rec.Body()
	masked := mask(body, secrets)
	if bytes.Equal(masked, body) {
		return &out
	}
	out.Reads = make([]stream.Read, len(rec.Reads))
	for i, rd := range rec.Reads {
		n := len(rd.Bytes)
		rd.Bytes = masked[:n:n]
		out.Reads[i], masked = rd, masked[n:]
	}
	return &out
}

func redactHeader(h http.Header) http.Header {
	out := http.Header{}
	for k, v := range h {
		k = http.CanonicalHeaderKey(k)
		for _, s := range secretHeaders {
			if k == s {
				v = []string{redacted}
			}
		}
		out[k] = append(out[k], v...)
	}
	return out
}

// redactURL takes out the credentials that a URL can carry: user, password, and
// the value of query parameters named like a key.
func redactURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return redacted
	}
	if u.User != nil {
		u.User = url.User(redacted)
	}
	q := u.Query()
	for k := range q {
		l := strings.ToLower(k)
		if strings.Contains(l, "key") || strings.Contains(l, "token") || strings.Contains(l, "secret") || strings.Contains(l, "password") {
			q[k] = []string{redacted}
			u.RawQuery = q.Encode()
		}
	}
	return u.String()
}
