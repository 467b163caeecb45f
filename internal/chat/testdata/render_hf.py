"""Writes the golden files of internal/chat with Jinja2, set up as in
transformers (chat_template_utils.py, 5.24). To write them again:

    python3 -m venv /tmp/venv && /tmp/venv/bin/pip install jinja2==3.1.6
    /tmp/venv/bin/python internal/chat/testdata/render_hf.py
"""

import json
import pathlib
from datetime import datetime

import jinja2
import jinja2.ext
from jinja2.sandbox import ImmutableSandboxedEnvironment

HERE = pathlib.Path(__file__).parent
NOW = datetime(2026, 9, 5, 14, 7, 9)  # the tests' clock
REASONING = ("reasoning_content", "thinking", "reasoning")


class Generation(jinja2.ext.Extension):
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_body"), [], [], body).set_lineno(line)

    def _body(self, caller):
        return caller()


class Raised(jinja2.exceptions.TemplateError):
    pass


def raise_exception(message):
    raise Raised(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols]
    )
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = lambda fmt: NOW.strftime(fmt)
    return env


def messages_for_hf(messages):
    """What apply_chat_template does to messages before rendering."""
    out = []
    for m in messages:
        m = {k: v for k, v in m.items() if v is not None}
        reasoning = next((m[k] for k in REASONING if m.get(k) is not None), None)
        if reasoning is not None:
            m = {"thinking": reasoning, **m, "reasoning_content": reasoning}
        out.append(m)
    return out


def write(path, value):
    path.write_text(json.dumps(value, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")


def snippets(folder):
    variables = json.loads((folder / "snippets.vars.json").read_text(encoding="utf-8"))
    blocks, block = [], []
    for line in (folder / "snippets.txt").read_text(encoding="utf-8").split("\n"):
        if line == "====" or line.startswith("# "):
            if block:
                blocks.append("\n".join(block))
            block = []
        else:
            block.append(line)
    if any(block):
        blocks.append("\n".join(block))
    out = []
    for source in blocks:
        try:
            out.append({"template": source, "text": environment().from_string(source).render(**variables)})
        except Exception as e:
            out.append({"template": source, "error": f"{type(e).__name__}: {e}"})
    write(folder / "snippets.golden.json", out)


def cases(folder):
    for path in sorted((folder / "cases").glob("*.json")):
        case = json.loads(path.read_text(encoding="utf-8"))
        source = (folder / "templates" / case["template"]).read_text(encoding="utf-8")
        try:
            text = environment().from_string(source).render(
                messages=messages_for_hf(case["messages"]),
                tools=case.get("tools"),
                documents=None,
                add_generation_prompt=case.get("add_generation_prompt", False),
                bos_token=case.get("bos", ""),
                eos_token=case.get("eos", ""),
                **case.get("kwargs", {}),
            )
        except Raised as e:
            text = f"raised: {e}"
        (folder / "golden" / (path.stem + ".txt")).write_text(text, encoding="utf-8")


if __name__ == "__main__":
    snippets(HERE.parent / "hfjinja" / "testdata")
    cases(HERE)
