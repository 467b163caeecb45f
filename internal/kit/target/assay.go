package target

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// assay is our own engine's server. It is asked nothing that llama-server could
// not be asked, and its word counts for no more.
type assay struct{}

func (assay) Name() string { return "assay" }

func (assay) Recognise(p *Probe) bool {
	return strings.Contains(p.text("/metrics"), "\nassay_") || ownedBy(p) == "assay"
}

func (assay) Identify(p *Probe) Identity {
	id := identifyLlama(p, "assay")
	id.Commit = nil
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

func (assay) Fields(a Ask) map[string]any { return llamaFields(a) }

func (assay) TokenizeForms() []TokenizeForm { return []TokenizeForm{llamaForm} }

func (assay) Template() bool { return true }

func (assay) Counters() CounterNames { return counterNames("assay_") }

func (assay) Facts() Facts {
	return Facts{EndTokenCounted: ptr(true), DecodeBasis: "n-1", ExactLength: true}
}

const number = `([0-9]+(?:\.[0-9]+)?)`

// assayRequest is the one line that the server logs for a request.
var assayRequest = regexp.MustCompile(`assay serve: request \d+: prompt (\d+) tokens = (\d+) reused \+ (\d+) read in ` + number + ` ms \(` + number + ` tok/s\), (\d+) generated in ` + number + ` ms \(` + number + ` tok/s\)(?:, drafts accepted (\d+) of (\d+))?, finish (\w+)`)

func (assay) ReadLog(segment []byte) (LogRecord, error) {
	all := assayRequest.FindAllSubmatch(segment, -1)
	if err := onlyOne(len(all), "assay serve: request"); err != nil {
		return LogRecord{}, err
	}
	m := groups(all[0])
	return LogRecord{
		Line:          m.text(0),
		Cached:        m.int(2),
		PromptN:       m.int(3),
		PromptMS:      m.float(4),
		PromptRate:    m.float(5),
		Generated:     m.int(6),
		DecodeMS:      m.float(7),
		DecodeRate:    m.float(8),
		DraftAccepted: m.int(9),
		DraftN:        m.int(10),
		Finish:        ptr(m.text(11)),
	}, nil
}

var assayThreads = regexp.MustCompile(`(?m)^.*assay serve: threads (\d+) \((\d+) workers \+ the caller\).*$`)

func (assay) ReadThreads(log []byte) (Threads, error) {
	m := assayThreads.FindSubmatch(log)
	if m == nil {
		return Threads{}, errors.New("no line \"assay serve: threads\" came")
	}
	g := groups(m)
	return Threads{Workers: g.int(2), HostThread: ptr(true), Line: strings.TrimSpace(g.text(0))}, nil
}

// onlyOne checks that a log segment holds exactly one request: with two, none
// of the numbers can be laid to ours.
func onlyOne(n int, what string) error {
	switch n {
	case 0:
		return fmt.Errorf("no line %q came", what)
	case 1:
		return nil
	}
	return fmt.Errorf("%d lines %q: the server worked on other requests too", n, what)
}
