// Prints as many rows as asked for, in four arms and five contexts, made of the
// rows of a real run: rows.mjs ROWS.jsonl N [TEXT]. TEXT is put in front of all that
// a row says in words, and makes some rows fail.
import fs from "node:fs";

const [, , file, count, text = ""] = process.argv;
const rows = fs.readFileSync(file, "utf8").trim().split("\n").map((l) => JSON.parse(l)).filter((r, _, all) => r.phase === "measure" && r.arm === all[0].arm);
const contexts = ["512", "2K", "8K", "32K", "128K"];
for (let i = 0; i < Number(count); i++) {
  const r = structuredClone(rows[i % rows.length]);
  const arm = text + "arm-" + "abcd"[i % 4];
  r.ctx = contexts[Math.floor(i / 4) % contexts.length];
  r.arm = arm;
  r.cell = arm + "/" + r.ctx;
  r.row_id = `${arm}/run-${i}`;
  r.repeat = Math.floor(i / 20);
  r.run = i + 1;
  r.start_id = `${arm}-${r.repeat % 5}`;
  r.slice_sha256 = String(contexts.indexOf(r.ctx)).repeat(64);
  r.prompt_tokens = 500 * 4 ** contexts.indexOf(r.ctx);
  r.withheld = []; // what a busy machine made of the run is of no interest here
  Object.assign(r, { decode_tok_s: 100, ttft_ms: r.prompt_tokens / 5, prompt_tok_s_client: 5000 });
  // A spread that repeats exactly: no chance is needed here.
  const factor = (1 + 0.1 * (i % 4)) * (1 + 0.05 * Math.sin(i * 12.9898 + Math.floor(i / 20)));
  for (const name of ["decode_tok_s", "ttft_ms", "prompt_tok_s_client"]) r[name] *= factor;
  if (text) {
    r.engine = r.host.cpu_model = r.quant = r.decode_rule = r.count_check.verdict = text + (i % 2);
    r.engine_env = { [text]: text };
    r.command_line = [text, text + (i % 4)];
    if (i % 7 === 0) Object.assign(r, { status: "failed", fail_kind: text, error: text.repeat(5) });
    else r.withheld = [{ figure: "ttft_ms", value: 1, unit: "ms", codes: [text], why: text.repeat(3) }];
  }
  console.log(JSON.stringify(r));
}
