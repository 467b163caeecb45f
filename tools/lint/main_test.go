package main

import (
	"strings"
	"testing"
)

func TestCheck(t *testing.T) {
	long := "package a\n" + strings.Repeat("\n", 600)
	for _, c := range []struct {
		name, file, source string
		want               []string
	}{
		{"fine", "internal/kit/row/row.go", "package row\nimport \"assay/internal/kit/figure\"\n", nil},
		{"both may read gguf", "internal/engine/model/a.go", "package model\nimport \"assay/internal/gguf\"\n", nil},
		{"cli joins the halves", "internal/cli/run.go", "package cli\nimport (\n\"assay/internal/kit/runner\"\n\"assay/internal/engine\"\n)\n", nil},
		{"kit -> engine", "internal/kit/row/row.go", "package row\n\nimport \"assay/internal/engine/quant\"\n", []string{"row.go:3: imports assay/internal/engine/quant"}},
		{"engine -> kit", "internal/engine/serve/a.go", "package serve\nimport \"assay/internal/kit/row\"\n", []string{"a.go:2: imports assay/internal/kit/row"}},
		{"gguf -> tokenizer", "internal/gguf/a.go", "package gguf\nimport \"assay/internal/tokenizer\"\n", []string{"lies below"}},
		{"back up", "internal/kit/row/a.go", "package row\nimport \"assay/internal/cli\"\n", []string{"never calls back up"}},
		{"long", "internal/gguf/a.go", long, []string{"601 lines"}},
		{"name", "internal/kit/util/a.go", "package util\n", []string{"package util says nothing"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := check(c.file, []byte(c.source))
			if err != nil {
				t.Fatal(err)
			}
			if len(got) != len(c.want) {
				t.Fatalf("found %q, want %d findings", got, len(c.want))
			}
			for i, w := range c.want {
				if !strings.Contains(got[i], w) {
					t.Errorf("found %q, want %q in it", got[i], w)
				}
			}
		})
	}
}
