"""What the official openai client must find at `assay serve`.

    openai_client.py URL GUARDED_URL KEY

URL is a server with two slots that takes everyone, GUARDED_URL one that wants
KEY and calls its model guarded-model. Each check is a function; all of them
run, and the exit status is 1 when one failed.
"""

import concurrent.futures
import json
import math
import sys
import traceback
import typing

import openai
import pydantic

url, guarded_url, key = sys.argv[1:]
client = openai.OpenAI(base_url=url + "/v1", api_key="any", max_retries=0)
HELLO = [
    {"role": "system", "content": "Answer in one sentence."},
    {"role": "user", "content": "Alice was beginning to get very tired of"},
]
MODEL = "builtin:seedling"
checks = []


def check(f):
    checks.append(f)
    return f


def chat(c=client, **more):
    settings = {"model": MODEL, "messages": HELLO, "temperature": 0, "max_tokens": 24} | more
    return c.chat.completions.create(**settings)


def complete(**more):
    settings = {"model": MODEL, "prompt": "Once upon a time", "temperature": 0, "max_tokens": 24} | more
    return client.completions.create(**settings)


def expect(error, message, call):
    """call must raise error, with message in it, and status and body set."""
    try:
        call()
    except error as e:
        assert message in str(e), f"{message!r} is not in {e}"
        assert isinstance(e.body, dict) and message in e.body["message"], e.body
        return e
    raise AssertionError(f"no {error.__name__} was raised")


@check
def models():
    data = client.models.list().data
    assert [m.id for m in data] == [MODEL], data
    assert client.models.retrieve(MODEL).id == MODEL


@check
def chat_whole():
    r = chat()
    assert r.object == "chat.completion" and r.model == MODEL, r
    assert r.choices[0].message.role == "assistant" and r.choices[0].message.content, r
    assert r.choices[0].finish_reason in ("length", "stop"), r
    assert r.usage.completion_tokens <= 24, r.usage
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens, r.usage
    assert r.usage.prompt_tokens_details.cached_tokens == 0, r.usage


@check
def chat_stream_is_the_same_text():
    whole = chat(extra_body={"ignore_eos": True})
    frames = list(chat(stream=True, stream_options={"include_usage": True}, extra_body={"ignore_eos": True, "return_token_ids": True}))
    assert frames[0].choices[0].delta.role == "assistant", frames[0]
    text = "".join(f.choices[0].delta.content or "" for f in frames if f.choices)
    assert text == whole.choices[0].message.content, (text, whole)
    assert frames[-2].choices[0].finish_reason == "length", frames[-2]
    assert frames[-1].choices == [] and frames[-1].usage.completion_tokens == 24, frames[-1]
    assert [f.usage for f in frames[:-1]] == [None] * (len(frames) - 1)
    assert frames[-1].timings["predicted_n"] == 24, frames[-1]
    ids = [i for f in frames if f.choices for i in getattr(f.choices[0], "token_ids", None) or []]
    assert len(ids) == 24, ids


@check
def a_stream_without_usage_has_none():
    frames = list(chat(stream=True, max_tokens=4, extra_body={"ignore_eos": True}))
    assert all(f.usage is None and len(f.choices) == 1 for f in frames), frames
    assert frames[-1].choices[0].finish_reason == "length", frames[-1]


@check
def the_streaming_helper_gathers_a_whole_answer():
    text = chat().choices[0].message.content
    # It raises an error for an answer that was cut off, so this one stops.
    with client.chat.completions.stream(model=MODEL, messages=HELLO, temperature=0, max_tokens=24, stop=text[20:25]) as s:
        for _ in s:
            pass
        got = s.get_final_completion()
    assert got.choices[0].message.content == text[: text.index(text[20:25])], got


@check
def chat_logprobs():
    r = chat(logprobs=True, top_logprobs=3, extra_body={"ignore_eos": True})
    content = r.choices[0].logprobs.content
    assert len(content) == 24, content
    assert "".join(t.token for t in content) == r.choices[0].message.content
    for t in content:
        assert t.logprob <= 0 and len(t.top_logprobs) == 3, t
        assert t.top_logprobs[0].token == t.token and bytes(t.bytes).decode() == t.token, t
        assert sum(math.exp(x.logprob) for x in t.top_logprobs) <= 1.0001, t


@check
def text_whole_and_streamed():
    whole = complete()
    assert whole.object == "text_completion" and whole.choices[0].text, whole
    frames = list(complete(stream=True))
    assert "".join(f.choices[0].text for f in frames) == whole.choices[0].text, (frames, whole)
    assert frames[-1].choices[0].finish_reason == whole.choices[0].finish_reason, frames[-1]
    # The second of two equal requests reads its prompt from what the first left.
    counted = lambda u: (u.prompt_tokens, u.completion_tokens, u.total_tokens)
    assert counted(frames[-1].usage) == counted(whole.usage), frames[-1]
    assert frames[-1].usage.prompt_tokens_details.cached_tokens == whole.usage.prompt_tokens - 1, frames[-1]


@check
def text_logprobs():
    r = complete(logprobs=2, extra_body={"ignore_eos": True}).choices[0]
    l = r.logprobs
    assert len(l.tokens) == len(l.token_logprobs) == len(l.top_logprobs) == len(l.text_offset) == 24, l
    for token, at, top in zip(l.tokens, l.text_offset, l.top_logprobs):
        assert r.text[at:].startswith(token) and token in top and len(top) == 2, (token, at, top)


@check
def prompts_of_tokens():
    assert complete(prompt=[2996, 331, 548, 258, 575]).choices[0].text == complete().choices[0].text


@check
def stop_strings():
    text = complete().choices[0].text
    stop = text[9:15]
    for stream in (False, True):
        r = complete(stop=["not in it", stop], stream=stream)
        frames = list(r) if stream else [r]
        assert "".join(f.choices[0].text for f in frames) == text[: text.index(stop)], frames
        assert frames[-1].choices[0].finish_reason == "stop", frames[-1]


@check
def seeds():
    a, b, c = (chat(temperature=1.0, seed=s).choices[0].message.content for s in (7, 7, 8))
    assert a == b and a != c, (a, b, c)


@check
def content_in_parts():
    parts = [{"role": "user", "content": [{"type": "text", "text": "Alice"}, {"type": "text", "text": "was"}]}]
    joined = [{"role": "user", "content": "Alice\nwas"}]
    assert chat(messages=parts).choices[0].message.content == chat(messages=joined).choices[0].message.content


class Step(pydantic.BaseModel):
    explanation: str
    output: str


class MathReasoning(pydantic.BaseModel):
    steps: list[Step]
    final_answer: str


@check
def json_objects():
    for seed in range(3):
        text = chat(response_format={"type": "json_object"}, temperature=1, seed=seed).choices[0].message.content
        assert isinstance(json.loads(text), dict), text


@check
def structured_outputs_by_pydantic():
    # The example of OpenAI's guide to structured outputs, by the client's helper.
    for seed in range(3):
        r = client.chat.completions.parse(
            model=MODEL, messages=HELLO, response_format=MathReasoning, temperature=1, seed=seed, max_tokens=150
        )
        assert r.choices[0].finish_reason == "stop", r
        parsed = r.choices[0].message.parsed
        assert isinstance(parsed, MathReasoning) and isinstance(parsed.final_answer, str), r


@check
def structured_outputs_streamed():
    with client.chat.completions.stream(
        model=MODEL, messages=HELLO, response_format=MathReasoning, temperature=1, seed=2, max_tokens=150
    ) as s:
        kinds = {event.type for event in s}
        parsed = s.get_final_completion().choices[0].message.parsed
    assert "content.delta" in kinds and "content.done" in kinds, kinds
    assert isinstance(parsed, MathReasoning), parsed


class GetWeather(pydantic.BaseModel):
    """Current temperature of a place."""

    location: str
    units: typing.Literal["celsius", "fahrenheit"]


TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "description": "Current temperature of a place.",
            "parameters": {
                "type": "object",
                "properties": {"location": {"type": "string"}, "units": {"type": "string", "enum": ["celsius", "fahrenheit"]}},
                "required": ["location", "units"],
                "additionalProperties": False,
            },
            "strict": True,
        },
    },
    {"type": "function", "function": {"name": "now", "parameters": {"type": "object", "properties": {}}}},
]


@check
def function_calling():
    # The round of OpenAI's guide: a call, its result, an answer.
    named = {"type": "function", "function": {"name": "get_weather"}}
    r = chat(tools=TOOLS, tool_choice=named, max_tokens=80).choices[0]
    assert r.finish_reason == "tool_calls" and r.message.content is None, r
    (call,) = r.message.tool_calls
    arguments = json.loads(call.function.arguments)
    assert call.function.name == "get_weather" and sorted(arguments) == ["location", "units"], call
    assert arguments["units"] in ("celsius", "fahrenheit"), call
    result = {"role": "tool", "tool_call_id": call.id, "content": "21"}
    answer = chat(tools=TOOLS, messages=[*HELLO, r.message, result]).choices[0]
    assert answer.message.content and answer.finish_reason in ("stop", "length"), answer


@check
def function_calling_required():
    for seed in range(4):
        r = chat(tools=TOOLS, tool_choice="required", temperature=1, seed=seed, max_tokens=80).choices[0]
        assert r.message.tool_calls[0].function.name in ("get_weather", "now"), r
        json.loads(r.message.tool_calls[0].function.arguments)


@check
def function_calling_none_and_auto():
    for choice in ("none", "auto"):
        r = chat(tools=TOOLS, tool_choice=choice).choices[0]
        assert r.message.content and not r.message.tool_calls, r


@check
def function_calling_streamed():
    # As the guide gathers a call's pieces by their index.
    settings = dict(tools=TOOLS, tool_choice="required", temperature=1, seed=3, max_tokens=80)
    calls = {}
    for chunk in chat(stream=True, **settings):
        for piece in chunk.choices[0].delta.tool_calls or []:
            if piece.index in calls:
                calls[piece.index].function.arguments += piece.function.arguments
            else:
                assert piece.id and piece.type == "function", piece
                calls[piece.index] = piece
    (whole,) = chat(**settings).choices[0].message.tool_calls
    assert [(c.function.name, c.function.arguments) for c in calls.values()] == [(whole.function.name, whole.function.arguments)], (calls, whole)


@check
def function_calling_by_pydantic():
    tool = openai.pydantic_function_tool(GetWeather)
    r = client.chat.completions.parse(
        model=MODEL, messages=HELLO, tools=[tool], tool_choice="required", temperature=1, seed=1, max_tokens=80
    )
    parsed = r.choices[0].message.tool_calls[0].function.parsed_arguments
    assert isinstance(parsed, GetWeather), r


@check
def many_at_once():
    want = chat().choices[0].message.content
    with concurrent.futures.ThreadPoolExecutor(6) as pool:
        got = list(pool.map(lambda _: chat().choices[0].message.content, range(6)))
    assert got == [want] * 6, got


@check
def a_stream_that_is_closed_frees_its_slot():
    for _ in range(4):  # there are two
        s = chat(stream=True, max_tokens=None, extra_body={"ignore_eos": True})
        next(iter(s))
        s.close()
    assert chat(max_tokens=1).usage.completion_tokens == 1


@check
def bad_requests():
    bad = openai.BadRequestError
    e = expect(bad, "temperature: -1 is not a number of at least 0", lambda: chat(temperature=-1))
    assert e.status_code == 400 and e.param == "temperature" and e.type == "invalid_request_error", e.body
    expect(bad, "max_tokens: 0 is not", lambda: chat(max_tokens=0))
    expect(bad, "messages: empty", lambda: chat(messages=[]))
    expect(bad, "messages: a string is not an array", lambda: chat(messages="oops"))
    expect(bad, "n: 2 is not supported", lambda: chat(n=2))
    expect(bad, "response_format: ", lambda: chat(response_format={"type": "xml"}))
    unknown = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"type": "object", "not": {}}}}
    expect(bad, 'the keyword "not" is not supported', lambda: chat(response_format=unknown))
    expect(bad, "tool_choice: asks for a call", lambda: chat(tool_choice="required"))
    expect(bad, "top_logprobs: needs logprobs", lambda: chat(top_logprobs=2))
    expect(bad, "prompt: element 0, 99999, is not a token id", lambda: complete(prompt=[99999]))
    e = expect(bad, "the context holds 1024", lambda: chat(messages=[{"role": "user", "content": "word " * 3000}], stream=True))
    assert e.type == "exceed_context_size_error" and e.body["n_ctx"] == 1024 and e.body["n_prompt_tokens"] > 3000, e.body


@check
def keys():
    wrong = openai.OpenAI(base_url=guarded_url + "/v1", api_key="wrong-key", max_retries=0)
    e = expect(openai.AuthenticationError, "the API key is missing or wrong", lambda: chat(wrong))
    assert e.status_code == 401, e
    right = openai.OpenAI(base_url=guarded_url + "/v1", api_key=key, max_retries=0)
    assert chat(right).model == "guarded-model"
    assert [m.id for m in right.models.list().data] == ["guarded-model"]


@check
def what_is_not_there():
    e = expect(openai.NotFoundError, "nobody", lambda: client.models.retrieve("nobody"))
    assert e.status_code == 404, e
    expect(openai.NotFoundError, "/v1/embeddings", lambda: client.embeddings.create(model=MODEL, input="x"))


failed = 0
for f in checks:
    try:
        f()
        print(f"ok    {f.__name__}")
    except Exception:
        failed += 1
        print(f"FAIL  {f.__name__}")
        traceback.print_exc(file=sys.stdout)
print(f"{len(checks) - failed} passed, {failed} failed (openai {openai.__version__}, Python {sys.version.split()[0]})")
sys.exit(1 if failed else 0)
