// Command assay measures LLM inference engines, and is one.
package main

import (
	"os"

	"assay/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.System()))
}
