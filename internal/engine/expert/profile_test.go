package expert

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What was used most is what the next start reads first.
func TestProfile(t *testing.T) {
	f := model(t)
	file := filepath.Join(t.TempDir(), "profile.json")
	first := open(t, f, testShape, Options{Bytes: 64 << 20})
	for range 5 {
		for layer := range testShape.Layers {
			b, err := first.Begin(layer, []int32{4, 9}, []int32{3, 1})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := all(b, func(Expert) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := first.SaveProfile(file); err != nil {
		t.Fatal(err)
	}
	if p := first.profile(); !(p.Uses[1][4] > 14.9 && p.Uses[1][4] <= 15 && p.Uses[2][9] > 4.9 && p.Uses[0][0] == 0) {
		t.Errorf("uses: %v", p.Uses)
	}
	s := open(t, f, testShape, Options{Bytes: 64 << 20})
	if err := s.LoadProfile(file); err != nil {
		t.Fatal(err)
	}
	if err := s.Warm(context.Background()); err != nil {
		t.Fatal(err)
	}
	for layer := range testShape.Layers {
		for id := range testShape.Experts {
			if got, want := s.Resident(layer, id), id == 4 || id == 9; got != want {
				t.Errorf("layer %d expert %d in memory: %v", layer, id, got)
			}
		}
	}
	// With no room for all, those that were used most are there.
	small := open(t, f, testShape, Options{Bytes: least(t, f, DefaultReaders)})
	if err := small.LoadProfile(file); err != nil {
		t.Fatal(err)
	}
	if err := small.Warm(context.Background()); err != nil {
		t.Fatal(err)
	}
	if !small.Resident(0, 4) || !small.Resident(1, 4) {
		t.Error("the most used experts are not in memory")
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := small.Warm(ctx); err == nil {
		t.Error("Warm does not heed its context")
	}
}

func TestProfileRefused(t *testing.T) {
	s := open(t, model(t), testShape, Options{Bytes: 64 << 20})
	for _, c := range []struct {
		change func(*profile)
		want   string
	}{
		{func(p *profile) { p.Format = "x" }, `format is "x"`},
		{func(p *profile) { p.Version = 2 }, "version is 2, want 1"},
		{func(p *profile) { p.Experts = 11 }, "3 layers of 11 experts, this one has 3 of 12"},
		{func(p *profile) { p.Model = "beef" }, "it is of another model (beef, this one is "},
		{func(p *profile) { p.Uses = p.Uses[1:] }, "uses has 2 layers, want 3"},
		{func(p *profile) { p.Uses[1] = nil }, "uses[1] has 0 experts, want 12"},
		{func(p *profile) { p.Uses[1][2] = -1 }, "uses[1][2] is -1"},
	} {
		p := s.profile()
		c.change(&p)
		data, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		file := filepath.Join(t.TempDir(), "p.json")
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := s.LoadProfile(file); err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
	file := filepath.Join(t.TempDir(), "p.json")
	if err := os.WriteFile(file, make([]byte, 1<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := s.LoadProfile(file); err == nil || !strings.Contains(err.Error(), "more than the 5248 bytes") {
		t.Errorf("a large file: %v", err)
	}
}

// Whatever a profile says, it is taken whole or refused, and the store works on.
func FuzzProfile(f *testing.F) {
	file := model(f)
	s, err := Open(file, testShape, Options{Bytes: 64 << 20})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Close() })
	good, err := json.Marshal(s.profile())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"format":"assay-expert-profile","version":1,"layers":3,"experts":12,"uses":[[1]]}`))
	f.Add([]byte("{"))
	f.Fuzz(func(t *testing.T, data []byte) {
		if s.setProfile(data) != nil {
			return
		}
		b, err := s.Begin(0, []int32{0}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := all(b, func(Expert) error { return nil }); n != 1 || err != nil {
			t.Fatal(n, err)
		}
	})
}
