"""What llama-cpp-python makes of a real model, with what is needed to compare it.

    real_models.py texts|chats MODEL.gguf OUT.json

For each of eight prompts: its token ids, 64 greedy tokens, and at each step the eight
best tokens and their logits. A prompt is a text; of a model that chats it is a
conversation, rendered by jinja2 through the file's own template, and OUT.json says
also which ("template" and "input", as tools/peers/templates.py has them).
"""

import json
import sys

import llama_cpp
import numpy
from llama_cpp import Llama
from llama_cpp.llama_chat_format import Jinja2ChatFormatter

TEXTS = [
    "The capital of France is",
    "Once upon a time, in a village by the sea, there lived",
    "Water boils at a temperature of",
    "def fibonacci(n):\n    ",
    "The three primary colours are",
    "Question: What is the largest planet of the solar system?\nAnswer:",
    "Die Hauptstadt von Deutschland ist",
    "The quick brown fox jumps over the lazy dog. " * 90 + "The quick brown fox",  # longer than the window of 512
]


def user(text):
    return {"role": "user", "content": text}


def assistant(text):
    return {"role": "assistant", "content": text}


CHATS = [
    [user("What is the capital of France?")],
    [user("Why is the sky blue?")],
    [{"role": "system", "content": "Answer in one short sentence."}, user("Who wrote Hamlet?")],
    [user("What is 7 + 5?"), assistant("7 + 5 is 12."), user("And if you add 100 to that?")],
    [user("Write a Python function that returns the n-th Fibonacci number.")],
    [user("Write a haiku about the sea.")],
    [user("Translate to French: \"Good morning, my 2 friends!\"")],
    [user("Summarise:\n\n" + "The quick brown fox jumps over the lazy dog, and the dog doesn't mind. " * 40)],
]
TOKENS = 64
BEST = 8


def prompts(kind, model):
    if kind == "texts":
        return [{"prompt": text} for text in TEXTS]
    template = model.metadata["tokenizer.chat_template"]
    pieces = [model.detokenize([i], special=True).decode() for i in (model.token_bos(), model.token_eos())]
    rendered = Jinja2ChatFormatter(template=template, bos_token=pieces[0], eos_token=pieces[1])
    return [
        {
            "prompt": rendered(messages=messages).prompt,
            "template": template,
            "input": {"messages": messages, "add_generation_prompt": True},
        }
        for messages in CHATS
    ]


def plain_weights():
    """Has llama.cpp keep weights as they are in the file.

    Else it packs them for AMX, where the processor has it, and with Q4_1 a decode
    often ends in a segmentation fault (0.3.36).
    """
    defaults = llama_cpp.llama_model_default_params

    def params():
        p = defaults()
        p.use_extra_bufts = False
        return p

    llama_cpp.llama_cpp.llama_model_default_params = params
    llama_cpp.llama_model_default_params = params


def main():
    kind, path, out = sys.argv[1:]
    plain_weights()
    # Keys and values in F32 and no flash attention, so that what is compared is the
    # rounding of weights and activations.
    model = Llama(
        path,
        n_ctx=2048,
        n_threads=2,
        type_k=llama_cpp.GGML_TYPE_F32,
        type_v=llama_cpp.GGML_TYPE_F32,
        flash_attn=False,
        verbose=False,
    )
    texts = prompts(kind, model)
    for t in texts:
        # A template writes the token of the beginning itself, where one is wanted.
        ids = model.tokenize(t["prompt"].encode(), add_bos=kind == "texts", special=kind == "chats")
        model.reset()
        model.eval(ids)
        steps = []
        for _ in range(TOKENS):
            logits = numpy.ctypeslib.as_array(model._ctx.get_logits(), shape=(model.n_vocab(),))
            best = numpy.argpartition(-logits, BEST)[:BEST]
            best = best[numpy.argsort(-logits[best])]
            steps.append({"ids": [int(i) for i in best], "logits": [float(logits[i]) for i in best]})
            model.eval([int(best[0])])
        t |= {"prompt_ids": ids, "steps": steps, "text": model.detokenize([s["ids"][0] for s in steps]).decode(errors="replace")}
    with open(out, "w") as f:
        json.dump(texts, f)


main()
