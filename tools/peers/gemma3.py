"""Greedy continuations of llama-cpp-python, with what is needed to compare them.

    gemma3.py MODEL.gguf OUT.json

For each prompt: its token ids, 64 greedy tokens, and at each step the two best
tokens and their logits.
"""

import json
import sys

import llama_cpp
import numpy
from llama_cpp import Llama

PROMPTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea, there lived",
    "Water boils at a temperature of",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
    "Question: What is the largest planet of the solar system?\nAnswer:",
    "Die Hauptstadt von Deutschland ist",
    "The quick brown fox jumps over the lazy dog. " * 90 + "The quick brown fox",  # longer than the window of 512
]
TOKENS = 64


def main():
    # Keys and values in F32 and no flash attention, so that what is compared is the
    # rounding of weights and activations.
    model = Llama(
        sys.argv[1],
        n_ctx=2048,
        n_threads=2,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        flash_attn=False,
        verbose=False,
    )
    out = []
    for prompt in PROMPTS:
        ids = model.tokenize(prompt.encode(), add_bos=True, special=False)
        model.reset()
        model.eval(ids)
        steps = []
        for _ in range(TOKENS):
            logits = numpy.ctypeslib.as_array(model._ctx.get_logits(), shape=(model.n_vocab(),))
            best = numpy.argsort(-logits)[:2]
            steps.append({"ids": [int(i) for i in best], "logits": [float(logits[i]) for i in best]})
            model.eval([int(best[0])])
        text = model.detokenize([s["ids"][0] for s in steps]).decode(errors="replace")
        out.append({"prompt": prompt, "prompt_ids": ids, "steps": steps, "text": text})
    with open(sys.argv[2], "w") as f:
        json.dump(out, f)


main()
