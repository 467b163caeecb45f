//go:build !linux

package kv

func pageMemory(n int) []byte { return make([]byte, n) }
