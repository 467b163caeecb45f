"""Runs guidellm against the server of `assay selftest` and holds what it says
against what the server did. Prints a Markdown table in the terms of the
self-test; its wording is explained by `assay selftest --help`."""

import argparse
import json
import math
import os
import statistics
import subprocess
import sys
import time
import urllib.request
from importlib import metadata

# The smallest sample that carries a p99 with 99 % confidence, as in the self-test.
SAMPLES_P99 = 662


def main():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--url", required=True, help="of the server")
    p.add_argument("--work", required=True, help="folder for its files")
    p.add_argument("--levels", default="1@50,1@2000,10@2000,100@100,1000@20")
    p.add_argument("--window", type=float, default=4.0, help="seconds")
    p.add_argument("--ttft", type=float, default=0.5, help="seconds")
    p.add_argument("--runs", type=int, default=5)
    o = p.parse_args()
    load = os.getloadavg()[0]
    print(f"guidellm {metadata.version('guidellm')}, load average before: {load:.2f}\n", flush=True)
    print("| streams | tok/s | runs | reported % | TTFT error ms p50 | p99 | worst | decode error % p50 | worst | server late ms, mean |")
    print("| --: | --: | --: | --: | --: | --: | --: | --: | --: | --: |", flush=True)
    failed = False
    for level in o.levels.split(","):
        streams, rate = level.split("@")
        line = measure(o, int(streams), float(rate))
        failed = failed or line is None
        print(line or f"| {streams} | {rate} | failed | | | | | | | |", flush=True)
    return 1 if failed else 0


def measure(o, streams, rate):
    runs = max(streams, math.ceil(o.runs / streams) * streams)
    tokens = round(rate * o.window) + 1
    before = len(truths(o.url))
    out = os.path.join(o.work, "out.json")
    prompts = os.path.join(o.work, "prompts.jsonl")
    with open(prompts, "w") as f:
        for _ in range(max(runs, 16)):
            f.write(json.dumps({"prompt": "Play.", "output_tokens_count": tokens}) + "\n")
    scenario = os.path.join(o.work, "scenario.json")
    with open(scenario, "w") as f:
        json.dump({"metadata": {"name": "selftest"}, "spec": {
            "backend": {
                "kind": "openai_http", "target": o.url, "max_tokens": tokens, "http2": False,
                "model": f"selftest?ttft={o.ttft}s&gap={1e9 / rate:.0f}ns",
            },
            "profile": {"kind": "concurrent", "streams": [streams]},
            "constraints": [{"kind": "max_requests", "count": runs}],
            "data": [{"kind": "json_file", "path": prompts}],
            "outputs": [{"kind": "json", "path": out}],
        }}, f)
    limit = 120 + 4 * (o.ttft + o.window) * math.ceil(runs / streams)
    with open(os.path.join(o.work, "peer.log"), "w") as log:
        try:
            subprocess.run([sys.executable, "-m", "guidellm", "run", "-c", scenario, "--disable-console"], stdout=log, stderr=log, check=True, timeout=limit)
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as e:
            print(f"selftest_peer: {streams}@{rate:g}: {e}", file=sys.stderr)
            print(open(log.name).read()[-2000:], file=sys.stderr)
            return None
    with open(out) as f:
        requests = json.load(f)["benchmarks"][0]["requests"]
    true = {t["id"]: t for t in truths(o.url, before, len(requests["successful"]))}
    ttft, decode, late = [], [], []
    for r in requests["successful"]:
        t = true.get(r["response_id"])
        if t is None or r["time_to_first_token_ms"] is None or not r["inter_token_latency_ms"]:
            continue
        ttft.append(r["time_to_first_token_ms"] - (t["first_ns"] - t["arrived_ns"]) / 1e6)
        want = (t["tokens"] - t["first_tokens"]) / ((t["last_ns"] - t["first_ns"]) / 1e9)
        decode.append(100 * abs(1000 / r["inter_token_latency_ms"] / want - 1))
        late.append(t["late_mean_ms"])
    if not ttft:
        print(f"selftest_peer: {streams}@{rate:g}: no request with both figures", file=sys.stderr)
        return None
    p99 = f"{rank(ttft, 0.99):.3f}" if len(ttft) >= SAMPLES_P99 else "-"
    return (
        f"| {streams} | {rate:g} | {runs} | {100 * len(ttft) / runs:.4g} | {statistics.median(ttft):.3f} | {p99} | {max(ttft):.3f} "
        f"| {statistics.median(decode):.3f} | {max(decode):.3f} | {statistics.mean(late):.3f} |"
    )


def truths(url, after=0, least=0):
    """What the server did; a stream's account may come a moment after its end."""
    for _ in range(100):
        with urllib.request.urlopen(f"{url}/streams?after={after}") as r:
            got = json.load(r)["streams"]
        if len(got) >= least:
            break
        time.sleep(0.02)
    return got


def rank(values, p):
    """Nearest rank."""
    v = sorted(values)
    return v[max(math.ceil(p * len(v)), 1) - 1]


if __name__ == "__main__":
    sys.exit(main())
