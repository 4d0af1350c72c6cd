// What the tests of the page stand on: bundles of what ships, a server, and a real browser.

import assert from "node:assert/strict";
import { execFileSync, spawn } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { crc32, deflateSync, gunzipSync } from "node:zlib";
import puppeteer from "puppeteer-core";

export const root = join(import.meta.dirname, "../..");
const mfgs = join(root, "mfgs");
const digits = join(root, "models/digits-mlp");
export const table = join(root, "testdata/examples/sklearn");
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

export const chromium = process.env.CHROMIUM ?? ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"].find(existsSync);
assert(chromium, "no Chromium: install it (Debian's package is chromium), or set CHROMIUM to where it is");
assert(existsSync(mfgs), "no ./mfgs: make build");

export const scratch = mkdtempSync(join(tmpdir(), "mfgs-page-"));
process.on("exit", () => rmSync(scratch, { recursive: true, force: true }));

// picture writes image i of an IDX file as a PNG file, enlarged by no more than what the model takes.
export function picture(idx, i, name) {
  const all = gunzipSync(readFileSync(join(digits, idx)));
  const [h, w] = [all.readUInt32BE(8), all.readUInt32BE(12)];
  const rows = Buffer.concat(Array.from({ length: h }, (_, y) =>
    Buffer.concat([Buffer.of(0), all.subarray(16 + (i * h + y) * w, 16 + (i * h + y + 1) * w)])));
  const chunk = (type, body) => {
    const typed = Buffer.concat([Buffer.from(type), body]), out = Buffer.alloc(typed.length + 8);
    out.writeUInt32BE(body.length, 0);
    typed.copy(out, 4);
    out.writeUInt32BE(crc32(typed), typed.length + 4);
    return out;
  };
  const head = Buffer.alloc(13);
  head.writeUInt32BE(w, 0);
  head.writeUInt32BE(h, 4);
  head.set([8, 0], 8); // 8 bits of grey
  const path = join(scratch, name);
  writeFileSync(path, Buffer.concat([Buffer.from("\x89PNG\r\n\x1a\n", "latin1"), chunk("IHDR", head),
    chunk("IDAT", deflateSync(rows)), chunk("IEND", Buffer.alloc(0))]));
  return path;
}

// bundles calibrates the digits that ship, and tumours by scikit-learn.
export function bundles() {
  const calibrate = (...args) => execFileSync(mfgs, ["calibrate", ...args], { stdio: ["ignore", "ignore", "inherit"] });
  const decisions = ["--target-coverage", "0.9", "--false-alarm", "0.1", "--alpha", "0.02"];
  const images = join(digits, "digits-images-idx3-ubyte.gz");
  calibrate("--model", join(digits, "model.onnx"), "--train", `${images}[0:1200]`, "--val", `${images}[1200:1700]`,
    "--ood", `${join(digits, "drawings-images-idx3-ubyte.gz")}[0:300]`,
    ...decisions, "--out", join(scratch, "digits"));
  calibrate("--model", join(table, "model.onnx"), "--train", join(table, "train.csv"), "--val", join(table, "val.csv"),
    "--ood", join(table, "slipped.csv"), "--classes", join(table, "classes.txt"),
    "--target-coverage", "0.8", "--false-alarm", "0.1", "--alpha", "0.05", "--out", join(scratch, "tumours"));
}

// serve starts a server, and returns its address and what ends it.
export async function serve(names, ...more) {
  const child = spawn(mfgs, ["serve", ...names.flatMap((name) => ["--bundle", join(scratch, name)]), "--http", "127.0.0.1:0", "--grpc", "none", ...more]);
  const lines = [];
  const url = await new Promise((found, failed) => {
    for (const stream of [child.stdout, child.stderr]) {
      createInterface(stream).on("line", (line) => {
        lines.push(line);
        const at = /https?:\/\/127\.0\.0\.1:\d+/.exec(line);
        if (at) found(at[0]);
      });
    }
    child.on("exit", (code) => failed(new Error(`mfgs serve ended with ${code}: ${lines.join("\n")}`)));
  });
  return { url, stop: () => new Promise((done) => { child.on("exit", done); child.kill("SIGTERM"); }) };
}

export const launch = () => puppeteer.launch({ executablePath: chromium, args: ["--no-sandbox", "--force-color-profile=srgb", "--font-render-hinting=none"] });

// A Visit is a page in a browser window, with all that the browser complains about.
export class Visit {
  static async of(browser, url, { width = 1200, height = 900, scheme = "light", scale = 1 } = {}) {
    const visit = new Visit();
    visit.context = await browser.createBrowserContext();
    visit.page = await visit.context.newPage();
    visit.complaints = [];
    visit.page.on("console", (message) => {
      if (["error", "warn", "warning"].includes(message.type())) visit.complaints.push(message.text());
    });
    visit.page.on("pageerror", (error) => visit.complaints.push(String(error)));
    visit.page.on("request", (request) => {
      if (!/^(blob|data):/.test(request.url()) && new URL(request.url()).origin !== new URL(url).origin) visit.complaints.push(`asked ${request.url()}`);
    });
    await visit.page.evaluateOnNewDocument(() => {
      document.addEventListener("securitypolicyviolation", (e) => console.error(`CSP ${e.violatedDirective} ${e.blockedURI}`));
    });
    await visit.page.setViewport({ width, height, deviceScaleFactor: scale });
    await visit.page.emulateMediaFeatures([{ name: "prefers-color-scheme", value: scheme }, { name: "prefers-reduced-motion", value: "reduce" }]);
    await visit.page.goto(url, { waitUntil: "networkidle0" });
    return visit;
  }

  // drop has the browser drop a file on what is found by a selector, as the mouse would.
  async drop(selector, path) {
    const box = await (await this.page.$(selector)).boundingBox();
    const session = await this.page.createCDPSession();
    const at = { x: box.x + box.width / 2, y: box.y + box.height / 2, data: { items: [], files: [path], dragOperationsMask: 1 } };
    for (const type of ["dragEnter", "dragOver", "drop"]) await session.send("Input.dispatchDragEvent", { type, ...at });
    await session.detach();
  }

  // answered waits until there is an answer or an error, and returns its text.
  async answered() {
    await this.page.waitForFunction(() => {
      const shown = (id) => !document.getElementById(id).hidden;
      return document.getElementById("answer").getAttribute("aria-busy") === "false" && (shown("result") || shown("error"));
    }, { timeout: 10000 });
    return this.text("#answer");
  }

  text(selector) {
    return this.page.$eval(selector, (e) => e.innerText);
  }

  // findings are those of axe, one a line.
  async findings() {
    await this.page.evaluate(axe);
    const result = await this.page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
    return result.violations.map((v) => `${v.impact} ${v.id}: ${v.nodes.map((n) => n.target.join(" ")).join(", ")}`);
  }

  // sideways is how many pixels the page is wider than the window.
  sideways() {
    return this.page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
  }

  // shot keeps what is seen, or all of the page.
  async shot(name, fullPage = true) {
    const folder = join(root, "docs/serve");
    mkdirSync(folder, { recursive: true });
    await this.page.screenshot({ path: join(folder, name), fullPage });
  }

  close() {
    return this.context.close();
  }
}
