package expert

import (
	"cmp"
	"container/heap"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"

	"assay/internal/gguf"
)

// profile is the file of --expert-profile, as JSON: how often each expert was used,
// uses counting half after half_life_tokens. It says which experts to read first;
// it never changes a result. Version 1.
type profile struct {
	Format   string      `json:"format"`  // "assay-expert-profile"
	Version  int         `json:"version"` // 1
	Model    string      `json:"model"`   // sha256 of what identity reads
	Layers   int         `json:"layers"`
	Experts  int         `json:"experts"` // a layer
	HalfLife float64     `json:"half_life_tokens"`
	Uses     [][]float64 `json:"uses"` // [layers][experts]
}

const (
	profileFormat  = "assay-expert-profile"
	profileVersion = 1
)

// identityBytes are read of each router: enough to know one model from another.
const identityBytes = 64 << 10

// identity is a hash of the names, formats and sizes of the expert tensors and of
// the beginning of each layer's router: what decides which experts are chosen, in
// every quantisation of it that keeps the router as it is.
func identity(f *gguf.File, r Reader, shape Shape) (string, error) {
	m, err := newMapping(padded(covering(identityBytes), hugePage))
	if err != nil {
		return "", err
	}
	h := sha256.New()
	fmt.Fprintf(h, "%d layers, %d experts, %d used, %d x %d\n", shape.Layers, shape.Experts, shape.Used, shape.Width, shape.Inner)
	for l := range shape.Layers {
		for _, name := range layerTensors(f, l) {
			t, _ := f.Tensor(name)
			fmt.Fprintf(h, "%s %s %v\n", t.Name, t.Type, t.Dims)
		}
		t, ok := f.Tensor(fmt.Sprintf("blk.%d.ffn_gate_inp.weight", l))
		if !ok {
			continue
		}
		data, err := piece(r, t.Shard, int64(t.Offset), int(min(t.Bytes(), identityBytes)), m.mem)
		if err != nil {
			return "", errors.Join(fmt.Errorf("%s: tensor %s: %w", f.Name(), t.Name, err), m.close())
		}
		h.Write(data)
	}
	return hex.EncodeToString(h.Sum(nil)), m.close()
}

// SaveProfile writes how often experts were used, for LoadProfile. The file is
// there whole or not at all.
func (s *Store) SaveProfile(path string) (err error) {
	data, err := json.Marshal(s.profile())
	if err != nil {
		return err
	}
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	_, err = tmp.Write(append(data, '\n'))
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

func (s *Store) profile() profile {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := profile{
		Format: profileFormat, Version: profileVersion, Model: s.hash,
		Layers: s.shape.Layers, Experts: s.shape.Experts, HalfLife: halfLife,
	}
	for l := range s.shape.Layers {
		uses := make([]float64, s.shape.Experts)
		for i := range uses {
			// Four digits: more would be noise.
			uses[i] = math.Round(1e4*s.policy.frequency(&s.entries[l*s.shape.Experts+i])) / 1e4
		}
		p.Uses = append(p.Uses, uses)
	}
	return p
}

// LoadProfile takes over how often experts were used. It is for a store that has
// not been used yet; Warm then reads them.
func (s *Store) LoadProfile(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	// A number has at most some 24 characters.
	most := int64(4096 + 32*len(s.entries))
	data, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return err
	}
	if int64(len(data)) > most {
		return fmt.Errorf("%s: more than the %d bytes that a profile of %d experts has", path, most, len(s.entries))
	}
	if err := s.setProfile(data); err != nil {
		return fmt.Errorf("%s: %w; delete the file to start a new profile", path, err)
	}
	return nil
}

// setProfile takes all of a profile, or nothing.
func (s *Store) setProfile(data []byte) error {
	var p profile
	if err := json.Unmarshal(data, &p); err != nil {
		return fmt.Errorf("not a profile of experts: %w", err)
	}
	switch {
	case p.Format != profileFormat:
		return fmt.Errorf("format is %q, want %q", p.Format, profileFormat)
	case p.Version != profileVersion:
		return fmt.Errorf("version is %d, want %d", p.Version, profileVersion)
	case p.Layers != s.shape.Layers || p.Experts != s.shape.Experts:
		return fmt.Errorf("it is of a model with %d layers of %d experts, this one has %d of %d", p.Layers, p.Experts, s.shape.Layers, s.shape.Experts)
	case p.Model != s.hash:
		return fmt.Errorf("it is of another model (%.12s, this one is %.12s)", p.Model, s.hash)
	case len(p.Uses) != p.Layers:
		return fmt.Errorf("uses has %d layers, want %d", len(p.Uses), p.Layers)
	}
	for l, uses := range p.Uses {
		if len(uses) != p.Experts {
			return fmt.Errorf("uses[%d] has %d experts, want %d", l, len(uses), p.Experts)
		}
		for i, u := range uses {
			if !(u >= 0 && u < 1e9) {
				return fmt.Errorf("uses[%d][%d] is %g, want a number of uses", l, i, u)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range s.entries {
		e := &s.entries[i]
		if e.key = math.Log2(p.Uses[i/p.Experts][i%p.Experts]) + s.policy.now; e.place >= 0 {
			heap.Fix(&e.slot.class.idle, e.place)
		}
	}
	return nil
}

// warmStep is how many experts Warm reads at the same time: enough to keep all
// readers busy.
const warmStep = 16

// Warm reads the experts that were used most, as far as there is room, and returns
// when they are in memory. Without a profile it does nothing.
func (s *Store) Warm(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var hot []*entry
	for i := range s.entries {
		if e := &s.entries[i]; e.key > lowest {
			hot = append(hot, e)
		}
	}
	slices.SortStableFunc(hot, func(a, b *entry) int { return cmp.Compare(b.key, a.key) })
	var held []*entry
	wait := func() (err error) {
		for _, e := range held {
			for e.state == loading {
				s.changed.Wait()
			}
			err = errors.Join(err, e.err)
			s.drop(e)
		}
		held = held[:0]
		s.freed()
		s.leave()
		return err
	}
	for len(hot) > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if s.closed {
			return ErrClosed
		}
		s.open++
		for len(hot) > 0 && len(held) < warmStep {
			e := hot[0]
			hot = hot[1:]
			c := s.layers[int(e.index)/s.shape.Experts].class
			if c == nil || e.state != absent || e.err != nil || len(c.free) == 0 && len(c.slabs) >= s.limit(c) {
				continue
			}
			if t, err := s.take(c); err == nil && t != nil {
				s.fetch(e, t, &s.demand)
				s.hold(e)
				held = append(held, e)
			}
		}
		if err := wait(); err != nil {
			return err
		}
	}
	return nil
}
