package catalog

import (
	"assay/internal/gguf"
)

// Description is what a model's file says of itself.
type Description struct {
	Architecture string   // general.architecture; empty when it names none
	Quantisation string   // the format that most of its bytes are in, as in "Q4_K"
	Parameters   uint64   // of tensors whose format is known
	Bits         *float64 // a weight; nil when no tensor's format is known
}

// Describe reads the description of an open file.
func Describe(f *gguf.File) Description {
	var d Description
	if a, err := f.String("general.architecture"); err == nil && printable(a) {
		d.Architecture = a
	}
	bytes, most := map[gguf.Type]uint64{}, uint64(0)
	for _, t := range f.Tensors() {
		if bytes[t.Type] += t.Bytes(); bytes[t.Type] > most {
			d.Quantisation, most = t.Type.String(), bytes[t.Type]
		}
	}
	s := f.Stats()
	d.Parameters = s.Elements
	if b, ok := s.BitsPerWeight(); ok {
		d.Bits = &b
	}
	return d
}
