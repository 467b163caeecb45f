package kernel

import "unsafe"

// asBytes views weights as the bytes they are.
func asBytes(w *[256]int8) *[256]byte { return (*[256]byte)(unsafe.Pointer(w)) }

// aligned is n bytes of the Go heap that start at a cache line.
func aligned(n int) []byte {
	b := make([]byte, n+64)
	o := int(-uintptr(unsafe.Pointer(&b[0])) & 63)
	return b[o : o+n : o+n]
}

// bytesOfFloats views float32 as bytes.
func bytesOfFloats(x []float32) []byte {
	if len(x) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&x[0])), 4*len(x))
}

// floats views bytes, aligned to four, as float32.
func floats(b []byte) []float32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*float32)(unsafe.Pointer(&b[0])), len(b)/4)
}

// halfFloats views bytes, aligned to two, as half floats. There is at least one.
func halfFloats(b []byte) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(&b[0])), len(b)/2)
}
