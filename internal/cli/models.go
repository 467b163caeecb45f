package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"assay/internal/catalog"
	"assay/internal/engine"
	"assay/internal/gguf"
	"assay/models/seedling"
)

const modelsLong = `List the GGUF models that are on this machine: the built-in one, and those that
other programs keep, in the cache of Hugging Face's hub, LM Studio's folder,
llama.cpp's cache and Ollama's store. -m takes their names.

Each line has the architecture, the format of most weights, the size of the
files, the memory that it takes at a context of -c, whether that is free now, and
whether our own engine can run it, or why not. Other engines may run what ours
can't.

Folders are found as those programs find them, by HF_HUB_CACHE, HF_HOME,
LLAMA_CACHE, OLLAMA_MODELS and XDG_CACHE_HOME. Nothing is fetched or changed.
Files that are no models, or that a name does not reach, are told on stderr.

A name may be shorter than the one listed, as long as it means one model only: a
repository (org/repo), a file's name, an Ollama model without its tag. A store
before a colon says where to look: hf, lmstudio, llama.cpp or ollama.

Examples:
  assay models
  assay models -c 32768 --json
  assay chat -m org/repo:Q4_K_M
  assay serve -m ollama:qwen3

EXIT STATUS
  0  ok
  2  wrong usage`

type modelsOptions struct {
	context int
	asJSON  bool
}

func newModelsCommand(env *Env) *cobra.Command {
	var o modelsOptions
	cmd := &cobra.Command{
		Use:   "models",
		Short: "List the models on this machine, and whether they fit and run",
		Long:  modelsLong,
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			if o.context < 0 {
				return usagef("--context: %d is not a number of positions (want 0 for the model's own, or more)", o.context)
			}
			return runModels(env, o)
		},
	}
	f := cmd.Flags()
	f.IntVarP(&o.context, "context", "c", 0, "positions of a context to reckon memory for (0: the model's own, at most 8192)")
	f.BoolVar(&o.asJSON, "json", false, "print one JSON object")
	return cmd
}

// modelList is what models found; its JSON is the command's --json.
type modelList struct {
	Models   []listedModel     `json:"models"`
	Free     *int64            `json:"free_bytes"` // null where that can't be read
	FreeFrom string            `json:"free_from"`  // what says so, or why it is null
	Places   []catalog.Place   `json:"places"`     // that were searched
	Problems []catalog.Problem `json:"problems"`   // that were met on the way
}

// listedModel is one of them. What can't be known is null, and the field after it
// says why.
type listedModel struct {
	catalog.Model
	Architecture *string  `json:"architecture"`
	Quantisation *string  `json:"quantisation"`
	Bits         *float64 `json:"bits_per_weight"`
	Parameters   *uint64  `json:"parameters"`
	ReadWhy      string   `json:"read_why,omitempty"` // why the file can't be read
	Memory       *int64   `json:"memory_bytes"`       // when loaded, with keys and values
	Fits         *bool    `json:"fits"`
	FitsWhy      string   `json:"fits_why,omitempty"` // why the two are null
	CanRun       bool     `json:"can_run"`            // by our own engine
	CanRunWhy    string   `json:"can_run_why,omitempty"`
}

func runModels(env *Env, o modelsOptions) error {
	r := listModels(env, o)
	if o.asJSON {
		e := json.NewEncoder(env.Stdout)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		return e.Encode(r)
	}
	for _, p := range r.Problems {
		fmt.Fprintf(env.Stderr, "assay: %s: %s\n", p.Store, p.What)
	}
	return r.print(env.Stdout)
}

func listModels(env *Env, o modelsOptions) *modelList {
	places := catalog.Places(env.Getenv)
	found := catalog.Read(places)
	r := &modelList{Places: places, Problems: append([]catalog.Problem{}, found.Problems...)}
	if free, err := freeMemory(string(os.PathSeparator)); err != nil {
		r.FreeFrom = err.Error()
	} else {
		r.Free, r.FreeFrom = &free.bytes, free.from
	}
	builtIn := catalog.Model{Name: seedling.Name, Store: "builtin", Path: seedling.Name, Files: []string{seedling.Name}, Bytes: int64(len(seedling.GGUF))}
	for _, m := range append([]catalog.Model{builtIn}, found.Models...) {
		r.Models = append(r.Models, r.look(env, m, o))
	}
	return r
}

// look opens a model and says what it is.
func (r *modelList) look(env *Env, m catalog.Model, o modelsOptions) listedModel {
	out := listedModel{Model: m}
	f, err := openModel(env, m.Path)
	if err != nil {
		out.ReadWhy = plainWhy(err, m.Path)
		out.CanRunWhy, out.FitsWhy = "the file can't be read", "the file can't be read"
		return out
	}
	defer f.Close()
	d := catalog.Describe(f)
	if d.Architecture != "" {
		out.Architecture = &d.Architecture
	}
	if out.Bits = d.Bits; d.Bits != nil {
		out.Quantisation, out.Parameters = &d.Quantisation, &d.Parameters
	}
	if err := engine.CanRun(f); err != nil {
		out.CanRunWhy = plainWhy(err, m.Path)
		out.FitsWhy = "our engine can't run it, so what it would take is not known"
		return out
	}
	out.CanRun = true
	r.fit(f, &out, o)
	return out
}

func (r *modelList) fit(f *gguf.File, out *listedModel, o modelsOptions) {
	d, err := engine.DemandOf(f, engine.Options{Context: o.context})
	if err != nil {
		out.FitsWhy = plainWhy(err, out.Path)
		return
	}
	need := d.Total()
	if out.Memory = &need; r.Free == nil {
		out.FitsWhy = r.FreeFrom
		return
	}
	fits := *r.Free >= need
	out.Fits = &fits
}

// plainWhy is an error about a file on one line, without the file's name, which
// stands beside it, and with nothing in it that would spoil a terminal.
func plainWhy(err error, file string) string {
	var path *os.PathError
	s := err.Error()
	if errors.As(err, &path) && path.Path == file {
		s = path.Op + ": " + path.Err.Error()
	}
	s = strings.TrimPrefix(s, file+": ")
	for _, c := range s {
		if !strconv.IsPrint(c) {
			return strconv.Quote(s)
		}
	}
	return s
}

// completeModels lets a shell complete the names of models where a command takes
// one.
func completeModels(env *Env, root *cobra.Command) {
	names := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		out := []string{seedling.Name}
		for _, m := range catalog.Read(catalog.Places(env.Getenv)).Models {
			out = append(out, m.Name)
		}
		return out, cobra.ShellCompDirectiveDefault // and files
	}
	for _, cmd := range root.Commands() {
		for _, flag := range []string{"model", "model-file"} {
			if f := cmd.Flags().Lookup(flag); f != nil && f.Shorthand == "m" {
				_ = cmd.RegisterFlagCompletionFunc(flag, names) // fails only for a flag that is not there
			}
		}
	}
}

func (r *modelList) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tSTORE\tARCHITECTURE\tFORMAT\tSIZE\tMEMORY\tFITS\tRUNS")
	for _, m := range r.Models {
		format := "-"
		if m.Quantisation != nil {
			format = fmt.Sprintf("%s %.3g bits", *m.Quantisation, math.Round(*m.Bits*100)/100)
		}
		memory, fits, runs := "-", "-", "yes"
		if m.Memory != nil {
			memory = size(uint64(*m.Memory))
		}
		if m.Fits != nil {
			fits = yesNo(*m.Fits)
		}
		if !m.CanRun {
			runs = "no: " + m.CanRunWhy
		}
		if m.ReadWhy != "" {
			runs = "no: " + m.ReadWhy
		}
		architecture := "-"
		if m.Architecture != nil {
			architecture = *m.Architecture
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", m.Name, m.Store, architecture, format, size(uint64(m.Bytes)), memory, fits, runs)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	if r.Free == nil {
		fmt.Fprintf(w, "\nfree memory is unknown: %s\n", r.FreeFrom)
	} else {
		fmt.Fprintf(w, "\n%s of memory are free, by %s\n", size(uint64(*r.Free)), r.FreeFrom)
	}
	if len(r.Models) == 1 {
		var dirs []string
		for _, p := range r.Places {
			dirs = append(dirs, p.Dir)
		}
		fmt.Fprintf(w, "no other models in %s\n", strings.Join(dirs, ", "))
	}
	return nil
}
