package cli

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"assay/internal/kit/figure"
	"assay/models/seedling"
)

// docsDir are the pages of the manual.
const docsDir = "../../docs"

// TestDocs runs the commands of the manual, page by page, in a folder with the
// examples' rows. A line before a fenced block says what is done with it:
//
//	<!-- run -->          the lines are run by sh; each must succeed
//	<!-- run: 99 -->      ... but the last must end with this status (3|99: with one of them)
//	<!-- run: ROUNDS=4 -->  ... with this in the environment, instead of the page's own
//	<!-- run: needs=jq -->  ... if there is such a program on this machine
//	<!-- run: server -->  ... with "assay serve" in the place of http://127.0.0.1:8080
//	<!-- run: for=2s -->  ... and are interrupted after that time
//	<!-- setup: line -->  a line that is run before, and not shown; $IMPORTED has results of other tools
//	<!-- prints -->       the block is what the one before it printed; a line of ... stands for any lines
//	<!-- parsed: why -->  the lines are not run, because of that; their flags are held against the program's
//
// Each command of assay may end with one of the statuses, not only the last. Of a
// YAML block, a GitHub workflow, the steps of its job are run, but for those that
// use an action or are named "build".
func TestDocs(t *testing.T) {
	if testing.Short() {
		t.Skip("whole programs")
	}
	pages, err := filepath.Glob(docsDir + "/*.md")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages, %v", len(pages), err)
	}
	ran := 0
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		blocks, err := docBlocks(string(text))
		if err != nil {
			t.Errorf("%s:%v", filepath.Base(page), err)
		}
		blocks = slices.DeleteFunc(blocks, func(b docBlock) bool { return b.parsed })
		if len(blocks) == 0 {
			continue
		}
		ran += len(blocks)
		t.Run(filepath.Base(page), func(t *testing.T) { runDoc(t, blocks) })
	}
	if ran == 0 {
		t.Error("no page has a command that is run")
	}
}

// docBlock is a fenced block with a mark.
type docBlock struct {
	line     int
	language string
	prints   bool
	parsed   bool
	server   bool
	limit    time.Duration // after which it is interrupted; 0: never
	status   []int         // that its commands may end with
	env      []string
	needs    string // a program that not every machine has
	text     string
}

var docMark = regexp.MustCompile(`^<!-- (run|prints|parsed|setup)(?:: (.*))? -->$`)

// docBlocks finds the marked blocks of a page.
func docBlocks(page string) ([]docBlock, error) {
	var out []docBlock
	var wrong []error
	lines := bufio.NewScanner(strings.NewReader(page))
	var marked *docBlock
	n, inside := 0, false
	var text strings.Builder
	for lines.Scan() {
		n++
		line := lines.Text()
		switch fence, isFence := strings.CutPrefix(line, "```"); {
		case isFence && inside:
			inside = false
			if marked != nil {
				marked.text = text.String()
				out = append(out, *marked)
				marked = nil
			}
		case isFence:
			inside = true
			text.Reset()
			if marked != nil {
				marked.language = fence
			}
		case inside:
			text.WriteString(line + "\n")
		case strings.HasPrefix(line, "<!-- setup: ") && docMark.MatchString(line):
			out = append(out, docBlock{line: n, status: []int{0, 3}, text: docMark.FindStringSubmatch(line)[2] + "\n"})
		case docMark.MatchString(line):
			b, err := readMark(docMark.FindStringSubmatch(line))
			if err != nil {
				wrong = append(wrong, fmt.Errorf("%d: %w", n, err))
			}
			b.line = n
			marked = b
		case marked != nil && line != "":
			wrong = append(wrong, fmt.Errorf("%d: the mark of line %d has no block", n, marked.line))
			marked = nil
		}
	}
	return out, errors.Join(wrong...)
}

func readMark(m []string) (*docBlock, error) {
	b := &docBlock{prints: m[1] == "prints", parsed: m[1] == "parsed", status: []int{0}}
	if b.parsed {
		if m[2] == "" {
			return b, errors.New("it does not say why nothing is run")
		}
		return b, nil
	}
	for _, word := range strings.Fields(m[2]) {
		if word == "server" {
			b.server = true
			continue
		}
		if limit, ok := strings.CutPrefix(word, "for="); ok {
			var err error
			if b.limit, err = time.ParseDuration(limit); err != nil {
				return b, err
			}
			continue
		}
		if program, ok := strings.CutPrefix(word, "needs="); ok {
			b.needs = program
			continue
		}
		if strings.Contains(word, "=") {
			b.env = append(b.env, word)
			continue
		}
		b.status = nil
		for _, s := range strings.Split(word, "|") {
			code, err := strconv.Atoi(s)
			if err != nil {
				return b, fmt.Errorf("%q is neither a status nor VARIABLE=VALUE", word)
			}
			b.status = append(b.status, code)
		}
	}
	return b, nil
}

// runDoc runs the blocks of one page, one after the other.
func runDoc(t *testing.T, blocks []docBlock) {
	dir := t.TempDir()
	docFixture(t, dir)
	stdout := ""
	for _, b := range blocks {
		if _, err := exec.LookPath(b.needs); b.needs != "" && err != nil {
			t.Logf("line %d is not run: %v", b.line, err)
			continue
		}
		switch {
		case b.prints:
			if want := b.text; !printsLike(stdout, want) {
				t.Errorf("line %d: the page says\n%s\nbut it prints\n%s", b.line, want, stdout)
			}
		case b.language == "yaml":
			for _, s := range workflowSteps(t, b) {
				stdout = runShell(t, dir, b, s)
			}
		default:
			stdout = runShell(t, dir, b, b.text)
		}
	}
}

// runShell runs commands and returns what they printed.
func runShell(t *testing.T, dir string, b docBlock, commands string) string {
	t.Helper()
	if b.server {
		commands = strings.ReplaceAll(commands, "http://127.0.0.1:8080", docServer(t, dir))
	}
	last := filepath.Join(t.TempDir(), "status")
	var passed strings.Builder // the statuses after which the next line is run
	for _, code := range b.status {
		fmt.Fprintf(&passed, " %d", code)
	}
	ctx, cancel := t.Context(), context.CancelFunc(func() {})
	if b.limit > 0 {
		ctx, cancel = context.WithTimeout(ctx, b.limit)
	}
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", "-e", "-c", fmt.Sprintf(`assay() {
	status=0; command assay "$@" || status=$?
	echo $status > '%s'
	case "%s " in *" $status "*) return 0 ;; esac
	return $status
}
%s`, last, passed.String(), commands))
	cmd.Dir = dir
	cmd.WaitDelay = 10 * time.Second
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGINT) }
	imported, err := filepath.Abs("../kit/imported/testdata")
	if err != nil {
		t.Fatal(err)
	}
	cmd.Env = append(os.Environ(), "COLUMNS=80", "GITHUB_STEP_SUMMARY="+filepath.Join(dir, "step-summary.md"),
		"XDG_CONFIG_HOME="+filepath.Join(dir, "config"), "IMPORTED="+imported)
	cmd.Env = append(cmd.Env, b.env...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && ctx.Err() == nil {
		t.Fatalf("line %d: %v", b.line, err)
	}
	if b.limit > 0 {
		if t.Context().Err() == nil && ctx.Err() == nil {
			t.Fatalf("line %d: it ended by itself:\n%s\nstderr:\n%s", b.line, commands, errs.String())
		}
		return out.String()
	}
	code := cmd.ProcessState.ExitCode()
	if text, err := os.ReadFile(last); err == nil && code == 0 {
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && slices.Contains(b.status, n) {
			code = n
		}
	}
	if !slices.Contains(b.status, code) {
		t.Fatalf("line %d: status %d, want %v:\n%s\nstdout:\n%s\nstderr:\n%s", b.line, code, b.status, commands, out.String(), errs.String())
	}
	return out.String()
}

// workflowSteps are the commands of a GitHub workflow with one job, whose
// environment stands before the block's own.
func workflowSteps(t *testing.T, b docBlock) []string {
	t.Helper()
	var w struct {
		Jobs map[string]struct {
			Env   map[string]string `yaml:"env"`
			Steps []struct {
				Name string            `yaml:"name"`
				Uses string            `yaml:"uses"`
				Run  string            `yaml:"run"`
				Env  map[string]string `yaml:"env"`
			} `yaml:"steps"`
		} `yaml:"jobs"`
	}
	if err := yaml.Unmarshal([]byte(b.text), &w); err != nil || len(w.Jobs) != 1 {
		t.Fatalf("line %d: %d jobs, %v", b.line, len(w.Jobs), err)
	}
	var out []string
	for _, job := range w.Jobs {
		for _, s := range job.Steps {
			if s.Uses != "" || s.Name == "build" {
				continue
			}
			var script strings.Builder
			for _, env := range []map[string]string{job.Env, s.Env} {
				for name, v := range env {
					if !slices.ContainsFunc(b.env, func(e string) bool { return strings.HasPrefix(e, name+"=") }) {
						fmt.Fprintf(&script, "export %s='%s'\n", name, v)
					}
				}
			}
			out = append(out, script.String()+s.Run)
		}
	}
	return out
}

// printsLike holds output against a page's. A line of "..." stands for any number
// of lines.
func printsLike(got, want string) bool {
	var pattern strings.Builder
	pattern.WriteString(`^`)
	for line := range strings.Lines(want) {
		if line == "...\n" {
			pattern.WriteString(`(?:.*\n)*`)
		} else {
			pattern.WriteString(regexp.QuoteMeta(line))
		}
	}
	return regexp.MustCompile(pattern.String() + `$`).MatchString(got)
}

// docServer starts the server that a page speaks of, with the fixture's model, and
// returns its address.
func docServer(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command("assay", "serve", "-m", "model.gguf", "-c", "4096", "--port", "0")
	cmd.Dir = dir
	log, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait() // its status says nothing of the page
	})
	address := regexp.MustCompile(`http://127\.0\.0\.1:\d+`)
	lines := bufio.NewScanner(log)
	for lines.Scan() {
		if url := address.FindString(lines.Text()); url != "" {
			go func() { _, _ = io.Copy(io.Discard, log) }()
			awaitReady(t, url)
			return url
		}
	}
	t.Fatal("the server does not say where it listens")
	return ""
}

// awaitReady waits until a server has loaded its model.
func awaitReady(t *testing.T, url string) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		resp, err := http.Get(url + "/health")
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return
			}
		}
		if time.Now().After(end) {
			t.Fatalf("%s is not ready: %v", url, err)
		}
	}
}

// docFixture lays out the rows of the pages' examples, recorded with "assay run
// -t 1" and "-t 2" in turns: a folder for each, with a folder for each start in
// it, and all of them in one; a small plan; and a model.
func docFixture(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Open("../kit/report/testdata/threads.jsonl.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]*bytes.Buffer{}
	row := regexp.MustCompile(`"row_id":"t([12])-(\d+)/`)
	lines := bufio.NewScanner(z)
	for lines.Scan() {
		m := row.FindStringSubmatch(lines.Text())
		if m == nil {
			t.Fatalf("a row without a place: %.100s", lines.Text())
		}
		if round, _ := strconv.Atoi(m[2]); round > 4 { // others used the machine from then on
			continue
		}
		folder := map[string]string{"1": "one-thread", "2": "two-threads"}[m[1]]
		for _, path := range []string{filepath.Join(folder, m[2]), "both"} {
			if files[path] == nil {
				files[path] = new(bytes.Buffer)
			}
			fmt.Fprintln(files[path], lines.Text())
		}
	}
	for path, text := range map[string]string{
		"model.gguf": string(seedling.GGUF),
		"plan.yaml":  "name: one thread against two\narms: [{name: t1, threads: 1}, {name: t2, threads: 2}]\ncontexts: [64]\nmax_tokens: 32\nrepeats: 2\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, path), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for path, text := range files {
		at := filepath.Join(dir, path)
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(at, "rows.jsonl"), text.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// The marks themselves: a mark without a block, or one that says nothing, would
// leave commands unrun.
func TestDocMarks(t *testing.T) {
	page := "<!-- run: 3|99 A=1 -->\n```sh\na\nb\n```\n\n<!-- prints -->\n\n```text\nx\n```\n```sh\nnot this\n```\n"
	blocks, err := docBlocks(page)
	if err != nil || len(blocks) != 2 {
		t.Fatalf("%+v, %v", blocks, err)
	}
	if b := blocks[0]; b.text != "a\nb\n" || !slices.Equal(b.status, []int{3, 99}) || !slices.Equal(b.env, []string{"A=1"}) || b.language != "sh" || b.prints {
		t.Errorf("%+v", b)
	}
	if b := blocks[1]; b.text != "x\n" || !b.prints {
		t.Errorf("%+v", b)
	}
	for _, bad := range []string{"<!-- parsed -->\n```sh\nx\n```\n", "<!-- run: for=ever -->\n```sh\nx\n```\n", "<!-- run -->\ntext\n", "<!-- run: soon -->\n```sh\nx\n```\n"} {
		if _, err := docBlocks(bad); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
	for _, tt := range []struct {
		got, want string
		is        bool
	}{
		{"a\nb\nc\n", "a\n...\nc\n", true},
		{"a\nc\n", "a\n...\nc\n", true},
		{"a\nb\nc\n", "a\nc\n", false},
		{"a.b\n", "aXb\n", false},
		{"a\nb\n", "a\n", false},
	} {
		if printsLike(tt.got, tt.want) != tt.is {
			t.Errorf("%q is like %q: %v", tt.got, tt.want, !tt.is)
		}
	}
}

// Every code that withholds something has its section with advice, and nothing else
// has.
func TestWithheldPage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(docsDir, "withheld.md"))
	if err != nil {
		t.Fatal(err)
	}
	var told, want []string
	for _, m := range regexp.MustCompile("(?m)^### `([a-z0-9-]+)`\n\n[^\n#]").FindAllStringSubmatch(string(text), -1) {
		told = append(told, m[1])
	}
	for _, c := range figure.Table {
		want = append(want, string(c.Code))
	}
	slices.Sort(told)
	slices.Sort(want)
	if !slices.Equal(told, want) {
		t.Errorf("withheld.md tells of %v, the program has %v", told, want)
	}
}
