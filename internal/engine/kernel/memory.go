package kernel

import "unsafe"

// asBytes views weights as the bytes they are.
func asBytes(w *[256]int8) *[256]byte { return (*[256]byte)(unsafe.Pointer(w)) }
