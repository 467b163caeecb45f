package model

// ExpertsRead is how many experts passes computed so far, each counted once a layer
// and pass, however many tokens chose it: what several sequences in a pass share. It
// may be asked between passes.
func (s *Pass) ExpertsRead() int64 { return s.moe.read }
