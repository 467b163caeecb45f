// Package adapters lists the engines that are known, each in a package of its
// own.
package adapters

import (
	"assay/internal/kit/target"
	"assay/internal/kit/target/assay"
	"assay/internal/kit/target/ik"
	"assay/internal/kit/target/koboldcpp"
	"assay/internal/kit/target/llamacpppython"
	"assay/internal/kit/target/llamaserver"
	"assay/internal/kit/target/lmstudio"
	"assay/internal/kit/target/mlxlm"
	"assay/internal/kit/target/ollama"
	"assay/internal/kit/target/openai"
	"assay/internal/kit/target/sglang"
	"assay/internal/kit/target/strata"
	"assay/internal/kit/target/tabbyapi"
	"assay/internal/kit/target/vllm"
)

// All are the adapters in the order in which a server is compared with them: the
// closest first, the one that takes anything last.
var All = []target.Adapter{
	assay.Adapter{},
	ik.Adapter{},
	llamaserver.Adapter{},
	llamacpppython.Adapter{},
	strata.Adapter{},
	vllm.Adapter{},
	sglang.Adapter{},
	koboldcpp.Adapter{},
	tabbyapi.Adapter{},
	lmstudio.Adapter{},
	ollama.Adapter{},
	mlxlm.Adapter{},
	openai.Adapter{},
}

// Names lists them for help texts and errors.
func Names() []string { return target.Names(All) }

// ByName finds one.
func ByName(name string) (target.Adapter, error) { return target.ByName(All, name) }
