package plan

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

func valid() Plan {
	return Plan{Arms: []Arm{{Name: "assay-seedling"}}, Contexts: []int{512, 2000}, Warmups: 1, Repeats: 2, MaxTokens: 128, RunLimit: time.Minute}
}

func TestRuns(t *testing.T) {
	p := valid()
	var got []string
	for _, r := range p.Runs() {
		got = append(got, fmt.Sprintf("%s cell %s repeat %d slice %d", r.ID(r.Arm), r.Cell, r.Repeat, r.Slice))
	}
	want := []string{
		"assay-seedling/warmup/a1/run-001 cell assay-seedling/512 repeat 0 slice 1",
		"assay-seedling/measure/a1/run-002 cell assay-seedling/512 repeat 0 slice 0",
		"assay-seedling/measure/a1/run-003 cell assay-seedling/512 repeat 1 slice 0",
		"assay-seedling/warmup/a1/run-004 cell assay-seedling/2K repeat 0 slice 1",
		"assay-seedling/measure/a1/run-005 cell assay-seedling/2K repeat 0 slice 0",
		"assay-seedling/measure/a1/run-006 cell assay-seedling/2K repeat 1 slice 0",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestCheck(t *testing.T) {
	if p := valid(); p.Check() != nil {
		t.Fatal(p.Check())
	}
	for want, change := range map[string]func(*Plan){
		"arms: there are none":                   func(p *Plan) { p.Arms = nil },
		`arms[0].name: "a/b" can't name files`:   func(p *Plan) { p.Arms[0].Name = "a/b" },
		`arms[0].name: ".." can't name files`:    func(p *Plan) { p.Arms[0].Name = ".." },
		"warm_ups: 0, but min_seconds needs one": func(p *Plan) { p.MinSeconds, p.TokensAtMost, p.Warmups = 5, 500, 0 },
		"contexts: none given":                   func(p *Plan) { p.Contexts = nil },
		"contexts: 2K is there twice":            func(p *Plan) { p.Contexts = []int{2000, 512, 2000} },
		"contexts: 0 tokens":                     func(p *Plan) { p.Contexts = []int{0} },
		"repeats: 0":                             func(p *Plan) { p.Repeats = 0 },
		"warm_ups: -1":                           func(p *Plan) { p.Warmups = -1 },
		"max_tokens: 0":                          func(p *Plan) { p.MaxTokens = 0 },
		"sampling.temperature: -1":               func(p *Plan) { v := -1.0; p.Temperature = &v },
		"run_limit: 0s (want a time such":        func(p *Plan) { p.RunLimit = 0 },
	} {
		p := valid()
		change(&p)
		if err := p.Check(); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("error %v, want %q", err, want)
		}
	}
}
