// Reports in a real browser: of digits, which are pictures, and of tumours, which are rows of two classes with names that mean harm.

import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { mkdirSync, readFileSync, statSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import * as b from "./browser.mjs";

const harm = `</style><script>window.harmed = 1</script><img src="http://127.0.0.1:9/x" onerror="window.harmed = 1">`;
const report = (name) => join(b.scratch, name);
let browser;

before(async () => {
  const mfgs = (...args) => execFileSync(join(b.root, "mfgs"), args, { stdio: ["ignore", "ignore", "inherit"] });
  b.bundles();
  const images = join(b.root, "models/digits-mlp/digits-images-idx3-ubyte.gz");
  const letters = join(b.root, "models/digits-mlp/drawings-images-idx3-ubyte.gz");
  mfgs("eval", "--bundle", report("digits"), "--test", `${images}[1500:]`, "--ood", `letters=${letters}[300:]`, "--report", report("digits.html"));
  writeFileSync(report("names.json"), JSON.stringify([harm, "malignant"]));
  mfgs("calibrate", "--model", join(b.table, "model.onnx"), "--train", join(b.table, "train.csv"), "--val", join(b.table, "val.csv"),
    "--classes", report("names.json"), "--out", report("harm"), "--report", report("harm.html"));
  browser = await b.launch();
});

after(() => browser?.close());

// visiting opens a report for a test, which must ask for nothing and end without complaints of the browser.
const visiting = (name, file, options, body) => test(name, { timeout: 60000 }, async () => {
  const url = pathToFileURL(report(file)).href;
  const visit = await b.Visit.of(browser, url, options);
  visit.page.on("request", (request) => { if (!request.url().startsWith("data:")) visit.complaints.push(`asked ${request.url()}`); });
  try {
    await visit.page.reload({ waitUntil: "networkidle0" });
    visit.complaints = visit.complaints.filter((text) => text !== `asked ${url}`);
    await body(visit);
    assert.deepEqual(visit.complaints, []);
  } finally {
    await visit.close();
  }
});

// fine holds what must be so of any report: with its numbers folded and with them shown.
async function fine(visit) {
  for (const open of [false, true]) {
    await visit.page.$$eval("details", (all, open) => all.forEach((e) => { e.open = open; }), open);
    assert.deepEqual(await visit.findings(), []);
    assert.ok(await visit.sideways() <= 0, "the page is wider than the window");
  }
  await visit.page.$$eval("details", (all) => all.forEach((e) => { e.open = false; }));
  assert.deepEqual(await visit.page.evaluate(illegible), []);
}

// illegible lists texts of charts that are cut off, lie upon each other, or are too small to read.
function illegible() {
  const found = [];
  for (const svg of document.querySelectorAll("figure > svg")) {
    const name = svg.getAttribute("aria-label"), frame = svg.getBoundingClientRect();
    const texts = [...svg.querySelectorAll("text")].map((e) => [e.textContent, e.getBoundingClientRect()]);
    texts.forEach(([text, box], i) => {
      if (box.left < frame.left - 1 || box.right > frame.right + 1 || box.top < frame.top - 1 || box.bottom > frame.bottom + 1) found.push(`${name}: ${text} is cut off`);
      if (Math.min(box.width, box.height) > 0 && Math.max(box.width, box.height) < 5) found.push(`${name}: ${text} is too small`);
      for (const [other, o] of texts.slice(0, i)) {
        const width = Math.min(box.right, o.right) - Math.max(box.left, o.left), height = Math.min(box.bottom, o.bottom) - Math.max(box.top, o.top);
        // Boxes are higher than the letters in them.
        if (width > 1 && height > 0.4 * Math.min(box.height, o.height)) found.push(`${name}: ${text} lies upon ${other}`);
      }
    });
  }
  return found;
}

const shot = async (visit, name, clip) => {
  const folder = join(b.root, "docs/report");
  mkdirSync(folder, { recursive: true });
  await visit.page.screenshot({ path: join(folder, name), ...clip });
};

// part is the place of what a selector finds, for a picture of it.
const part = async (visit, selector, height) => {
  const box = await visit.page.$eval(selector, (e) => { const r = e.getBoundingClientRect(); return { y: r.top + window.scrollY, height: r.height }; });
  return { clip: { x: 0, y: box.y, width: await visit.page.evaluate(() => window.innerWidth), height: Math.min(box.height, height) } };
};

visiting("a report on a desk", "digits.html", {}, async (visit) => {
  await fine(visit);
  assert.match(await visit.text("h1"), /\w/);
  assert.match(await visit.text(".verdict"), /95 %/);
  assert.equal(await visit.page.$$eval("#examples img", (all) => all.filter((e) => e.complete && e.naturalWidth > 0).length), 12 + 7 + 12 + 12);
  assert.ok(await visit.page.$$eval("figure > svg", (all) => all.length) >= 8);
  await shot(visit, "desk.png", {});
  await shot(visit, "figures.png", await part(visit, "#ood", 900));
});

visiting("a report in the dark", "digits.html", { scheme: "dark" }, async (visit) => {
  await fine(visit);
  const colours = await visit.page.evaluate(() => [document.body, document.querySelector("figure > svg text")].map((e) => getComputedStyle(e)).map((s, i) => i ? s.fill : s.backgroundColor));
  const light = colours.map((c) => c.match(/\d+/g).slice(0, 3).reduce((a, v) => a + Number(v), 0) / 765);
  assert.ok(light[0] < 0.2 && light[1] > 0.8, `ground and letters are ${colours}`);
  await shot(visit, "dark.png", await part(visit, "#reliability", 900));
});

visiting("a report on a phone", "digits.html", { width: 360, height: 740 }, async (visit) => {
  await fine(visit);
  await shot(visit, "phone.png", {});
  await shot(visit, "phone-examples.png", await part(visit, "#examples", 740));
});

visiting("a report on paper", "digits.html", { scheme: "dark" }, async (visit) => {
  await visit.page.emulateMediaType("print");
  assert.equal(await visit.page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  const pdf = await visit.page.pdf({ format: "A4" });
  assert.ok(pdf.length > 10000);
});

for (const options of [{}, { width: 360, height: 740, scheme: "dark" }]) {
  visiting(`names that mean harm do none, ${options.width ?? 1200} pixels wide`, "harm.html", options, async (visit) => {
    await fine(visit);
    assert.equal(await visit.page.evaluate(() => window.harmed), undefined);
    assert.match(await visit.text("#classes"), /<\/style><script>/);
    assert.match(await visit.text("main"), /tuned on/);
    assert.ok(await visit.page.$$eval("#examples .values dt", (all) => all.length) > 0, "rows are not shown");
  });
}

test("a breach of the policy would be seen", { timeout: 60000 }, async () => {
  const html = readFileSync(report("digits.html"), "utf8").replace("<h1>", '<h1 style="color:red"><script>1</script><img src="https://127.0.0.1:9/x.png">');
  writeFileSync(report("breach.html"), html);
  const visit = await b.Visit.of(browser, pathToFileURL(report("breach.html")).href);
  for (const kind of [/style-src/, /script-src/, /img-src/]) assert.match(visit.complaints.join("\n"), kind);
  await visit.close();
  assert.ok(statSync(report("digits.html")).size < 300e3);
});
