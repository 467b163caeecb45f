// Package seedling carries the built-in model, Seedling MoE 15M in IQ3_S, which
// the commands know as builtin:seedling. MODEL.md describes it. The other
// formats and the golden data are in ./formats, a module of its own.
package seedling

import _ "embed"

// Name is what -m takes to mean this model.
const Name = "builtin:seedling"

// File is the name of the file that is embedded.
const File = "seedling-15m-iq3_s.gguf"

// GGUF is the whole file. It must not be written to.
//
//go:embed seedling-15m-iq3_s.gguf
var GGUF []byte
