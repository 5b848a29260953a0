/* Measures pages of the built book with Lighthouse, as a phone and as a desktop.
 *
 * `node tools/lighthouse.mjs [PAGE ...]` serves `_build/html` on a loopback port as a static host
 * would (compressed, cached for ten minutes), prints a table of the middle of RUNS runs each (3 by default: what
 * else the machine does shows in a score), and fails below the scores wanted.
 */
import { createServer } from "node:http";
import { readFile } from "node:fs/promises";
import { existsSync } from "node:fs";
import { extname, join, normalize } from "node:path";
import { fileURLToPath } from "node:url";
import { gzipSync } from "node:zlib";
import * as chromeLauncher from "chrome-launcher";
import lighthouse, { desktopConfig } from "lighthouse";

const BOOK = fileURLToPath(new URL("../_build/html", import.meta.url));
const PAGES = ["intro.html", "chapters/tree_prior.html", "chapters/function_vectors.html"];
const BROWSERS = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];
const WANTED = 95;
const RUNS = Number(process.env.RUNS ?? 3);
const CATEGORIES = ["performance", "accessibility"];
const METRICS = {
  FCP: "first-contentful-paint",
  LCP: "largest-contentful-paint",
  SI: "speed-index",
  TBT: "total-blocking-time",
  CLS: "cumulative-layout-shift",
};
const FORMS = { phone: undefined, desktop: desktopConfig };
const FLAGS = [
  "--headless",
  "--no-sandbox",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-dev-shm-usage",
  "--disable-gpu",
  "--disable-quic",
  "--disable-sync",
];
const TYPES = {
  ".css": "text/css",
  ".html": "text/html; charset=utf-8",
  ".ico": "image/x-icon",
  ".js": "text/javascript",
  ".json": "application/json",
  ".png": "image/png",
  ".svg": "image/svg+xml",
  ".woff": "font/woff",
};
const PACKED = new Set([".png", ".ico", ".woff"]);

async function answer(request, response) {
  const path = normalize(decodeURIComponent(new URL(request.url, "http://book").pathname));
  const type = extname(path);
  let body;
  try {
    body = await readFile(join(BOOK, path));
  } catch {
    response.writeHead(404).end();
    return;
  }
  const head = { "Content-Type": TYPES[type] ?? "text/plain", "Cache-Control": "max-age=600" };
  if (!PACKED.has(type)) {
    head["Content-Encoding"] = "gzip";
    body = gzipSync(body);
  }
  response.writeHead(200, { ...head, "Content-Length": body.length }).end(body);
}

function browser() {
  const folders = process.env.PATH.split(":");
  const found = BROWSERS.flatMap((name) => folders.map((folder) => join(folder, name)));
  return process.env.CHROME_PATH ?? found.find(existsSync);
}

async function once(address, config) {
  const chrome = await chromeLauncher.launch({ chromePath: browser(), chromeFlags: FLAGS });
  try {
    const options = { port: chrome.port, onlyCategories: CATEGORIES, logLevel: "error" };
    return (await lighthouse(address, options, config)).lhr;
  } finally {
    chrome.kill();
  }
}

async function measure(address, config) {
  const results = [];
  while (results.length < RUNS) results.push(await once(address, config));
  results.sort((a, b) => a.categories.performance.score - b.categories.performance.score);
  return results[Math.floor(RUNS / 2)];
}

function row(page, form, result) {
  const scores = CATEGORIES.map((name) => Math.round(100 * result.categories[name].score));
  const metrics = Object.entries(METRICS).map(
    ([name, audit]) => `${name} ${result.audits[audit].displayValue.replace(/\s/g, " ")}`,
  );
  const cells = [page.padEnd(32), form.padEnd(8), ...scores.map((score) => `${score}`.padStart(4))];
  console.log([...cells, ...metrics].join("  "));
  for (const { id } of CATEGORIES.flatMap((name) => result.categories[name].auditRefs)) {
    const { score, scoreDisplayMode, title } = result.audits[id];
    if (scoreDisplayMode === "binary" && score === 0) console.log(`    ${id}: ${title}`);
  }
  return scores.every((score) => score >= WANTED);
}

const server = createServer(answer);
await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
let good = true;
try {
  console.log(`page, form, ${CATEGORIES.join(", ")}, and what they are made of`);
  for (const page of process.argv.length > 2 ? process.argv.slice(2) : PAGES) {
    for (const [form, config] of Object.entries(FORMS)) {
      const address = `http://127.0.0.1:${server.address().port}/${page}`;
      good = row(page, form, await measure(address, config)) && good;
    }
  }
} finally {
  server.close();
}
process.exitCode = good ? 0 : 1;
