# The commands of this repository. `make help` lists them.

GO     ?= go
BIN    := .bin
COMMIT := $(shell git rev-parse HEAD 2>/dev/null)
DATE   := $(shell git log -1 --format=%cI 2>/dev/null)
DIRTY  := $(shell git diff --quiet HEAD 2>/dev/null || echo -dirty)
export CGO_ENABLED = 0

.PHONY: help build test race lint fuzz check-wide bench bench-larger microbench fmt clean

help: ## list the commands
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 14

build: ## build the static binary ./assay, and ./assay-nvml beside it, which reads NVIDIA's library
	$(GO) build -trimpath -ldflags "-s -w -X assay/internal/cli.commit=$(COMMIT)$(DIRTY) -X assay/internal/cli.date=$(DATE)" -o assay ./cmd/assay
	$(GO) build -trimpath -ldflags "-s -w" -o assay-nvml ./cmd/assay-nvml

test: lint ## all checks of a change: lint, tests, race detector (what .ci/run calls)
	$(GO) test ./...
	$(GO) -C tools test ./...
	$(MAKE) race

# The race detector needs cgo; the assembly it can't see is switched off. Under
# -short, tests that share nothing between goroutines but compute a lot are left
# out: they would take an hour.
race: ## the race detector over everything that shares memory
	ASSAY_SIMD=none CGO_ENABLED=1 $(GO) test -race -short ./...

lint: $(BIN)/staticcheck $(BIN)/gofumpt ## gofumpt, vet, staticcheck and our own rules
	@unformatted=$$($(BIN)/gofumpt -l .); if [ -n "$$unformatted" ]; then echo "not gofumpt-clean (make fmt):"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) -C tools vet ./...
	$(BIN)/staticcheck ./...
	$(GO) -C tools run ./lint ..

fmt: $(BIN)/gofumpt ## format the Go source
	$(BIN)/gofumpt -w .

$(BIN)/staticcheck: tools/go.mod
	$(GO) -C tools build -o ../$@ honnef.co/go/tools/cmd/staticcheck

$(BIN)/gofumpt: tools/go.mod
	$(GO) -C tools build -o ../$@ mvdan.cc/gofumpt

FUZZTIME ?= 60s
fuzz: ## every fuzz target for FUZZTIME each
	@tools/fuzz.sh $(FUZZTIME)

check-wide: fuzz ## slow checks: fuzzing, wide random tests, official clients and servers of others
	ASSAY_WIDE=1 $(GO) test -count=1 ./internal/kit/stream ./internal/kit/report
	ASSAY_WIDE=1 $(GO) test -count=1 -run TestNothingOutlivesAKill -v ./internal/cli
	ASSAY_WIDE=1 $(GO) test -count=1 ./internal/engine/model ./internal/engine/kernel
	ASSAY_WIDE=1 $(GO) test -count=1 -run TestExpertRAMChangesNoBit ./internal/engine
	ASSAY_WIDE=1 $(GO) test -count=1 -run TestEveryReplySatisfiesItsSchema ./internal/engine/grammar
	tools/progress/tmux.sh
	tools/newcomer/newcomer.sh
	tools/peers/openai_client.sh
	tools/peers/templates.sh
	tools/peers/llama_cpp_python.sh
	tools/peers/real_models.sh
	tools/peers/llama_server.sh
	tools/peers/three_arms.sh
	tools/peers/ollama.sh
	tools/peers/import.sh
	tools/limits/limits.py
	tools/page/page.sh
	tools/packaging/lint.sh
	tools/packaging/chroot.sh
	tools/packaging/release.sh
	tools/packaging/platforms.sh
	tools/publish/publish.sh

bench: ## ours against llama.cpp, 20 minutes on an idle machine; writes docs/Performance.md (ARGS= chooses a part)
	$(GO) run ./benchmarks $(ARGS)

bench-larger: ## models larger than memory against mmap and llama.cpp, 11 minutes on an idle machine; needs root (ARGS= chooses a part)
	$(GO) run ./benchmarks larger $(ARGS)

microbench: ## Go benchmarks of the engine's parts
	$(GO) test -run '^$$' -bench . ./internal/engine/kernel ./internal/engine/model ./internal/engine/pool ./internal/tokenizer

clean: ## remove what was built
	rm -rf $(BIN) assay assay-nvml
