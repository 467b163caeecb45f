#!/usr/bin/env python3
"""A model that is larger than memory, at every limit of memory.

The server is started in control groups of more and more memory, with
--expert-ram auto. In each it must either say what it needs and end, or start, live,
and answer prompts of all lengths, two at a time: with text, or with an error that says
what is missing. The kernel must end nothing. Needs root and control groups of version 1.

    tools/limits/limits.py [STEP_MIB [CONTEXT...]]
"""

import concurrent.futures
import json
import os
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

MIB = 1 << 20
MODEL = "/var/tmp/assay-synth/synth-2.5b-Q4_K.gguf"
GROUP = f"/sys/fs/cgroup/memory/assay-limits-{os.getpid()}"


def write(name, value):
    with open(f"{GROUP}/{name}", "w") as f:
        f.write(str(value))


def killed():
    with open(f"{GROUP}/memory.oom_control") as f:
        text = f.read()
    return int(re.search(r"^oom_kill (\d+)", text, re.M)[1])


def ask(port, ids, tokens):
    body = json.dumps({"prompt": ids, "n_predict": tokens, "ignore_eos": True, "temperature": 0}).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{port}/completion", body, {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=300) as answer:
            reply = json.load(answer)
            assert reply["timings"]["predicted_n"] == tokens, reply["timings"]
            return "answered"
    except urllib.error.HTTPError as e:
        text = json.load(e)["error"]["message"]
        assert e.code in (400, 503) and "keys and values of this request need" in text, (e.code, text)
        return "refused"


def listens(server, log):
    """The port, once the model is loaded; None, when the server ended before that."""
    while server.poll() is None:
        time.sleep(0.05)
        log.seek(0)
        if m := re.search(r"http://127\.0\.0\.1:(\d+)", log.read()):
            try:
                urllib.request.urlopen(f"http://127.0.0.1:{m[1]}/health", timeout=5).close()
                return int(m[1])
            except (urllib.error.URLError, ConnectionError):
                pass  # it loads, or has ended
    return None


def serve(assay, limit, context):
    """What became of a server under limit: how many requests were answered and refused, or
    None, when it said that it can't start."""
    write("memory.limit_in_bytes", limit)
    before = killed()
    log = tempfile.TemporaryFile("w+")
    server = subprocess.Popen(
        [assay, "serve", "-m", MODEL, "--port", "0", "-c", str(context), "-np", "2", "--expert-ram", "auto"],
        stdout=log, stderr=log, preexec_fn=lambda: write("cgroup.procs", os.getpid()))
    try:
        if (port := listens(server, log)) is None:
            log.seek(0)
            text = log.read()
            assert server.returncode == 1 and re.search(r"MiB of memory are free, but at least \d+ MiB are needed", text), \
                (limit, server.returncode, killed() - before, text)
            return None
        dice = random.Random(limit)
        prompts = [[dice.randrange(300, 4000) for _ in range(n)]
                   for n in (8, context - 40, 200, context - 40, context // 2, context // 2, 16, context - 300)]
        with concurrent.futures.ThreadPoolExecutor(2) as two:
            done = list(two.map(lambda p: ask(port, p, 24), prompts))
        assert server.poll() is None and killed() == before, (limit, server.returncode, killed() - before, done)
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) == 0, (limit, server.returncode)
        return {how: done.count(how) for how in ("answered", "refused")}
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def main():
    os.chdir(os.path.dirname(os.path.abspath(__file__)) + "/../..")
    step = int(sys.argv[1]) if len(sys.argv) > 1 else 24
    contexts = [int(c) for c in sys.argv[2:]] or [2048]
    if not os.path.exists(MODEL):
        os.makedirs(os.path.dirname(MODEL), exist_ok=True)
        subprocess.run(["go", "-C", "tools", "run", "./synth", "-preset", "2.5b", "-quant", "Q4_K", "-o", MODEL], check=True)
    with tempfile.TemporaryDirectory() as folder:
        assay = f"{folder}/assay"
        subprocess.run(["go", "build", "-o", assay, "./cmd/assay"], check=True)
        os.mkdir(GROUP)
        try:
            for context in contexts:
                limit, started = 120 * MIB, 0
                while started < 6:
                    done = serve(assay, limit, context)
                    started += done is not None
                    print(f"-c {context}, {limit // MIB} MiB:", "says what it needs" if done is None else
                          f"{done['answered']} answered, {done['refused']} refused", flush=True)
                    limit += step * MIB
        finally:
            for _ in range(100):
                try:
                    os.rmdir(GROUP)
                    break
                except OSError:  # the last server is not gone entirely
                    time.sleep(0.05)


if __name__ == "__main__":
    main()
