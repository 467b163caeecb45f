package target

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// wordCounter is an adapter whose engine logs "generated N".
type wordCounter struct{ anyServer }

var generatedLine = regexp.MustCompile(`(?m)^generated (\d+)$`)

func (wordCounter) ReadLog(segment []byte) (LogRecord, error) {
	all := generatedLine.FindAllSubmatch(segment, -1)
	if err := OnlyOne(len(all), "generated"); err != nil {
		return LogRecord{}, err
	}
	return LogRecord{Generated: Groups(all[0]).Int(1)}, nil
}

func TestRequestLogWaitsForTheLine(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	if err := os.WriteFile(path, []byte("before\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	tg := &Target{Adapter: wordCounter{}, log: path}
	offset, err := tg.LogEnd()
	if err != nil {
		t.Fatal(err)
	}
	late := time.AfterFunc(50*time.Millisecond, func() {
		_ = os.WriteFile(path, []byte("before\ngenerated 3\n"), 0o644)
	})
	defer late.Stop()
	segment, rec, err := tg.RequestLog(t.Context(), offset)
	if err != nil || rec.Generated == nil || *rec.Generated != 3 || !strings.HasPrefix(string(segment), "generated 3") {
		t.Errorf("%q, %+v, %v", segment, rec, err)
	}
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, _, err := tg.RequestLog(t.Context(), offset); err == nil || !strings.Contains(err.Error(), "it was cut to 0 bytes") {
		t.Errorf("a log that was cut: %v", err)
	}
}
