// A process that holds one model in llama.cpp and times it on command, so that
// runs of two engines can alternate without loading the model for each.
//
// It does what llama-bench's test_prompt and test_gen do, by the same calls:
// random tokens, a prompt in batches of n_batch, an answer token by token, no
// sampling. "make bench" holds it against llama-bench itself.
//
// usage: driver MODEL THREADS CONTEXT LOAD_MODE REPACK
//
// LOAD_MODE is llama.cpp's: auto, none, mmap. REPACK is 1 (default of
// llama.cpp) or 0. Commands on stdin, an answer in JSON to each on stdout:
//
//   pp N DEPTH    a prompt of N tokens after DEPTH others: {"ns": T}
//   tg N DEPTH    an answer of N tokens after DEPTH others: {"ns": T}
//
// The tokens before are computed when they are not there yet, outside the time,
// on all processors. The end of stdin ends it.

#include "llama.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

static const int n_batch = 2048; // llama-bench's defaults
static const int n_ubatch = 512;

static llama_context * ctx;
static int n_vocab;

static void fail(const char * what) {
    fprintf(stderr, "driver: %s\n", what);
    exit(1);
}

static void feed(llama_token * tokens, int n) {
    if (llama_decode(ctx, llama_batch_get_one(tokens, n)) != 0) {
        fail("llama_decode failed");
    }
    llama_synchronize(ctx);
}

static void prompt(int n) {
    std::vector<llama_token> tokens(n_batch);
    for (int done = 0; done < n; done += n_batch) {
        int k = std::min(n - done, n_batch);
        for (int i = 0; i < k; i++) {
            tokens[i] = std::rand() % n_vocab;
        }
        feed(tokens.data(), k);
    }
}

static void answer(int n) {
    for (int i = 0; i < n; i++) {
        llama_token token = std::rand() % n_vocab;
        feed(&token, 1);
    }
}

static int positions() {
    return llama_memory_seq_pos_max(llama_get_memory(ctx), 0) + 1;
}

static void log_errors(enum ggml_log_level level, const char * text, void *) {
    if (level == GGML_LOG_LEVEL_ERROR) {
        fputs(text, stderr);
    }
}

int main(int argc, char ** argv) {
    if (argc != 6) {
        fail("usage: driver MODEL THREADS CONTEXT LOAD_MODE REPACK");
    }
    const int n_threads = atoi(argv[2]);
    llama_log_set(log_errors, nullptr);
    llama_backend_init();
    llama_model_params mp = llama_model_default_params();
    mp.load_mode = llama_load_mode_from_str(argv[4]);
    mp.use_extra_bufts = atoi(argv[5]) != 0;
    llama_model * model = llama_model_load_from_file(argv[1], mp);
    if (!model) {
        fail("the model was not loaded");
    }
    llama_context_params cp = llama_context_default_params();
    cp.n_ctx = atoi(argv[3]);
    cp.n_batch = n_batch;
    cp.n_ubatch = n_ubatch;
    ctx = llama_init_from_model(model, cp);
    if (!ctx) {
        fail("no context");
    }
    n_vocab = llama_vocab_n_tokens(llama_model_get_vocab(model));
    std::string info = llama_print_system_info();
    for (char & c : info) {
        if (c == '"' || c == '\\' || c == '\n') {
            c = ' ';
        }
    }
    printf("{\"ready\": true, \"system_info\": \"%s\", \"n_batch\": %d, \"n_ubatch\": %d, \"kv_type\": \"f16\"}\n", info.c_str(), n_batch, n_ubatch);
    fflush(stdout);

    char kind[8];
    int n, depth;
    while (scanf("%7s %d %d", kind, &n, &depth) == 3) {
        llama_memory_t memory = llama_get_memory(ctx);
        if (positions() > depth) {
            llama_memory_seq_rm(memory, 0, depth, -1);
        }
        if (positions() < depth) {
            const int all = (int) std::thread::hardware_concurrency();
            llama_set_n_threads(ctx, all, all);
            prompt(depth - positions());
        }
        llama_set_n_threads(ctx, n_threads, n_threads);
        auto start = std::chrono::steady_clock::now();
        if (strcmp(kind, "pp") == 0) {
            prompt(n);
        } else if (strcmp(kind, "tg") == 0) {
            answer(n);
        } else {
            fail("unknown command");
        }
        auto end = std::chrono::steady_clock::now();
        printf("{\"ns\": %lld}\n", (long long) std::chrono::duration_cast<std::chrono::nanoseconds>(end - start).count());
        fflush(stdout);
    }
    llama_free(ctx);
    llama_model_free(model);
    return 0;
}
