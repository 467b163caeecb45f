package ref

import (
	"fmt"

	"assay/internal/gguf"
)

// LoadHead reads the block that drafts from a file of its own, which holds no
// more than that: the model's embeddings and output are used with it.
func (m *Model) LoadHead(f *gguf.File) error {
	arch, err := f.String("general.architecture")
	if err != nil {
		return err
	}
	if _, ok := architectures[arch]; !ok {
		return fmt.Errorf("%s: architecture %q is not supported", f.Name(), arch)
	}
	l := &loader{f: f, arch: arch}
	blocks, heads, width := l.int("block_count"), l.int("nextn_predict_layers"), l.int("embedding_length")
	switch {
	case l.err != nil:
		return l.err
	case heads < 1:
		return fmt.Errorf("%s: %s.nextn_predict_layers is %d: it has no head that drafts", f.Name(), arch, heads)
	case blocks-heads != m.layers || width != m.d:
		return fmt.Errorf("%s: its head follows %d layers of width %d, but the model has %d of width %d", f.Name(), blocks-heads, width, m.layers, m.d)
	}
	l.nextToken(m, plainBlock)
	return l.err
}
