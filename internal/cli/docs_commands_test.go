package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// docCommand is a line of a page that calls the program.
var docCommand = regexp.MustCompile(`^(?:\s{4}|\t)?(?:go run \./cmd/)?assay [^:]`)

// Every block of commands in the manual is run by TestDocs, or says why it is not; and
// each call of the program in it, run or not, is one that the program understands.
func TestDocCommands(t *testing.T) {
	pages, err := filepath.Glob(docsDir + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	calls := 0
	for _, page := range append(pages, "../../README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		name := filepath.Base(page)
		marked, fence := false, ""
		joined := strings.ReplaceAll(string(text), "\\\n", "  ")
		for _, line := range strings.Split(joined, "\n") {
			switch start, isFence := strings.CutPrefix(line, "```"); {
			case isFence && fence == "":
				fence = "```" + start
				if start == "sh" && !marked {
					t.Errorf("%s: a block of commands without a mark (run, or parsed: why)", name)
				}
				marked = false
			case isFence:
				fence = ""
			case strings.HasPrefix(line, "<!-- setup"):
			case docMark.MatchString(line):
				marked = true
			case fence == "" && docCommand.MatchString(line) && strings.HasPrefix(line, "    "):
				t.Errorf("%s: a command outside of a block that says whether it is run: %s", name, line)
			case fence == "```sh" && docCommand.MatchString(line):
				calls++
				if err := understood(strings.TrimSpace(line)); err != nil {
					t.Errorf("%s: %s: %v", name, strings.TrimSpace(line), err)
				}
			}
		}
	}
	if calls < 50 {
		t.Errorf("%d calls were found", calls)
	}
}

// Every page is in the index.
func TestDocIndex(t *testing.T) {
	pages, err := filepath.Glob(docsDir + "/*.md")
	if err != nil {
		t.Fatal(err)
	}
	index, err := os.ReadFile(docsDir + "/README.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range pages {
		if name := filepath.Base(page); name != "README.md" && !strings.Contains(string(index), "]("+name+")") {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
	}
}

// understood says what the program would refuse of a command line, as far as that
// can be told without running it.
func understood(line string) error {
	words := shellWords(line)
	if len(words) > 2 && words[0] == "go" {
		words = words[2:]
	}
	root := newRoot(&Env{Getenv: func(string) string { return "" }})
	root.InitDefaultCompletionCmd()
	cmd, args, err := root.Find(rewriteAliases(words[1:]))
	if err != nil {
		return err
	}
	cmd.InitDefaultHelpFlag()
	if err := cmd.ParseFlags(args); err != nil {
		return err
	}
	return cmd.ValidateArgs(cmd.Flags().Args())
}

// shellWords are the words of the first command of a line, as sh would make them of
// plain and quoted ones.
func shellWords(line string) []string {
	var out []string
	var word strings.Builder
	inside, quote := false, rune(0)
	end := func() {
		if inside {
			out = append(out, word.String())
		}
		word.Reset()
		inside = false
	}
	for _, c := range line {
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote != 0:
			word.WriteRune(c)
		case c == '\'' || c == '"':
			quote, inside = c, true
		case c == ' ':
			end()
		case strings.ContainsRune("|&;<>", c), c == '#' && !inside:
			if strings.Trim(word.String(), "012") == "" { // 2> is no word
				inside = false
			}
			end()
			return out
		default:
			word.WriteRune(c)
			inside = true
		}
	}
	end()
	return out
}

func TestShellWords(t *testing.T) {
	for line, want := range map[string]string{
		`assay run a.yaml 2> err.json || true`:            `["assay" "run" "a.yaml"]`,
		`assay compare A B --fail-if 'decode < 0.95' # c`: `["assay" "compare" "A" "B" "--fail-if" "decode < 0.95"]`,
		`assay summary d --csv > t.csv`:                   `["assay" "summary" "d" "--csv"]`,
	} {
		if got := fmt.Sprintf("%q", shellWords(line)); got != want {
			t.Errorf("%s: %s", line, got)
		}
	}
	for line, want := range map[string]string{
		"assay summery x":       "unknown command",
		"assay run --speed":     "unknown flag",
		"assay compare":         "at least",
		"assay run --ctx 512 x": "",
	} {
		switch err := understood(line); {
		case err == nil && want != "", err != nil && (want == "" || !strings.Contains(err.Error(), want)):
			t.Errorf("%s: %v", line, err)
		}
	}
}
