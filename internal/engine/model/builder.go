package model

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"assay/internal/engine/expert"
	"assay/internal/engine/kernel"
	"assay/internal/engine/quant"
	"assay/internal/engine/weights"
	"assay/internal/gguf"
)

// builder puts a model together. It collects what is missing or wrong, and goes
// on, so that one error can list it all. Its shapes are [rows, cols].
type builder struct {
	reader
	Config
	w       *weights.Set  // the tensors, loaded or viewed
	store   *expert.Store // holds the experts; nil: w has them
	loaded  bool          // w is what New was given; else a view of the file
	used    map[string]bool
	missing []string // tensors
	shapes  []string // tensors of other dimensions or formats
	rows    int      // of the matrices of the layer at work: about its scratch
}

const embeddings = "token_embd.weight"

// WeightOptions says how the tensors of f are to be kept for New.
func WeightOptions(f *gguf.File) weights.Options {
	_, untied := f.Tensor("output.weight")
	looked := []string{embeddings}
	for _, t := range f.Tensors() {
		if strings.HasSuffix(t.Name, ".nextn.embed_tokens.weight") {
			looked = append(looked, t.Name)
		}
	}
	return weights.Options{Lookup: looked, Both: !untied, Disk: []string{gramTable}}
}

// has says whether the file has a tensor.
func (b *builder) has(name string) bool { return b.w.Has(name) }

// got notes that a tensor was asked for, and what was wrong with it.
func (b *builder) got(name string, err error) bool {
	b.used[name] = true
	switch {
	case err == nil:
		return true
	case !b.w.Has(name):
		b.missing = append(b.missing, name)
	default:
		text := err.Error()
		b.shapes = append(b.shapes, text[strings.Index(text, "tensor "):])
	}
	return false
}

// computes says whether the format of a tensor is one that kernels have. Those
// that are not are listed by weights.Check.
func (b *builder) computes(name string) bool {
	t, ok := b.w.Type(name)
	b.used[name] = true
	return !ok || quant.Supported(t)
}

// format is the format of a tensor that is not in w, as a matrix without weights.
func (b *builder) format(name string) *kernel.Matrix {
	b.used[name] = true
	t, ok := b.reader.f.Tensor(name)
	if !ok {
		b.missing = append(b.missing, name)
		return absent(0, 0)
	}
	return &kernel.Matrix{Type: t.Type}
}

// absent stands for a matrix that is not there: nothing will be computed with it.
func absent(rows, cols int) *kernel.Matrix {
	return &kernel.Matrix{Type: gguf.F32, Rows: rows, Cols: cols}
}

func (b *builder) matrix(name string, rows, cols int) *kernel.Matrix {
	b.rows += rows
	if !b.computes(name) {
		return absent(rows, cols)
	}
	m, err := b.w.Matrix(name, rows, cols)
	if !b.got(name, err) {
		return absent(rows, cols)
	}
	return m
}

// linear is the matrix NAME.weight, with NAME.bias where the file has that.
func (b *builder) linear(name string, rows, cols int) linear {
	return linear{b.matrix(name+".weight", rows, cols), b.vectorIf(name+".bias", rows)}
}

// cut takes a matrix that holds several apart: rows says how many each has.
func (b *builder) cut(name string, l linear, rows ...int) []linear {
	out := make([]linear, len(rows))
	from := 0
	for i, n := range rows {
		if l.data() {
			out[i].Matrix = l.RowRange(from, from+n)
		}
		if out[i].Matrix == nil {
			if l.data() {
				b.shapes = append(b.shapes, fmt.Sprintf("tensor %s can't be cut at row %d, which is no multiple of 16", name, from))
			}
			out[i].Matrix = absent(n, l.Cols)
		}
		if l.bias != nil {
			out[i].bias = l.bias[from : from+n]
		}
		from += n
	}
	return out
}

// stack is n matrices.
func (b *builder) stack(name string, n, rows, cols int) []*kernel.Matrix {
	out := make([]*kernel.Matrix, n)
	if b.computes(name) {
		m, err := b.w.Experts(name, n, rows, cols)
		if b.got(name, err) {
			return m
		}
	}
	for i := range out {
		out[i] = absent(rows, cols)
	}
	return out
}

// lookup is a matrix of which only rows are read. It must be among those that
// WeightOptions names.
func (b *builder) lookup(name string, rows, cols int) *kernel.Matrix {
	if !b.computes(name) {
		return absent(rows, cols)
	}
	m, err := b.w.Rows(name, rows, cols)
	if !b.got(name, err) {
		return absent(rows, cols)
	}
	return m
}

// table is a tensor with rows of cols numbers that stays in the file. It must be
// among those that WeightOptions names as such. nil as long as nothing is loaded.
func (b *builder) table(name string, cols int) *weights.Table {
	b.used[name] = true
	t, ok := b.reader.f.Tensor(name)
	switch {
	case !ok:
		b.missing = append(b.missing, name)
	case t.Dims[0] != uint64(cols):
		b.shapes = append(b.shapes, fmt.Sprintf("tensor %s has rows of %d, but the metadata ask for %d", name, t.Dims[0], cols))
	case b.loaded:
		table, err := b.w.Table(name, cols)
		b.got(name, err)
		return table
	}
	return nil
}

func (b *builder) vector(name string, n int) []float32 {
	v, err := b.w.Vector(name, n)
	if !b.got(name, err) {
		return make([]float32, n)
	}
	return v
}

// vectorIf is nil where the file has no such tensor.
func (b *builder) vectorIf(name string, n int) []float32 {
	if !b.w.Has(name) {
		return nil
	}
	return b.vector(name, n)
}

// expertBias is the biases of n experts, [n, k]; nil where the file has none.
func (b *builder) expertBias(name string, n, k int) []float32 {
	if !b.w.Has(name) {
		return nil
	}
	v, err := b.w.Vectors(name, n, k)
	if !b.got(name, err) {
		return make([]float32, n*k)
	}
	return v
}

// build reads all of a model. w holds the tensors of f.
func build(f *gguf.File, w *weights.Set, store *expert.Store, loaded bool) (*Model, error) {
	b, arch, err := newBuilder(f, w, store)
	if err != nil {
		return nil, err
	}
	b.loaded = loaded
	m := &Model{streams: 1}
	if t, ok := f.Tensor(embeddings); ok && len(t.Dims) == 2 && t.Dims[1] <= math.MaxInt32 {
		b.Vocabulary = int(t.Dims[1])
	}
	m.embed = b.lookup(embeddings, b.Vocabulary, b.Width)
	output := "output.weight"
	if !b.has(output) {
		output = embeddings
	}
	m.output = linear{b.matrix(output, b.Vocabulary, b.Width), b.vectorIf("output.bias", b.Vocabulary)}
	family := arch(b)
	m.embedScale, m.logitScale, m.streams = family.embedScale, family.logitScale, max(1, family.streams)
	b.make(m, family, 0, b.Layers)
	if m.ending = nil; family.ending != nil {
		m.ending = family.ending()
	} else {
		if family.outputNorm == "" {
			family.outputNorm = "output_norm.weight"
		}
		m.ending = &normed{b.vector(family.outputNorm, b.Width)}
	}
	m.Config = b.Config
	return m, b.err(-1, b.Layers)
}

// make makes n layers from number first on.
func (b *builder) make(m *Model, family family, first, n int) {
	most := 0
	for i := range n {
		b.rows = 0
		l := family.layer(first + i)
		m.layers = append(m.layers, l)
		b.layers = append(b.layers, l.keeps())
		most = max(most, b.rows)
	}
	b.scratch = (4*m.streams+2)*b.Width + 2*most + b.Used*(3*b.ExpertWidth+b.Width) + b.Experts
}

// newBuilder reads what all architectures have.
func newBuilder(f *gguf.File, w *weights.Set, store *expert.Store) (*builder, func(b *builder) family, error) {
	name, err := f.String("general.architecture")
	if err != nil {
		return nil, nil, err
	}
	arch, ok := architectures[name]
	if !ok {
		err := fmt.Errorf("%s: general.architecture is %q, which this engine can't run yet; it runs %s", f.Name(), name, strings.Join(Architectures(), ", "))
		if formats := weights.Check(f); formats != nil {
			err = fmt.Errorf("%w; %s", err, strings.TrimPrefix(formats.Error(), f.Name()+": "))
		}
		return nil, nil, err
	}
	b := &builder{reader: reader{f: f, arch: name, asked: map[string]bool{}}, w: w, store: store, used: map[string]bool{}}
	b.Config = Config{
		file:         f,
		Architecture: name,
		Layers:       b.number("block_count", 1, 1<<10),
		Width:        b.number("embedding_length", 1, 1<<17),
		Context:      b.number("context_length", 1, 1<<27),
		Eps:          float32(b.real("attention.layer_norm_rms_epsilon", 0, 1)),
		Vocabulary:   1,
	}
	b.Drafting = b.numberOr("nextn_predict_layers", 0, 0, b.Layers-1)
	b.Layers -= b.Drafting
	return b, arch, nil
}

// err is all that is wrong, or nil. Tensors of layers from number first on to that
// before behind were asked for, and, where first is negative, those of no layer.
func (b *builder) err(first, behind int) error {
	b.refuse()
	bad := b.bad
	if formats := weights.Check(b.f); formats != nil {
		bad = append(bad, strings.TrimPrefix(formats.Error(), b.f.Name()+": "))
	}
	switch {
	case slices.Contains(b.missing, embeddings) && b.Drafting > 0:
		bad = append(bad, "tensor "+embeddings+" is missing: this seems to be a file of a head that drafts, for use beside its model")
	case len(b.missing) == 1:
		bad = append(bad, "tensor "+b.missing[0]+" is missing")
	case len(b.missing) > 1:
		bad = append(bad, fmt.Sprintf("%d tensors are missing: %s", len(b.missing), shorten(b.missing)))
	}
	if len(b.bad) == 0 { // else the dimensions asked for are made up
		bad = append(bad, b.shapes...)
		if len(b.missing) == 0 {
			bad = append(bad, b.strange(first, behind)...)
		}
	}
	switch len(bad) {
	case 0:
		return nil
	case 1:
		return fmt.Errorf("%s: %s", b.f.Name(), bad[0])
	}
	if len(bad) > listed {
		bad = append(bad[:listed:listed], fmt.Sprintf("and %d more", len(bad)-listed))
	}
	return fmt.Errorf("%s: this engine can't run it:\n  %s", b.f.Name(), strings.Join(bad, "\n  "))
}

// listed is how many names or complaints an error lists.
const listed = 20

func shorten(names []string) string {
	if len(names) <= listed {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:listed], ", "), len(names)-listed)
}

// strange lists the tensors that nothing asked for: leaving out what a model was
// trained with gives wrong answers, not errors.
func (b *builder) strange(first, behind int) []string {
	var names []string
	for _, name := range b.w.Names() {
		layer, ok := layerOf(name)
		if !ok {
			layer = -1
		}
		if layer >= first && layer < behind && !b.used[name] {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil
	}
	return []string{fmt.Sprintf("%d tensors have no place in %s as this engine knows it: %s", len(names), b.arch, shorten(names))}
}

// layerOf is the number of the layer that a tensor belongs to, if it does.
func layerOf(tensor string) (layer int, ok bool) {
	_, err := fmt.Sscanf(tensor, "blk.%d.", &layer)
	return layer, err == nil
}
