package plan

import (
	"encoding/json"
	"errors"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"assay/plans"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file below testdata, or writes it with -update.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-update writes it anew): want -, got +:\n%s", path, diff)
	}
}

var targets = []string{"assay", "llama-server", "llama-cpp-python", "openai"}

func parse(t testing.TB, text string) (*Plan, error) {
	t.Helper()
	return Parse("plan.yaml", []byte(text), Options{Targets: targets})
}

func mustParse(t testing.TB, text string) *Plan {
	t.Helper()
	p, err := parse(t, text)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Every key at once, each with a value that is not its default.
func TestEveryKey(t *testing.T) {
	data, err := os.ReadFile("testdata/every-key.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p, err := Parse("every-key.yaml", data, Options{Targets: targets, Dir: "some/dir"})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range keys {
		if key != "prompts" && !strings.Contains("\n"+string(data), "\n"+key+":") { // prompts excludes contexts
			t.Errorf("every-key.yaml lacks %s", key)
		}
	}
	for _, key := range armKeys {
		if !strings.Contains(string(data), " "+key+":") {
			t.Errorf("every-key.yaml lacks %s of an arm", key)
		}
	}
	text, err := json.MarshalIndent(p, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "every-key.json", string(text)+"\n")
	golden(t, "every-key.txt", p.Describe(p.Schedule(), nil))

	// A plan that was kept as JSON is the same plan.
	var again Plan
	if err := json.Unmarshal(text, &again); err != nil {
		t.Fatal(err)
	}
	if err := p.Resumable(&again); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(p.Schedule(), again.Schedule()); diff != "" {
		t.Errorf("the schedule of the plan as JSON differs:\n%s", diff)
	}
}

// A plan that says nothing but its arm is what assay run does without a plan.
func TestDefaults(t *testing.T) {
	p := mustParse(t, "arms: [{name: a}]")
	want := Defaults()
	want.Arms = []Arm{{Name: "a", Target: "assay", Model: "builtin:seedling"}}
	a, _ := json.Marshal(p)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("got\n%s\nwant\n%s", a, b)
	}
}

// A plan that says how to sample says all of it: the default temperature goes.
func TestSamplingIsWhole(t *testing.T) {
	p := mustParse(t, "arms: [{name: a}]\nsampling: {seed: 7, top_k: 0}\n")
	if p.Temperature != nil || *p.Seed != 7 || *p.TopK != 0 {
		t.Errorf("%+v", p)
	}
}

// The examples parse, name files that are there, and do what their golden files
// say.
func TestExamples(t *testing.T) {
	if len(plans.Names()) < 5 {
		t.Fatalf("examples: %v", plans.Names())
	}
	for _, name := range plans.Names() {
		t.Run(name, func(t *testing.T) {
			p, err := Load("../../../plans/"+name+".yaml", Options{Targets: targets})
			if err != nil {
				t.Fatal(err)
			}
			if err := p.CheckFiles(nil); err != nil {
				t.Error(err)
			}
			s := p.Schedule()
			text := strings.ReplaceAll(p.Describe(s, nil), "../../../", "") + "\n" + s.String()
			golden(t, "examples/"+name+".txt", text)

			embedded, err := Load(ExamplePrefix+name, Options{Targets: targets})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(s, embedded.Schedule()); diff != "" {
				t.Errorf("the embedded plan differs:\n%s", diff)
			}
		})
	}
	_, err := Load("example:enrgy", Options{})
	if err == nil || err.Error() != `no example is called "enrgy" (did you mean energy?)` {
		t.Error(err)
	}
}

// What is wrong is named with line, column and key, and with what was wanted.
func TestProblems(t *testing.T) {
	const arm = "arms: [{name: a}]\n"
	for name, c := range map[string]struct{ plan, want string }{
		"a count":          {arm + "contexts:\n  - 4K\n  - \"4Q\"\n", `plan.yaml:4:5: contexts[1]: "4Q" is not a token count: K, Ki, M and Mi are the only suffixes (want 512, 4K for 4000, or 4Ki for 4096)`},
		"half a token":     {arm + "contexts: 0.5", `plan.yaml:2:11: contexts: "0.5" is not a token count: it is less than one token`},
		"twice":            {arm + "contexts: [2000, 512, 2K]", `plan.yaml:2:23: contexts[2]: 2K is there twice`},
		"misspelt":         {arm + "warmups: 2", `plan.yaml:2:1: warmups: no such key (did you mean warm_ups?)`},
		"a dash":           {arm + "min-seconds: 2", `plan.yaml:2:1: min-seconds: no such key (did you mean min_seconds?)`},
		"swapped letters":  {arm + "repaets: 2", `plan.yaml:2:1: repaets: no such key (did you mean repeats?)`},
		"far off":          {arm + "guard: {zzzzzz: 1}", `plan.yaml:2:9: guard.zzzzzz: no such key (want memory_available, memory_pressure, io_pressure, gpu_temperature, cpu_temperature, ssd_temperature, disk_free, run_time, start_time or then)`},
		"misspelt, deeper": {"arms:\n  - name: a\n    comand: [x]\n", `plan.yaml:3:5: arms[0].comand: no such key (did you mean command?)`},
		"a key twice":      {"arms: [{name: a}]\nrepeats: 2\nrepeats: 3\n", `plan.yaml:3:1: repeats: it is there twice, first on line 2`},
		"a wrong type":     {arm + "repeats: [1]", `plan.yaml:2:10: repeats: a list, want a whole number`},
		"a fraction":       {arm + "repeats: 2.5", `plan.yaml:2:10: repeats: "2.5" is not a whole number`},
		"nothing":          {arm + "repeats:\norder: blocks\n", `plan.yaml:2:9: repeats: nothing, want a whole number`},
		"a list is meant":  {"arms: {name: a}", `plan.yaml:1:7: arms: a mapping, want a list of arms, each begun with a dash`},
		"a mapping is":     {"- arms", `plan.yaml:1:1: a list, want a mapping with arms, contexts,`},
		"one of few":       {arm + "order: ABBA", `plan.yaml:2:8: order: "ABBA" is none of interleaved and blocks`},
		"a time":           {arm + "idle: 5 minutes", `plan.yaml:2:7: idle: "5 minutes" is not a time (want 30s, 5m, 1h30m, or a number of seconds)`},
		"a long time":      {arm + "idle: 1000h", `plan.yaml:2:7: idle: "1000h" is longer than 744h0m0s`},
		"a size":           {arm + "guard: {disk_free: 10}", `plan.yaml:2:20: guard.disk_free: "10" has no unit (want 512MiB, 2GiB or 10GB)`},
		"hot":              {arm + "guard: {gpu_temperature: 900}", `plan.yaml:2:26: guard.gpu_temperature: "900" is no temperature of a machine (want 1 to 200 °C)`},
		"no limit":         {arm + "guard: {disk_free: {for: 3s}}", `plan.yaml:2:20: guard.disk_free: no limit (want limit: a value, or off in place of the mapping)`},
		"endless":          {arm + "guard: {run_time: off}", `plan.yaml:2:19: guard.run_time: a run must end some time (want a time such as 30m)`},
		"a figure":         {arm + "require: [enrgy]", `plan.yaml:2:11: require[0]: no figure is called "enrgy" (did you mean energy?)`},
		"no meter":         {arm + "require: [wall_energy]", `plan.yaml:2:10: require: wall_energy, but there is no wall_meter`},
		"no arms":          {"contexts: [512]", `plan.yaml:1:1: there are no arms (want arms, with what to measure)`},
		"empty arms":       {"arms: []", `plan.yaml:1:7: arms: the list is empty (want at least one arm)`},
		"an empty file":    {"# nothing\n", `plan.yaml:1: the plan is empty (want at least arms)`},
		"no YAML":          {"arms: [", `plan.yaml:1: this is not YAML: did not find expected node content`},
		"a tab":            {"arms:\n\t- name: a", `plan.yaml:2: this is not YAML: found character that cannot start any token`},
		"two documents":    {arm + "---\n" + arm, `plan.yaml:2:1: a second document begins here (want one plan in a file)`},
		"a merge key":      {"arms:\n  - &a {name: a}\n  - {<<: *a, name: b}\n", `plan.yaml:3:6: arms[1].<<: no such key (want name,`},

		"no name":            {"arms: [{model: x.gguf}]", `plan.yaml:1:8: arms[0]: no name (want name: what rows and tables call this arm)`},
		"a name for no file": {"arms: [{name: a/b}]", `plan.yaml:1:15: arms[0].name: "a/b" can't name files`},
		"a name twice":       {"arms: [{name: a}, {name: A}]", `plan.yaml:1:26: arms[1].name: two arms are called A`},
		"an adapter":         {"arms: [{name: a, target: lama-server, command: [x]}]", `plan.yaml:1:26: arms[0].target: no adapter is called "lama-server" (did you mean llama-server?)`},
		"no command":         {"arms: [{name: a, target: openai}]", `plan.yaml:1:26: arms[0].target: an openai server is none that can be started by its name (want url, or command)`},
		"url and command":    {"arms: [{name: a, url: \"http://x\", command: [y]}]", `plan.yaml:1:44: arms[0].command: the server at url runs already (want url or command, not both)`},
		"url and env":        {"arms: [{name: a, url: \"http://x\", env: {A: 1}}]", `plan.yaml:1:40: arms[0].env: the server at url runs already and has its own`},
		"url and model":      {"arms: [{name: a, url: \"http://x\", model: m}]", `plan.yaml:1:42: arms[0].model: which files the server at url has loaded is not known (want tokenizer`},
		"a model unloaded":   {"arms: [{name: a, command: [x], model: m}]", `plan.yaml:1:39: arms[0].model: the command does not load it (want $(model) in command)`},
		"no model":           {"arms: [{name: a, command: [x, \"$(model)\"]}]", `plan.yaml:1:27: arms[0].command: $(model) is there, but no model`},
		"a flag of ours":     {"arms: [{name: a, flags: [--threads, 2, --port, 80]}]", `plan.yaml:1:40: arms[0].flags[2]: --port is set by the plan itself`},
		"a key in argv":      {"arms: [{name: a, command: [x, --api-key, secret]}]", `plan.yaml:1:31: arms[0].command[1]: a key on a command line would reach the rows (want key_env, and the key in the environment)`},
		"a key itself":       {"arms: [{name: a, url: \"http://x\", key_env: sk-12345}]", `plan.yaml:1:44: arms[0].key_env: that is not the name of a variable (want the name, never the key)`},

		"a setting":         {"arms: [{name: a, flags: [\"$(treads)\"], matrix: {threads: [1]}}]", `plan.yaml:1:26: arms[0].flags[0]: $(treads) is none of the matrix (did you mean threads?); $$( is a plain $(`},
		"a port too early":  {"arms: [{name: a, url: \"http://x:$(port)\"}]", `plan.yaml:1:23: arms[0].url: $(port) is known only in command and flags`},
		"a setting's name":  {"arms: [{name: a, matrix: {port: [1]}}]", `plan.yaml:1:27: arms[0].matrix.port: $(port) has a meaning of its own already (want another name)`},
		"no values":         {"arms: [{name: a, matrix: {t: []}}]", `plan.yaml:1:30: arms[0].matrix.t: it has no values`},
		"a value twice":     {"arms: [{name: a, matrix: {t: [1, 1]}}]", `plan.yaml:1:34: arms[0].matrix.t[1]: "1" is there twice`},
		"same names":        {"arms: [{name: \"a$(t)\", matrix: {t: [1, 2], u: [3, 4]}}]", `plan.yaml:1:15: arms[0].name: two arms are called a1; let the name hold its matrix, as in x-$(threads)`},
		"exclude nothing":   {"arms: [{name: a, matrix: {t: [1, 2], exclude: [{t: 3}]}}]", `plan.yaml:1:52: arms[0].matrix.exclude[0].t: "3" is no value of it (want 1 or 2)`},
		"too many arms":     {"arms: [{name: a, matrix: {a: [1,2,3,4,5,6,7,8,9], b: [1,2,3,4,5,6,7,8,9], c: [1,2,3,4,5,6,7,8,9]}}]", `plan.yaml:1:8: arms[0]: with it there are 257 arms (want at most 256)`},
		"too many runs":     {arm + "contexts: [1,2,3,4,5,6,7,8,9,10,11]\nrepeats: 10000", `plan.yaml:1:1: the plan comes to 1.1e+05 runs (want at most 100000)`},
		"too few repeats":   {arm + "blocks: 4\nrepeats: 3", `plan.yaml:2:9: blocks: 4 starts of each arm, but 3 repeats to spread over them`},
		"drafts":            {"arms: [{name: a, drafts: true}]\nslices: 2", `plan.yaml:2:9: slices: 2, but an arm drafts tokens, and how many are accepted depends on the text (want at least 3)`},
		"drafts, one text":  {"arms: [{name: a, command: [x, -md, y]}]\nrepeats: 2", `plan.yaml:2:10: repeats: 2 can't take 3 texts in turn, which an arm that drafts tokens needs`},
		"warm without":      {arm + "cache: warm\nwarm_ups: 0", `plan.yaml:3:11: warm_ups: 0, but cache: warm needs one for each of the 1 texts`},
		"prompts and sizes": {arm + "prompts: [a.txt]\ncontexts: [512]", `plan.yaml:3:11: contexts: it can't stand beside prompts, which are read whole`},
		"prompts alike":     {arm + "prompts: [a/x.txt, b/X.txt]", `plan.yaml:2:20: prompts[1]: two prompts are called x: cells are named after the files`},
		"no seconds":        {arm + "tokens_at_most: 4K", `plan.yaml:2:17: tokens_at_most: it has no meaning without min_seconds`},
		"long and short":    {arm + "min_seconds: 700\nguard: {run_time: 10m}", `plan.yaml:2:14: min_seconds: 700 s, but a run is ended after 10m (want guard.run_time to be longer)`},
		"cooling":           {arm + "cool_down: {below: 60, sensor: oven}", `plan.yaml:2:32: cool_down.sensor: "oven" is none of gpu, cpu and ssd`},
		"cooling nothing":   {arm + "cool_down: {before: block}", `plan.yaml:2:12: cool_down: nothing to wait for (want seconds, or below: 60)`},
		"cool blocks":       {"arms: [{name: a, url: \"http://a\"}, {name: b, url: \"http://b\"}]\ncool_down: {seconds: 1, before: block}", `plan.yaml:2:33: cool_down.before: block: the arms are all up at once`},
		"hot sampling":      {arm + "sampling: {temperature: -1}", `plan.yaml:2:25: sampling.temperature: -1 (want 0 for the likeliest token, or up to 100)`},
		"odd sampling":      {arm + "sampling: {top_p: 1.5}", `plan.yaml:2:19: sampling.top_p: 1.5 (want 0 to 1)`},
		"NaN":               {arm + "sampling: {top_p: .nan}", `plan.yaml:2:19: sampling.top_p: ".nan" is not a number`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := parse(t, c.plan)
			if err == nil || !strings.HasPrefix(err.Error(), c.want) {
				t.Errorf("got  %v\nwant %s", err, c.want)
			}
		})
	}
}

// All problems are told at once, in the order of the file.
func TestAllProblems(t *testing.T) {
	_, err := parse(t, "repeats: x\nzzz: 1\narms:\n  - name: a\n    flags: {}\ncontexts: [4Q, 5Q]\n")
	var problems Problems
	if !errors.As(err, &problems) {
		t.Fatal(err)
	}
	var got []string
	for _, p := range problems {
		got = append(got, p.Key)
	}
	if diff := cmp.Diff([]string{"repeats", "zzz", "arms[0].flags", "contexts[0]", "contexts[1]"}, got); diff != "" {
		t.Error(diff)
	}
	_, err = parse(t, "arms: [{name: a}]\ncontexts: ["+strings.Repeat("x, ", 50)+"]")
	if n := strings.Count(err.Error(), "\n"); n != maxShown || !strings.HasSuffix(err.Error(), "... and 30 more") {
		t.Errorf("%d lines: %v", n, err)
	}
}

// Aliases stand for what they name; a file of nothing but aliases stays small.
func TestAliases(t *testing.T) {
	p := mustParse(t, "arms:\n  - {name: a, env: &e {X: 1}}\n  - {name: b, env: *e}\n")
	if p.Arms[1].Env["X"] != "1" {
		t.Errorf("%+v", p.Arms[1])
	}
	bomb := "a: &a [x,x,x,x,x,x,x,x,x]\n"
	for c := 'b'; c < 'k'; c++ {
		bomb += string(c) + ": &" + string(c) + " [" + strings.Repeat("*"+string(c-1)+",", 9) + "]\n"
	}
	if _, err := parse(t, bomb+"arms: *j\n"); err == nil {
		t.Error("a list of lists of lists became arms")
	}
	_, err := Parse("big.yaml", make([]byte, maxFile+1), Options{})
	if err == nil || !strings.HasPrefix(err.Error(), "big.yaml: 1048577 bytes (want a plan of at most 1MiB)") {
		t.Error(err)
	}
}

// A matrix becomes an arm for every combination, in the order of the file.
func TestMatrix(t *testing.T) {
	p := mustParse(t, `
arms:
  - name: x
    command: [serve, "$(model)", -t, "$(threads)", --kv=$(kv), "$$(nproc)", "$(port)"]
    model: $(kv).gguf
    env: {KV: "$(kv)"}
    matrix:
      threads: [1, 2]
      kv: [f16, q8_0]
      exclude: [{threads: 2, kv: f16}]
`)
	var got []string
	for i := range p.Arms {
		a := &p.Arms[i]
		got = append(got, a.Name+": "+strings.Join(a.Argv(Launch{Port: 80}), " ")+" "+strings.Join(a.Environ([]string{"KV=old", "Z=1"}), " "))
	}
	want := []string{
		"x-threads1-kvf16: serve f16.gguf -t 1 --kv=f16 $(nproc) 80 Z=1 KV=f16",
		"x-threads1-kvq8_0: serve q8_0.gguf -t 1 --kv=q8_0 $(nproc) 80 Z=1 KV=q8_0",
		"x-threads2-kvq8_0: serve q8_0.gguf -t 2 --kv=q8_0 $(nproc) 80 Z=1 KV=q8_0",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Files are looked for from the plan's folder, and a missing one is named where
// the plan names it.
func TestCheckFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("m.gguf", "")
	write("plan.yaml", "arms:\n  - {name: a, model: m.gguf}\n  - {name: b, model: n.gguf}\n  - {name: c, model: .}\nprompts: [p.txt]\n")
	p, err := Load(filepath.Join(dir, "plan.yaml"), Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = p.CheckFiles(nil)
	want := strings.ReplaceAll(`DIR/plan.yaml:3:22: arms[1].model: there is no file DIR/n.gguf (paths start from DIR)
DIR/plan.yaml:4:22: arms[2].model: DIR is a folder (want a file)
DIR/plan.yaml:5:11: prompts[0]: there is no file DIR/p.txt (paths start from DIR)`, "DIR", dir)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// What is no file may be a model's name, which becomes its path.
func TestModelsByName(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "plan.yaml")
	text := "arms:\n  - {name: a, model: \"org/repo:Q4_K_M\"}\n  - {name: b, model: both}\n  - {name: c, model: none}\n  - {name: d, url: http://127.0.0.1:1, tokenizer: \"ollama:qwen3\"}\n"
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	p, err := Load(file, Options{})
	if err != nil {
		t.Fatal(err)
	}
	err = p.CheckFiles(func(name string) (string, error) {
		switch name {
		case "org/repo:Q4_K_M", "ollama:qwen3":
			return "/models/" + name, nil
		case "both":
			return "", errors.New(`"both" could be each of 2 models`)
		}
		return "", fs.ErrNotExist
	})
	want := strings.ReplaceAll(`DIR/plan.yaml:3:22: arms[1].model: "both" could be each of 2 models
DIR/plan.yaml:4:22: arms[2].model: there is no file DIR/none (paths start from DIR), and no model of that name (assay models lists those that are there)`, "DIR", dir)
	if err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	if p.Arms[0].Model != "/models/org/repo:Q4_K_M" || p.Arms[3].Tokenizer != "/models/ollama:qwen3" {
		t.Errorf("%q, %q", p.Arms[0].Model, p.Arms[3].Tokenizer)
	}
}

// The manual names every key, and its plans parse.
func TestManual(t *testing.T) {
	data, err := os.ReadFile("../../../docs/plans.md")
	if err != nil {
		t.Fatal(err)
	}
	manual := string(data)
	for _, list := range [][]string{keys, armKeys, samplingKeys, coolDownKeys, noiseKeys, {"limit", "for", "then", "start_time", "exclude", "command", "file"}} {
		for _, key := range list {
			if !strings.Contains(manual, "`"+key+"`") && !strings.Contains(manual, "\n"+key+":") {
				t.Errorf("docs/plans.md says nothing of %s", key)
			}
		}
	}
	for _, q := range Quantities {
		if !strings.Contains(manual, "`"+string(q)+"`") {
			t.Errorf("docs/plans.md says nothing of %s", q)
		}
	}
	for _, q := range Requirements {
		if !strings.Contains(manual, "`"+string(q)+"`") {
			t.Errorf("docs/plans.md says nothing of %s", q)
		}
	}
	for _, name := range plans.Names() {
		if !strings.Contains(manual, "`"+ExamplePrefix+name+"`") {
			t.Errorf("docs/plans.md says nothing of the example %s", name)
		}
	}
	blocks := strings.Split(manual, "```yaml\n")[1:]
	if len(blocks) < 4 {
		t.Fatalf("%d plans", len(blocks))
	}
	for _, b := range blocks {
		text, _, _ := strings.Cut(b, "```")
		if _, err := parse(t, text); err != nil {
			t.Errorf("%v in\n%s", err, text)
		}
	}
}
