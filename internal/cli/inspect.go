package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"sort"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"assay/internal/engine"
	"assay/internal/gguf"
)

const inspectLong = `Show what a GGUF file holds: its metadata, its tensors with their formats and
sizes, and how many bits a weight takes. Tensors in formats that the engine
can't run are listed.

The file may be the first shard of a split model; the others are found beside
it.

Examples:
  assay inspect model.gguf
  assay inspect builtin:seedling --json

EXIT STATUS
  0  ok
  1  the file can't be read, or is damaged
  2  wrong usage`

type inspectOptions struct {
	tensors bool
	json    bool
}

func newInspectCommand(env *Env) *cobra.Command {
	var o inspectOptions
	cmd := &cobra.Command{
		Use:   "inspect FILE",
		Short: "Show what a GGUF file holds",
		Long:  inspectLong,
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			f, err := openModel(env, args[0])
			if err != nil {
				return err
			}
			defer f.Close()
			r := inspect(f)
			if o.json {
				e := json.NewEncoder(env.Stdout)
				e.SetEscapeHTML(false)
				e.SetIndent("", "  ")
				return e.Encode(r)
			}
			return r.print(env.Stdout, o.tensors)
		},
	}
	cmd.Flags().BoolVar(&o.tensors, "tensors", true, "list every tensor")
	cmd.Flags().BoolVar(&o.json, "json", false, "print one JSON object")
	return cmd
}

// inspection is what inspect found; its JSON is the command's --json.
type inspection struct {
	File          string            `json:"file"`
	Version       uint32            `json:"gguf_version"`
	Bytes         int64             `json:"bytes"`
	Shards        []inspectedShard  `json:"shards"`
	Metadata      []inspectedKV     `json:"metadata"`
	Tensors       []inspectedTensor `json:"tensors"`
	Types         []inspectedType   `json:"types"`
	Parameters    uint64            `json:"parameters"`
	TensorBytes   uint64            `json:"tensor_bytes"`
	BitsPerWeight *float64          `json:"bits_per_weight"` // null when no tensor's size is known
	Unsupported   []string          `json:"unsupported"`     // tensors whose format the engine can't run
	CanRun        bool              `json:"can_run"`
	CanRunWhy     string            `json:"can_run_why,omitempty"` // why not
}

type inspectedShard struct {
	Path  string `json:"path"`
	Bytes int64  `json:"bytes"`
}

type inspectedKV struct {
	Key   string `json:"key"`
	Kind  string `json:"kind"`
	Value string `json:"value"` // long arrays are abbreviated
}

type inspectedTensor struct {
	Name   string   `json:"name"`
	Type   string   `json:"type"`
	Dims   []uint64 `json:"dims"` // GGUF's order: the row length first
	Bytes  uint64   `json:"bytes"`
	Shard  int      `json:"shard"`
	Offset uint64   `json:"offset"`
}

type inspectedType struct {
	Type    string `json:"type"`
	Tensors int    `json:"tensors"`
	Weights uint64 `json:"weights"`
	Bytes   uint64 `json:"bytes"`
	CanRun  bool   `json:"can_run"`
}

func inspect(f *gguf.File) *inspection {
	r := &inspection{File: f.Name(), Version: f.Version(), Bytes: f.Size(), Unsupported: []string{}}
	for _, s := range f.Shards() {
		r.Shards = append(r.Shards, inspectedShard{s.Path, s.Size})
	}
	for _, kv := range f.KVs() {
		r.Metadata = append(r.Metadata, inspectedKV{kv.Key, kv.Value.Kind().String(), kv.Value.String()})
	}
	types := map[string]*inspectedType{}
	for _, t := range f.Tensors() {
		r.Tensors = append(r.Tensors, inspectedTensor{t.Name, t.Type.String(), t.Dims, t.Bytes(), t.Shard, t.Offset})
		c := types[t.Type.String()]
		if c == nil {
			c = &inspectedType{Type: t.Type.String(), CanRun: engine.CanRunType(t.Type)}
			types[c.Type] = c
		}
		c.Tensors++
		c.Weights += t.Elements()
		c.Bytes += t.Bytes()
		if !c.CanRun {
			r.Unsupported = append(r.Unsupported, t.Name)
		}
	}
	for _, c := range types {
		r.Types = append(r.Types, *c)
	}
	sort.Slice(r.Types, func(i, j int) bool { return r.Types[i].Bytes > r.Types[j].Bytes })
	stats := f.Stats()
	r.Parameters, r.TensorBytes = stats.Elements, stats.Bytes
	if bits, ok := stats.BitsPerWeight(); ok {
		r.BitsPerWeight = &bits
	}
	if err := engine.CanRun(f); err != nil {
		r.CanRunWhy = err.Error()
	} else {
		r.CanRun = true
	}
	return r
}

func (r *inspection) print(w io.Writer, tensors bool) error {
	p := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(p, "file\t%s (GGUF version %d, %s)\n", r.File, r.Version, size(uint64(r.Bytes)))
	for _, s := range r.Shards {
		if len(r.Shards) > 1 {
			fmt.Fprintf(p, "shard\t%s (%s)\n", s.Path, size(uint64(s.Bytes)))
		}
	}
	fmt.Fprintf(p, "parameters\t%s\n", thousands(r.Parameters))
	bits := "unknown: no tensor has a known format"
	if r.BitsPerWeight != nil {
		bits = fmt.Sprintf("%.2f", *r.BitsPerWeight)
	}
	fmt.Fprintf(p, "bits per weight\t%s\n", bits)
	if r.CanRun {
		fmt.Fprintf(p, "this engine\truns it\n")
	} else {
		fmt.Fprintf(p, "this engine\tcan't run it: %s\n", r.CanRunWhy)
	}
	fmt.Fprintf(p, "\nMETADATA\n")
	for _, kv := range r.Metadata {
		fmt.Fprintf(p, "%s\t%s\t%s\n", kv.Key, kv.Kind, kv.Value)
	}
	fmt.Fprintf(p, "\nFORMAT\tTENSORS\tWEIGHTS\tBYTES\t\n")
	for _, t := range r.Types {
		note := ""
		if !t.CanRun {
			note = "this engine can't run it"
		}
		fmt.Fprintf(p, "%s\t%d\t%s\t%s\t%s\n", t.Type, t.Tensors, thousands(t.Weights), thousands(t.Bytes), note)
	}
	if tensors {
		fmt.Fprintf(p, "\nTENSOR\tFORMAT\tDIMENSIONS\tBYTES\n")
		for _, t := range r.Tensors {
			fmt.Fprintf(p, "%s\t%s\t%s\t%s\n", t.Name, t.Type, strings.Trim(strings.ReplaceAll(fmt.Sprint(t.Dims), " ", " x "), "[]"), thousands(t.Bytes))
		}
	}
	return p.Flush()
}

// thousands writes n with a comma between groups of three digits.
func thousands(n uint64) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// size writes a number of bytes in the unit that a person would choose.
func size(n uint64) string {
	for _, u := range []struct {
		name string
		size float64
	}{{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if float64(n) >= u.size {
			return fmt.Sprintf("%.2f %s", float64(n)/u.size, u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
