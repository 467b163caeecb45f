// Gen writes the assembly of package kernel: one function for every format and
// number of tokens. The number of tokens in a tile never changes a bit of a
// result, since each pair of a row and a token owns one lane of one register
// and meets the same operations in the same order in every function.
//
//	go generate ./internal/engine/kernel
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	for name, text := range files() {
		if err := os.WriteFile(filepath.Join(".", name), []byte(text), 0o644); err != nil {
			fmt.Fprintln(os.Stderr, "gen:", err)
			os.Exit(1)
		}
	}
}

// files are the generated files of package kernel, by name.
func files() map[string]string {
	out := map[string]string{}
	for name, write := range map[string]func(*asm){
		"amx":             amxs,
		"attend":          attention,
		"delta":           deltas,
		"float":           floats,
		"vec":             vectors,
		"panel_avx2":      panelsAVX2,
		"panel32_avx512":  panels32,
		"panel256_avx512": panels256,
		"pack_avx512":     packers(isas[0]),
		"pack_avx2":       packers(isas[1]),
	} {
		var a asm
		write(&a)
		out[name+"_amd64.s"] = a.code()
		out[name+"_amd64.go"] = a.stubs()
	}
	return out
}
