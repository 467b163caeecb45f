// Package adapters lists the engines that are known, each in a package of its
// own.
package adapters

import (
	"assay/internal/kit/target"
	"assay/internal/kit/target/assay"
	"assay/internal/kit/target/llamacpppython"
	"assay/internal/kit/target/llamaserver"
	"assay/internal/kit/target/openai"
)

// All are the adapters in the order in which a server is compared with them: the
// closest first, the one that takes anything last.
var All = []target.Adapter{
	assay.Adapter{},
	llamaserver.Adapter{},
	llamacpppython.Adapter{},
	openai.Adapter{},
}

// Names lists them for help texts and errors.
func Names() []string { return target.Names(All) }

// ByName finds one.
func ByName(name string) (target.Adapter, error) { return target.ByName(All, name) }
