package gguf

import "fmt"

// String returns a string of the metadata. This and the accessors below give an
// error that names the file, the key, the kind found and the kind wanted; it
// wraps ErrMissing when the key is absent.
func (f *File) String(key string) (string, error) {
	return access(f, key, "a string", Value.Text)
}

// Uint returns an integer of any kind that is not negative.
func (f *File) Uint(key string) (uint64, error) {
	return access(f, key, "an integer that is not negative", Value.Uint)
}

// Float returns a number of any kind.
func (f *File) Float(key string) (float64, error) {
	return access(f, key, "a number", Value.Float)
}

// Bool returns a bool.
func (f *File) Bool(key string) (bool, error) {
	return access(f, key, "a bool", Value.Bool)
}

// Strings returns an array of strings.
func (f *File) Strings(key string) ([]string, error) {
	return access(f, key, "an array of strings", Value.Strings)
}

// Ints returns an array of integers of any kind.
func (f *File) Ints(key string) ([]int64, error) {
	return access(f, key, "an array of integers that fit int64", Value.Ints)
}

// Floats returns an array of numbers of any kind.
func (f *File) Floats(key string) ([]float64, error) {
	return access(f, key, "an array of numbers", Value.Floats)
}

// Bools returns an array of bools.
func (f *File) Bools(key string) ([]bool, error) {
	return access(f, key, "an array of bools", Value.Bools)
}

func access[T any](f *File, key, want string, get func(Value) (T, bool)) (T, error) {
	var zero T
	v, ok := f.Lookup(key)
	switch {
	case !ok:
		return zero, fmt.Errorf("%s: key %q (%s): %w", f.name, key, want, ErrMissing)
	case f.closed:
		return zero, fmt.Errorf("%s: key %q: %w", f.name, key, ErrClosed)
	}
	if x, ok := get(v); ok {
		return x, nil
	}
	found := v.String() // of an array it says the kind
	if v.kind != KindArray {
		found = v.kind.String() + " " + found
	}
	return zero, fmt.Errorf("%s: key %q at byte %d: found %s; want %s", f.name, key, v.off, found, want)
}
