package gguf_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"assay/internal/gguf"
)

// Each accessor takes every kind that fits and refuses the rest, saying what
// was found and what was wanted.
func TestAccessors(t *testing.T) {
	f := mustParse(t, sample(t))
	tests := []struct {
		accessor, key string
		want          any    // nil: an error
		err           string // part of it
	}{
		{"String", "general.architecture", "test", ""},
		{"String", "u32", nil, `test.gguf: key "u32" at byte 147: found uint32 32; want a string`},
		{"Uint", "u8", uint64(8), ""},
		{"Uint", "u16", uint64(16), ""},
		{"Uint", "u32", uint64(32), ""},
		{"Uint", "u64", uint64(math.MaxUint64), ""},
		{"Uint", "i8", nil, "found int8 -8; want an integer that is not negative"},
		{"Uint", "i64", nil, "found int64 -9223372036854775808; want"},
		{"Uint", "f32", nil, "found float32 0.1; want"},
		{"Uint", "bool", nil, "found bool true; want"},
		{"Uint", "strings", nil, `found [4 strings: "a", "", "\xff\x00", "Ġthe"]; want`},
		{"Float", "f32", float64(float32(0.1)), ""},
		{"Float", "f64", 0.1, ""},
		{"Float", "i16", -16.0, ""},
		{"Float", "u8", 8.0, ""},
		{"Float", "u64", nil, "found uint64 18446744073709551615; want a number"},
		{"Float", "bool", nil, "found bool true; want a number"},
		{"Bool", "bool", true, ""},
		{"Bool", "u8", nil, "found uint8 8; want a bool"},
		{"Strings", "strings", []string{"a", "", "\xff\x00", "Ġthe"}, ""},
		{"Strings", "none", []string{}, ""},
		{"Strings", "general.architecture", nil, `found string "test"; want an array of strings`},
		{"Strings", "i32s", nil, "found [3 int32s: 1, -2, 3]; want an array of strings"},
		{"Ints", "i32s", []int64{1, -2, 3}, ""},
		{"Ints", "u64s", nil, "found [2 uint64s: 1, 18446744073709551615]; want an array of integers that fit int64"},
		{"Ints", "f32s", nil, "found [2 float32s: 0.5, -1]; want"},
		{"Ints", "u32", nil, "found uint32 32; want an array of integers"},
		{"Floats", "f32s", []float64{0.5, -1}, ""},
		{"Floats", "i32s", []float64{1, -2, 3}, ""},
		{"Floats", "none", nil, "found [0 strings]; want an array of numbers"},
		{"Floats", "f64", nil, "found float64 0.1; want an array of numbers"},
		{"Bools", "bools", []bool{true, false}, ""},
		{"Bools", "i32s", nil, "want an array of bools"},
	}
	for _, tt := range tests {
		t.Run(tt.accessor+"/"+tt.key, func(t *testing.T) {
			call := reflect.ValueOf(f).MethodByName(tt.accessor)
			out := call.Call([]reflect.Value{reflect.ValueOf(tt.key)})
			err, _ := out[1].Interface().(error)
			if tt.want == nil {
				wantError(t, err, tt.err)
				return
			}
			if got := out[0].Interface(); err != nil || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %v, %v; want %v", got, err, tt.want)
			}
			out = call.Call([]reflect.Value{reflect.ValueOf("no.such")})
			err, _ = out[1].Interface().(error)
			wantError(t, err, `test.gguf: key "no.such" (a`, "): not in the file")
			if !errors.Is(err, gguf.ErrMissing) {
				t.Errorf("%v does not wrap ErrMissing", err)
			}
		})
	}
}

// Values display themselves shortly, whatever they hold.
func TestDisplay(t *testing.T) {
	vocabulary := make([]string, 4096)
	for i := range vocabulary {
		vocabulary[i] = fmt.Sprint("t", i)
	}
	tests := []struct {
		value any
		want  string
	}{
		{"text", `"text"`},
		{strings.Repeat("x", 500), `"` + strings.Repeat("x", 120) + `"... (500 bytes)`},
		{strings.Repeat("x", 119) + "Ġ" + strings.Repeat("y", 50), `"` + strings.Repeat("x", 119) + `"... (171 bytes)`}, // not cut inside the letter
		{vocabulary, `[4096 strings: "t0", "t1", "t2", "t3", "t4", "t5", ...]`},
		{[]string{"one"}, `[1 string: "one"]`},
		{[]string{strings.Repeat("x", 99)}, `[1 string: "` + strings.Repeat("x", 40) + `"... (99 bytes)]`},
		{[]float32{}, "[0 float32s]"},
		{[]uint16{1, 2, 3}, "[3 uint16s: 1, 2, 3]"},
		{make([]bool, 17), "[17 bools: false, false, false, false, false, false, ...]"},
		{float32(0.1), "0.1"},
		{math.Inf(-1), "-Inf"},
		{int8(-1), "-1"},
		{uint64(math.MaxUint64), "18446744073709551615"},
		{true, "true"},
	}
	for _, tt := range tests {
		f := mustParse(t, build(t, func(b *gguf.Builder) { b.Set("k", tt.value) }))
		v, _ := f.Lookup("k")
		if got := v.String(); got != tt.want {
			t.Errorf("got  %s\nwant %s", got, tt.want)
		}
	}
}

func TestHead(t *testing.T) {
	f := mustParse(t, sample(t))
	v, _ := f.Lookup("strings")
	for n, want := range map[int]int{-1: 0, 0: 0, 3: 3, 4: 4, 99: 4} {
		if got := len(v.Head(n)); got != want {
			t.Errorf("Head(%d) has %d elements, want %d", n, got, want)
		}
	}
	if s, ok := v.Head(4)[3].Text(); !ok || s != "Ġthe" {
		t.Errorf("last is %q", s)
	}
	if n, _ := f.Lookup("u8"); n.Head(1) != nil {
		t.Error("a number has elements")
	}
}
