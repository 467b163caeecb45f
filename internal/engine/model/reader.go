package model

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"assay/internal/gguf"
)

// reader reads the keys of one architecture. It collects what is wrong, so that
// one error can list it all; what it returns then is a harmless value.
type reader struct {
	f    *gguf.File
	arch string
	bad  []string // hyper-parameters that are missing or can't be run

	asked map[string]bool // keys that the architecture knows
}

// unknown are keys that change the forward pass. An architecture that does not ask
// for one must not run a file that sets it. The first list is of numbers, of which
// the neutral one is 0, the second of those whose neutral one is 1.
var unknown = [2][]string{
	{"attn_logit_softcapping", "final_logit_softcapping", "attention.max_alibi_bias", "attention.clamp_kqv", "use_parallel_residual", "attention.scale", "attention.temperature_scale"},
	{"logit_scale", "residual_scale", "embedding_scale", "rope.scaling.attn_factor"},
}

// refuse notes the keys of unknown that are set and that nobody asked for.
func (r *reader) refuse() {
	for neutral, keys := range unknown {
		for _, key := range keys {
			v, ok := r.f.Lookup(r.arch + "." + key)
			if !ok || r.asked[key] {
				continue
			}
			if x, ok := v.Float(); ok && x == float64(neutral) {
				continue
			}
			if x, ok := v.Uint(); ok && x == uint64(neutral) {
				continue
			}
			if x, ok := v.Bool(); ok && !x {
				continue
			}
			r.fail(key, "this engine can't run it with %s", r.arch)
		}
	}
	if v, ok := r.f.Lookup(r.arch + ".attention.causal"); ok {
		if x, ok := v.Bool(); !ok || !x {
			r.fail("attention.causal", "it is not true, but this engine writes text")
		}
	}
}

// fail notes that a key can't be run.
func (r *reader) fail(key, format string, args ...any) {
	r.complain(fmt.Sprintf("%s.%s: %s", r.arch, key, fmt.Sprintf(format, args...)))
}

// complain adds to the list, once: layers ask for the same keys.
func (r *reader) complain(text string) {
	if !slices.Contains(r.bad, text) {
		r.bad = append(r.bad, text)
	}
}

func (r *reader) has(key string) bool {
	_, ok := r.f.Lookup(r.name(key))
	return ok
}

// name is the full name of a key that the architecture knows.
func (r *reader) name(key string) string {
	r.asked[key] = true
	return r.arch + "." + key
}

// note keeps an error of package gguf, whose file name the list has already.
func (r *reader) note(err error) { r.complain(strings.TrimPrefix(err.Error(), r.f.Name()+": ")) }

// number is a whole number between least and most.
func (r *reader) number(key string, least, most int) int {
	v, err := r.f.Uint(r.name(key))
	switch {
	case err != nil:
		r.note(err)
		return least
	case v < uint64(least) || v > uint64(most):
		r.fail(key, "%d is not between %d and %d", v, least, most)
		return least
	}
	return int(v)
}

// numberOr is number, with a value for when the key is missing.
func (r *reader) numberOr(key string, missing, least, most int) int {
	if !r.has(key) {
		return missing
	}
	return r.number(key, least, most)
}

// numbers is a whole number for each of n layers: a list of them, or one for all.
func (r *reader) numbers(key string, n, least, most int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = least
	}
	if list, err := r.f.Ints(r.name(key)); err == nil {
		if len(list) < n {
			r.fail(key, "it lists %d layers of %d", len(list), n)
			return out
		}
		for i := range out {
			if v := list[i]; v < int64(least) || v > int64(most) {
				r.fail(key, "%d, for layer %d, is not between %d and %d", v, i, least, most)
				return out
			}
			out[i] = int(list[i])
		}
		return out
	}
	v := r.number(key, least, most)
	for i := range out {
		out[i] = v
	}
	return out
}

// real is a number between least and most.
func (r *reader) real(key string, least, most float64) float64 {
	v, err := r.f.Float(r.name(key))
	switch {
	case err != nil:
		r.note(err)
		return least
	case !(v >= least && v <= most):
		r.fail(key, "%g is not between %g and %g", v, least, most)
		return least
	}
	return v
}

// realOr is real, with a value for when the key is missing.
func (r *reader) realOr(key string, missing, least, most float64) float64 {
	if !r.has(key) {
		return missing
	}
	return r.real(key, least, most)
}

// flagOr is true or false, or what stands for a missing key.
func (r *reader) flagOr(key string, missing bool) bool {
	v, err := r.f.Bool(r.name(key))
	if errors.Is(err, gguf.ErrMissing) {
		return missing
	}
	if err != nil {
		r.note(err)
	}
	return v
}

// textOr is a text, or what stands for a missing key.
func (r *reader) textOr(key, missing string) string {
	v, err := r.f.String(r.name(key))
	if errors.Is(err, gguf.ErrMissing) {
		return missing
	}
	if err != nil {
		r.note(err)
	}
	return v
}
