// Opens reports in headless Chromium; see page.sh, which calls it:
//   check.mjs OUT TWO-ARMS.html SEED.html 1000.html HOSTILE.html URL LIVE-ROWS REAL-ROWS
import fs from "node:fs";
import path from "node:path";
import { pathToFileURL } from "node:url";

const tools = process.env.TOOLS;
const { chromium } = await import(pathToFileURL(path.join(tools, "node_modules/playwright-core/index.mjs")));
const axe = fs.readFileSync(path.join(tools, "node_modules/axe-core/axe.min.js"), "utf8");
const [, , out, twoArms, seed, thousand, hostile, url, liveRows, realRows] = process.argv;

const limitMS = 1000; // for 1,000 rows, loaded and drawn
let wrong = 0;
const fail = (...what) => {
  wrong++;
  console.error("page: WRONG:", ...what);
};

const browser = await chromium.launch({ executablePath: process.env.CHROMIUM, args: ["--no-sandbox"] });

// A window in which whatever is said on the console or asked of another place
// than home is wrong. bypassCSP lets axe in; everything else keeps the page's own
// policy.
async function open(home, options) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.on("console", (m) => fail(home, "console:", m.type(), m.text()));
  page.on("pageerror", (e) => fail(home, "error:", e));
  page.on("request", (r) => {
    if (r.url() !== home && !(home.startsWith("http:") && r.url().startsWith(home))) fail(home, "asks for", r.url());
  });
  await page.goto(home);
  return page;
}

for (const file of [twoArms, seed, thousand, hostile]) {
  const home = pathToFileURL(file).href;
  const name = path.basename(file, ".html");
  for (const colorScheme of ["light", "dark"]) {
    for (const width of [390, 1280]) {
      const viewport = { width, height: 900 };
      const page = await open(home, { viewport, colorScheme });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth);
      if (wide > width) fail(name, colorScheme, width, "is", wide, "px wide");
      const clipped = await page.evaluate(() =>
        [...document.querySelectorAll(".chart text")].filter((t) => {
          const r = t.getBoundingClientRect();
          return r.width > 0 && (r.left < -1 || r.right > innerWidth + 1);
        }).length,
      );
      if (clipped) fail(name, colorScheme, width, clipped, "texts of charts reach out of the window");
      await page.screenshot({ path: path.join(out, `${name}-${colorScheme}-${width}.png`), fullPage: true });
      await page.keyboard.press("Tab");
      const first = await page.evaluate(() => document.activeElement.textContent);
      if (first !== "Skip to the results") fail(name, "the first stop of the keyboard is", first);
      await page.context().close();

      if (file === thousand && colorScheme === "dark") continue; // axe takes long, and says the same
      const seen = await open(home, { viewport, colorScheme, bypassCSP: true });
      await seen.evaluate(() => document.querySelectorAll("details").forEach((d) => (d.open = d.querySelectorAll("tr").length < 200)));
      await seen.evaluate(axe);
      const { violations } = await seen.evaluate(() => axe.run());
      for (const v of violations) {
        const what = [name, colorScheme, width, "axe:", v.impact, v.id, v.help, v.nodes[0].html.slice(0, 200)];
        if (["serious", "critical"].includes(v.impact)) fail(...what);
        else console.log("page: note:", ...what);
      }
      await seen.context().close();
    }
  }
}

const print = await open(pathToFileURL(twoArms).href, {});
await print.pdf({ path: path.join(out, "two-arms.pdf"), format: "A4" });
await print.context().close();

// The best of three: the others measure what else the machine does.
const times = [];
for (let i = 0; i < 3; i++) {
  const page = await open(pathToFileURL(thousand).href, { viewport: { width: 1280, height: 900 } });
  times.push(await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now()))))));
  await page.context().close();
}
console.log(`page: 1,000 rows (${(fs.statSync(thousand).size / 1e6).toFixed(2)} MB) loaded and drawn in ${times.map((t) => t.toFixed(0)).join(", ")} ms`);
if (Math.min(...times) > limitMS) fail("1,000 rows took", Math.min(...times), "ms");

// The live page renews itself, keeps what is open, and says when the server ends.
const live = await open(url, { viewport: { width: 1280, height: 900 } });
const shows = (text) => live.waitForFunction((t) => document.getElementById("main").textContent.includes(t), text, { timeout: 20000 });
await shows("There are no rows yet.");
const lines = fs.readFileSync(realRows, "utf8").trim().split("\n");
fs.writeFileSync(liveRows, lines.slice(0, 3).join("\n") + "\n");
await shows("Table of 3 rows");
await live.getByText("Table of 3 rows").click();
fs.appendFileSync(liveRows, lines.slice(3).join("\n") + "\n");
await shows(`Table of ${lines.length} rows`);
if (!(await live.evaluate(() => document.querySelector("#all-runs ~ details").open))) fail("the live page closed what was open");
await live.context().close();

await browser.close();
process.exit(wrong ? 1 : 0);
