package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"
)

// ErrNoLog is returned for a target whose log is not known.
var ErrNoLog = errors.New("attached without --log, so its log can't be read")

// ErrUnknownLog is what an adapter says that reads no log.
var ErrUnknownLog = errors.New("the log of this engine is not known")

// Threads is what the engine's log says of its threads at the start.
func (t *Target) Threads() (Threads, error) {
	if t.Process == nil {
		return Threads{}, errors.New("attached: its start was not seen")
	}
	log, err := t.LogSince(t.logStart)
	if err != nil {
		return Threads{}, err
	}
	return t.Adapter.ReadThreads(log)
}

// maxSegment bounds a request's part of the log.
const maxSegment = 16 << 20

// LogEnd is the log's length: where the part of what comes next begins.
func (t *Target) LogEnd() (int64, error) {
	if t.log == "" {
		return 0, ErrNoLog
	}
	info, err := os.Stat(t.log)
	if err != nil {
		return 0, fmt.Errorf("the target's log: %w", err)
	}
	return info.Size(), nil
}

// LogSince returns the log from an offset on.
func (t *Target) LogSince(offset int64) ([]byte, error) {
	if t.log == "" {
		return nil, ErrNoLog
	}
	return readFrom(t.log, offset)
}

func readFrom(path string, offset int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("the target's log: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	switch {
	case err != nil:
		return nil, fmt.Errorf("the target's log: %w", err)
	case info.Size() < offset:
		return nil, fmt.Errorf("the target's log: it was cut to %d bytes, %d were read before", info.Size(), offset)
	case info.Size()-offset > maxSegment:
		return nil, fmt.Errorf("the target's log: it grew by %d bytes in one request (at most %d are kept)", info.Size()-offset, maxSegment)
	}
	data := make([]byte, info.Size()-offset)
	n, err := f.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("the target's log: %w", err)
	}
	return data[:n], nil
}

// mark is how a file was: its size, and what stood at its end.
type mark struct {
	size int64
	end  []byte
}

// markOf looks at a file; one that is not there is empty.
func markOf(path string) mark {
	info, err := os.Stat(path)
	if err != nil {
		return mark{}
	}
	return mark{info.Size(), before(path, info.Size())}
}

// before reads what stands before an offset.
func before(path string, offset int64) []byte {
	const most = 4096
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer f.Close()
	data := make([]byte, min(offset, most))
	n, _ := f.ReadAt(data, offset-int64(len(data)))
	return data[:n]
}

// follow turns to the file in which a started engine keeps its own log, beside its
// output. The file may have been there, and the engine may have written it anew.
func (t *Target) follow(path string, was mark) {
	if path == "" {
		return
	}
	if !bytes.Equal(before(path, was.size), was.end) {
		was.size = 0
	}
	t.log, t.logStart = path, was.size
}

// logSettles is how long a log must not have grown before it is taken for whole:
// the lines of one request come one after the other.
const logSettles = 20 * time.Millisecond

// logPatience is how long the account of a finished request may take to reach
// the log.
const logPatience = time.Second

// RequestLog returns the log from an offset on and the account of the one
// request in it, waiting a moment for all of it: a server may end the stream before it
// logs. The segment is returned with an error too, when there is one.
func (t *Target) RequestLog(ctx context.Context, offset int64) ([]byte, LogRecord, error) {
	deadline := time.Now().Add(logPatience)
	seen := -1
	for {
		segment, err := t.LogSince(offset)
		if err != nil {
			return nil, LogRecord{}, err
		}
		rec, err := t.Adapter.ReadLog(segment)
		whole := err == nil && len(segment) == seen
		if whole || errors.Is(err, ErrUnknownLog) || time.Now().After(deadline) {
			return segment, rec, err
		}
		pause := 10 * time.Millisecond
		if seen = -1; err == nil {
			seen, pause = len(segment), logSettles
		}
		select {
		case <-ctx.Done():
			return segment, rec, err
		case <-time.After(pause):
		}
	}
}

// tail is the end of a text for an error message: the last lines, whole.
func tail(data []byte) string {
	const lines, limit = 15, 2000
	s := strings.TrimSpace(string(data))
	if len(s) > limit {
		s = s[len(s)-limit:]
		if i := strings.IndexByte(s, '\n'); i >= 0 {
			s = s[i+1:]
		}
	}
	all := strings.Split(s, "\n")
	if len(all) > lines {
		all = all[len(all)-lines:]
	}
	return strings.ToValidUTF8(strings.Join(all, "\n"), "")
}

// OnlyOne checks that a log segment holds exactly one request: with two, none
// of the numbers can be laid to ours.
func OnlyOne(n int, what string) error {
	switch n {
	case 0:
		return fmt.Errorf("no line %q came", what)
	case 1:
		return nil
	}
	return fmt.Errorf("%d lines %q: the server worked on other requests too", n, what)
}

// Groups are what a regular expression found.
type Groups [][]byte

// Text is a group as it is.
func (g Groups) Text(i int) string { return string(g[i]) }

// Int is a group as a number; nil when it is none, or too large.
func (g Groups) Int(i int) *int {
	n, err := strconv.Atoi(string(g[i]))
	if err != nil {
		return nil
	}
	return &n
}

// Float is a group as a number; nil when it is none, or too large.
func (g Groups) Float(i int) *float64 {
	v, err := strconv.ParseFloat(string(g[i]), 64)
	if err != nil {
		return nil
	}
	return &v
}

// Decimal is the pattern of a number as logs print it, as one group.
const Decimal = `([0-9]+(?:\.[0-9]+)?)`
