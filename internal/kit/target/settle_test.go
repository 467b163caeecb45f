package target

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// twoLines logs a request in two lines, the second of which need not come.
type twoLines struct{ anyServer }

func (twoLines) ReadLog(segment []byte) (LogRecord, error) {
	if !strings.Contains(string(segment), "served\n") {
		return LogRecord{}, errors.New("not yet")
	}
	return LogRecord{Line: string(segment)}, nil
}

// A log is read when it has stopped to grow, not when its first line is there.
func TestRequestLogWaitsForAll(t *testing.T) {
	log := filepath.Join(t.TempDir(), "log")
	say := func(s string) {
		f, err := os.OpenFile(log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Error(err)
			return
		}
		defer f.Close()
		if _, err := f.WriteString(s); err != nil {
			t.Error(err)
		}
	}
	say("before\n")
	tg := &Target{Adapter: twoLines{}, log: log}
	offset, err := tg.LogEnd()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		time.Sleep(30 * time.Millisecond)
		say("ser")
		time.Sleep(5 * time.Millisecond)
		say("ved\n")
		say("hit rate 1\n")
	}()
	segment, rec, err := tg.RequestLog(t.Context(), offset)
	<-done
	if err != nil || string(segment) != "served\nhit rate 1\n" || rec.Line != string(segment) {
		t.Errorf("%q, %+v, %v", segment, rec, err)
	}
}

// The engine's own log takes the place of its output, from where this start begins.
func TestFollow(t *testing.T) {
	log := filepath.Join(t.TempDir(), "engine.log")
	for name, c := range map[string]struct {
		before, after string
		start         int64
	}{
		"not there before": {"", "new\n", 0},
		"appended to":      {"old\n", "old\nnew\n", 4},
		"written anew":     {"a long old log\n", "new\n", 0},
		"anew, and longer": {"o\n", "new\n", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if err := os.WriteFile(log, []byte(c.before), 0o644); err != nil {
				t.Fatal(err)
			}
			was := markOf(log)
			if err := os.WriteFile(log, []byte(c.after), 0o644); err != nil {
				t.Fatal(err)
			}
			tg := &Target{log: "output"}
			if tg.follow("", was); tg.log != "output" {
				t.Errorf("follows %q", tg.log)
			}
			tg.follow(log, was)
			got, err := tg.LogSince(tg.logStart)
			if err != nil || tg.log != log || tg.logStart != c.start || string(got) != "new\n" {
				t.Errorf("%s from %d: %q, %v", tg.log, tg.logStart, got, err)
			}
		})
	}
}
