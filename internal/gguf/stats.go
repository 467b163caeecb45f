package gguf

// Stats sums tensors up.
type Stats struct {
	Tensors  int
	Elements uint64 // of tensors whose type is known
	Bytes    uint64 // of tensors whose type is known
	Unknown  int    // tensors of unknown type, in Tensors but not in the sums
}

// BitsPerWeight is bits of tensor data per element, over the tensors whose type
// is known. It is false when there are none.
func (s Stats) BitsPerWeight() (float64, bool) {
	if s.Elements == 0 {
		return 0, false
	}
	return float64(s.Bytes) * 8 / float64(s.Elements), true
}

// Add counts one more tensor.
func (s *Stats) Add(t *Tensor) {
	s.Tensors++
	if !t.Type.Known() {
		s.Unknown++
		return
	}
	s.Elements += t.Elements()
	s.Bytes += t.Bytes()
}

// Stats sums all tensors of the file up.
func (f *File) Stats() Stats {
	var s Stats
	for _, t := range f.tensors {
		s.Add(t)
	}
	return s
}
