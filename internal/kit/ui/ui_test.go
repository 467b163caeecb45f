package ui

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"assay/internal/kit/page"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// line is a row as another tool would write it: as little as a page needs.
func line(arm string, i int) string {
	return fmt.Sprintf(`{"row_id":"%s-%d","arm":%q,"cell":"%s/512","ctx":"512","phase":"measure","status":"ok","repeat":%d,"decode_tok_s":%d,"ttft_ms":100}`+"\n", arm, i, arm, arm, i, 100+i)
}

func write(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(text); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// start runs a server and returns its address, and a function that ends it and
// gives its error.
func start(t *testing.T, c Config) (string, func() error) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c.Every = 5 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- New(c).Run(ctx, l) }()
	ended := false
	end := func() error {
		if ended {
			return nil
		}
		ended = true
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Second):
			t.Fatal("the server did not end")
			return nil
		}
	}
	t.Cleanup(func() { _ = end() })
	return "http://" + l.Addr().String(), end
}

var client = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}

// get asks under a name of its own for host; "" is the address's.
func get(t *testing.T, url, host string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequest("GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(body), resp.Header
}

// The page follows a folder from before it is there: new rows, half-written ones,
// broken ones, and a file that begins anew.
func TestFollowsRows(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "later")
	url, end := start(t, Config{Dir: dir})
	resp, err := client.Get(url + "/events")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	events := make(chan string, 64)
	go func() {
		defer close(events)
		for s := bufio.NewScanner(resp.Body); s.Scan(); {
			if v, ok := strings.CutPrefix(s.Text(), "data: "); ok {
				events <- v
			}
		}
	}()
	next := func() {
		t.Helper()
		select {
		case <-events:
		case <-time.After(20 * time.Second):
			t.Fatal("no event came")
		}
	}
	shows := func(what string, want bool) {
		t.Helper()
		if _, body, _ := get(t, url+"/content", ""); strings.Contains(body, what) != want {
			t.Errorf("the page shows %q: %v, want %v", what, !want, want)
		}
	}
	next()
	shows("There are no rows yet.", true)

	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	rows := filepath.Join(dir, "rows.jsonl")
	half := line("first", 1)
	write(t, rows, line("first", 0)+half[:20])
	next()
	shows("first, run 1: 100.0 tok/s", true)
	shows("first, run 2", false)
	write(t, rows, half[20:]+"{broken\n")
	next()
	shows("first, run 2: 101.0 tok/s", true)
	shows("1 lines of the rows can&#39;t be read", true)

	if err := os.WriteFile(rows+".new", []byte(line("second", 0)), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(rows+".new", rows); err != nil {
		t.Fatal(err)
	}
	next()
	shows("second, run 1", true)
	shows("first, run 1", false)

	if err := end(); err != nil {
		t.Errorf("ended with %v, want nil", err)
	}
	for range events { // the stream ends with the server
	}
}

// A folder of folders shows the rows of all.
func TestFoldersOfRows(t *testing.T) {
	dir := t.TempDir()
	for _, arm := range []string{"one", "two"} {
		if err := os.Mkdir(filepath.Join(dir, arm), 0o755); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, arm, "rows.jsonl"), line(arm, 0))
	}
	f := newFollower(dir, page.NewBuilder(page.Options{}))
	if !f.look() || f.builder.Rows() != 2 {
		t.Errorf("%d rows, want 2", f.builder.Rows())
	}
	if f.look() {
		t.Error("nothing was added, but the follower saw more")
	}
}

func TestWhoMayLook(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "rows.jsonl"), line("a", 0))
	url, _ := start(t, Config{Dir: dir})
	port := url[strings.LastIndex(url, ":"):]
	secret, _ := start(t, Config{Dir: dir, Token: "right"})
	for _, tc := range []struct {
		name, url, host string
		want            int
	}{
		{"by number", url + "/", "", 200},
		{"localhost", url + "/", "localhost" + port, 200},
		{"IPv6 loopback", url + "/", "[::1]" + port, 200},
		{"another name for this machine (DNS rebinding)", url + "/", "evil.example" + port, 403},
		{"a name that only begins well", url + "/", "localhost.evil.example", 403},
		{"a name that only begins with the number", url + "/content", "127.0.0.1.evil.example", 403},
		{"events by another name", url + "/events", "evil.example", 403},
		{"no token", secret + "/", "", 403},
		{"wrong token", secret + "/?token=wrong", "", 403},
		{"right token", secret + "/?token=right", "", 200},
		{"files of the folder are not served", url + "/rows.jsonl", "", 404},
		{"nor by a path that leads out", url + "/..%2f..%2fetc/passwd", "", 404},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, body, header := get(t, tc.url, tc.host)
			if status != tc.want {
				t.Fatalf("status %d, want %d: %s", status, tc.want, body)
			}
			if got := header.Get("X-Content-Type-Options"); got != "nosniff" {
				t.Errorf("X-Content-Type-Options: %q", got)
			}
		})
	}
	if _, body, _ := get(t, secret+"/?token=right", ""); !strings.Contains(body, `src="/live.js?token=right"`) {
		t.Error("the page asks for its script without the token")
	}
	if status, _, _ := get(t, secret+"/live.js?token=right", ""); status != 200 {
		t.Error("the script can't be had with the token")
	}
}
