// Package assay is the adapter for our own engine's server. It is asked nothing
// that llama-server could not be asked, and its word counts for no more.
package assay

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"

	"assay/internal/kit/row"
	"assay/internal/kit/target"
	"assay/internal/kit/target/llamaserver"
)

// Adapter is for assay serve.
type Adapter struct{ target.Base }

// Name is "assay".
func (Adapter) Name() string { return row.OwnEngine }

// Recognise knows it by its metrics and by the owner of its model.
func (Adapter) Recognise(p *target.Probe) bool {
	return strings.Contains(p.Text("/metrics"), "\nassay_") || p.OwnedBy() == "assay"
}

// Identify is llama-server's, but for the form of the build.
func (Adapter) Identify(p *target.Probe) target.Identity {
	id := llamaserver.Identify(p, "assay")
	id.Commit = nil
	if n := llamaserver.DraftWindow(p); n > 0 {
		id.Found = map[string]string{target.DraftWindow: strconv.Itoa(n)}
	}
	if id.Version == nil {
		id.Why["commit"] = id.Why["version"]
	} else if m := assayBuild.FindStringSubmatch(*id.Version); m != nil {
		id.Commit = &m[1]
		delete(id.Why, "commit")
	} else {
		id.Why["commit"] = fmt.Sprintf("build_info %q ends in no commit: it was built outside a checkout", *id.Version)
	}
	return id
}

// assayBuild is how our build_info ends: assay-VERSION-COMMIT.
var assayBuild = regexp.MustCompile(`-([0-9a-f]{7,40})$`)

// Body is llama-server's.
func (Adapter) Body(a target.Ask, model string) map[string]any { return llamaserver.Body(a, model) }

// TokenizeForms is llama-server's form.
func (Adapter) TokenizeForms() []target.TokenizeForm {
	return []target.TokenizeForm{target.LlamaForm}
}

// Template: it renders messages as llama-server does.
func (Adapter) Template() bool { return true }

// Meter is /metrics.
func (Adapter) Meter() target.Meter { return target.MeterPrometheus }

// Metered reads llama-server's counters under our own prefix.
func (Adapter) Metered(before, after []byte) (target.Counters, error) {
	return target.MeteredBy(llamaserver.CounterNames("assay_", 0), before, after)
}

// Facts: the end token is counted, and the rate is over the intervals.
func (Adapter) Facts() target.Facts {
	return target.Facts{
		About:           "our own engine, assay serve",
		EndTokenCounted: new(true),
		DecodeBasis:     "n-1",
		ExactLength:     true,
		Exactly:         "ignore_eos",
		CacheOff:        "cache_prompt: false in each request",
		Counts:          []string{"usage", "timings", "log", "/metrics"},
		ModelFlags:      []string{"--model", "-m"}, ContextFlags: []string{"--context", "-c", "--ctx-size"},
	}
}

// Command is assay serve. The program is this one unless the settings name
// another.
func (Adapter) Command(s target.Settings) (target.Command, error) {
	program := s.Program
	if len(program) == 0 {
		exe, err := os.Executable()
		if err != nil {
			return target.Command{}, fmt.Errorf("this program's own path: %w", err)
		}
		program = []string{exe, "serve"}
	}
	argv := append([]string(nil), program...)
	argv = s.Flag(argv, s.Model, "--model", "-m")
	argv = s.Flag(argv, "127.0.0.1", "--host")
	argv = s.Flag(argv, strconv.Itoa(s.Port), "--port")
	argv = s.Flag(argv, "1", "--parallel", "-np")
	argv = s.Flag(argv, strconv.Itoa(s.Context), "--context", "-c", "--ctx-size")
	if s.Threads != nil {
		argv = s.Flag(argv, strconv.Itoa(*s.Threads), "--threads", "-t")
	}
	return target.Command{Argv: append(argv, s.Args...)}, nil
}

// Readiness: its log names the address, also where it chose the port itself.
func (Adapter) Readiness() target.Readiness {
	return target.Readiness{Address: target.ListeningOn, Path: "/health"}
}

// assayRequest is the one line that the server logs for a request.
var assayRequest = regexp.MustCompile(`assay serve: request \d+: prompt (\d+) tokens = (\d+) reused \+ (\d+) read in ` + target.Decimal + ` ms \(` + target.Decimal + ` tok/s\), (\d+) generated in ` + target.Decimal + ` ms \(` + target.Decimal + ` tok/s\)(?:, drafts accepted (\d+) of (\d+)(?: in (\d+) rounds)?)?(?:, experts at hand \d+ of \d+ \([\d.]+ %\))?, finish (\w+)`)

// ReadLog reads that line.
func (Adapter) ReadLog(segment []byte) (target.LogRecord, error) {
	all := assayRequest.FindAllSubmatch(segment, -1)
	if err := target.OnlyOne(len(all), "assay serve: request"); err != nil {
		return target.LogRecord{}, err
	}
	m := target.Groups(all[0])
	return target.LogRecord{
		Line:          m.Text(0),
		Cached:        m.Int(2),
		PromptN:       m.Int(3),
		PromptMS:      m.Float(4),
		PromptRate:    m.Float(5),
		Generated:     m.Int(6),
		DecodeMS:      m.Float(7),
		DecodeRate:    m.Float(8),
		DraftAccepted: m.Int(9),
		DraftN:        m.Int(10),
		Rounds:        m.Int(11),
		Finish:        new(m.Text(12)),
	}, nil
}

var assayThreads = regexp.MustCompile(`(?m)^.*assay serve: threads (\d+) \((\d+) workers \+ the caller\).*$`)

// ReadThreads reads the line that names the threads.
func (Adapter) ReadThreads(log []byte) (target.Threads, error) {
	m := assayThreads.FindSubmatch(log)
	if m == nil {
		return target.Threads{}, errors.New("no line \"assay serve: threads\" came")
	}
	g := target.Groups(m)
	return target.Threads{Workers: g.Int(2), HostThread: new(true), Line: strings.TrimSpace(g.Text(0))}, nil
}
