"""Looks at a bundle as a stranger does, with none of Assay's own code: unpacks it
with tar and zstd, searches it for what was planted, tries every port against the
published commitments, and changes bytes.

    stranger.py ROWS BUNDLE SALTS
"""
import base64, hashlib, json, os, re, subprocess, sys, tempfile, urllib.parse

rows, bundle, salts = sys.argv[1:]
port = re.search(r'"--port","(\d+)"', open(f"{rows}/rows.jsonl").read()).group(1)
planted = {
    "key in argv": "argv-correct-horse", "key in the environment": "env-7Vn2qkzL0pTw",
    "key in the log": "log-aQ9xZr41mmB7", "key in the prompt": "hf_PlantedPromptKey0123456789", "home in the prompt": "/home/alice.w/notes",
    "home of the machine": os.environ["HOME"], "host in the log": "build-7.corp.example", "mail in the prompt": "alice@corp.example",
    "address in the log": "203.0.113.77", "serial number": "GPU-5c0e2f11-1a2b-3c4d-5e6f-0123456789ab",
}


def forms(s):
    yield s
    yield s.replace("/", "\\/")
    yield urllib.parse.quote(s, safe="")
    for before in range(3):
        b = base64.b64encode(b"\0" * before + s.encode()).decode()
        yield b[(before * 8 + 5) // 6 : (before + len(s)) * 8 // 6]


def texts(top):
    """Every file below top, unpacked, and the whole text of streams."""
    for folder, _, names in os.walk(top):
        for n in names:
            path = os.path.join(folder, n)
            data = open(path, "rb").read()
            if n.endswith(".zst"):
                data = subprocess.run(["zstd", "-dcq", path], check=True, capture_output=True).stdout
            text = data.decode("utf-8", "replace")
            yield os.path.relpath(path, top), text
            said = re.findall(r'"content":"((?:[^"\\]|\\.)*)"', text)
            if said:
                yield os.path.relpath(path, top) + ", its text", "".join(json.loads(f'"{s}"') for s in said)


def places(top, s):
    return [name for name, text in texts(top) if any(f.lower() in text.lower() for f in forms(s))]


with tempfile.TemporaryDirectory() as out:
    subprocess.run(["tar", "--zstd", "-xf", bundle, "-C", out], check=True, stderr=subprocess.DEVNULL)
    raw = open(bundle, "rb").read()
    for what, s in planted.items():
        before, after = places(rows, s), places(out, s)
        print(f"{what}: in {len(before)} files of the folder, {len(after)} of the bundle")
        assert not after and s.encode() not in raw, (what, after)
        assert before, what
    assert not any(re.search(rf"(?<!\d){port}(?!\d)", text) for name, text in texts(out) if not name.startswith("evidence/") or "samples" not in name), port
    manifest = json.load(open(f"{out}/manifest.json"))

# A port has 65,536 values. Without the salt none fits, with it one.
def commitment(salt, line, path, value):
    h = hashlib.sha256()
    for part in (b"assay-commitment-1", salt, str(line).encode(), path.encode(), value.encode()):
        h.update(len(part).to_bytes(8, "big") + part)
    return h.hexdigest()

opened = [o for o in json.load(open(salts))["openings"] if o["path"].startswith("command_line[") and o["value"] == port]
published = {(r["line"], r["path"]): r["commitment"] for r in manifest["redactions"]}
assert opened, "no port was committed to"
one = opened[0]
target = published[one["line"], one["path"]]
for name, salt, want in (("no salt", b"", 0), ("a salt of zeros", bytes(16), 0), ("the salt", bytes.fromhex(one["salt"]), 1)):
    fits = [p for p in range(65536) if commitment(salt, one["line"], one["path"], f'"{p}"') == target]
    print(f"of 65,536 ports {len(fits)} fit the commitment with {name}")
    assert len(fits) == want and (not fits or str(fits[0]) == port), fits
assert len({published[o["line"], o["path"]] for o in opened}) == len(opened), "equal ports have equal commitments"

# Bytes that are changed, all over the file and each of the seal's.
at = sorted({i * len(raw) // 250 for i in range(250)} | set(range(len(raw) - 117, len(raw))))
found = 0
for i in at:
    with open("changed.tar.zst", "wb") as f:
        f.write(raw[:i] + bytes([raw[i] ^ 1]) + raw[i + 1 :])
    r = subprocess.run(["assay", "verify", "changed.tar.zst"], capture_output=True, text=True)
    assert r.returncode == 1, (i, r.returncode, r.stdout)
    found += 1
print(f"{found} of {len(at)} changed bytes of {len(raw)} were found")
