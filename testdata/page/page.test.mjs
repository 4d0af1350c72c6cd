// The page in a real browser, before a real server.

import assert from "node:assert/strict";
import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { after, before, test } from "node:test";
import * as b from "./browser.mjs";

let server, guarded, browser, digit, letter;

before(async () => {
  b.bundles();
  digit = b.picture("digits-images-idx3-ubyte.gz", 1702, "digit.png");
  writeFileSync(join(b.scratch, "token"), "a-token-of-the-test\n");
  server = await b.serve(["digits", "tumours"]);
  guarded = await b.serve(["digits"], "--token-file", join(b.scratch, "token"));
  browser = await b.launch();
  // The first of the letters of which the network is sure and the bundle would rather say nothing.
  for (let i = 300; ; i++) {
    letter = b.picture("drawings-images-idx3-ubyte.gz", i, "letter.png");
    const one = await predicted(letter);
    if (one.abstain && one.network.confidence > 0.99) break;
  }
});

const predicted = async (path) => {
  const reply = await fetch(`${server.url}/v1/predict?model=digits`, { method: "POST", body: readFileSync(path) });
  assert.equal(reply.status, 200);
  return reply.json();
};

after(async () => {
  await browser?.close();
  await server?.stop();
  await guarded?.stop();
});

// visiting opens a page for a test, which must end without complaints of the browser.
const visiting = (name, options, body) => test(name, { timeout: 60000 }, async () => {
  const visit = await b.Visit.of(browser, options.url ?? server.url, options);
  try {
    await body(visit);
    assert.deepEqual(visit.complaints, []);
  } finally {
    await visit.close();
  }
});

// fine holds what must be so of any state of the page.
async function fine(visit) {
  assert.deepEqual(await visit.findings(), []);
  assert.ok(await visit.sideways() <= 0, "the page is wider than the window");
}

visiting("a picture is dropped, and the answer stands beside the network's", {}, async (visit) => {
  await fine(visit);
  await visit.drop("#drop", digit);
  const text = await visit.answered();
  const want = await predicted(digit);
  assert.equal(await visit.text(".verdict"), want.abstain ? `${want.label}?` : want.label);
  const rows = await visit.page.$$eval(".bars tbody tr", (all) => all.map((row) => [...row.children].map((cell) => cell.innerText.split("\n")[0])));
  assert.deepEqual(rows.map((row) => row[0]), want.top.map((one) => one.label));
  assert.equal(rows.length, 5);
  const near = (shown, p) => assert.ok(/[<>]/.test(shown) || Math.abs(parseFloat(shown) - 100 * p) < 0.051, `${shown} for ${p}`);
  want.top.forEach((one, i) => {
    near(rows[i][1], one.probability);
    near(rows[i][2], one.network_probability);
  });
  assert.match(text, /Prediction set/);
  assert.match(await visit.text("#status"), new RegExp(`^${want.label}, `));
  await fine(visit);
  await visit.shot("digit.png");
});

visiting("a letter leads to an abstention, with the reason in words", {}, async (visit) => {
  await visit.drop("body", letter);
  const text = await visit.answered();
  assert.match(text, /The model abstains\.[\s\S]*(Out-of-distribution|Uncertain): /);
  assert.match(await visit.text("#status"), /The model abstains/);
  await fine(visit);
  await visit.shot("letter.png");
});

visiting("a letter in the dark", { scheme: "dark" }, async (visit) => {
  await visit.drop("#drop", letter);
  await visit.answered();
  await fine(visit);
});

visiting("a phone", { width: 360, height: 740, scheme: "dark" }, async (visit) => {
  await fine(visit);
  await visit.drop("#drop", letter);
  await visit.answered();
  await fine(visit);
  await visit.shot("phone.png");
});

visiting("rows on a phone", { width: 360, height: 740 }, async (visit) => {
  await visit.page.select("#model", "tumours");
  await fine(visit);
  await visit.drop("#drop", join(b.table, "sentinel.csv"));
  await (await visit.page.waitForSelector("#rows-table tbody tr:nth-child(3) label")).click();
  await visit.answered();
  await fine(visit);
});

visiting("a row is picked, and a value changed", {}, async (visit) => {
  await visit.page.select("#model", "tumours");
  await visit.drop("#drop", join(b.table, "sentinel.csv"));
  await (await visit.page.waitForSelector("#rows-table tbody tr:nth-child(3) label")).click();
  await visit.answered();
  await fine(visit);
  await visit.shot("row.png", false);
  const mark = await visit.text(".strip .value");
  const field = (await visit.page.$$("#fields input"))[7]; // mean concave points, which is −999
  assert.equal(await field.evaluate((e) => e.value), "-999");
  await field.click({ count: 3 });
  await field.type("0.1");
  await visit.page.keyboard.press("Enter");
  await visit.page.waitForFunction((was) => document.querySelector(".strip .value").innerText !== was, {}, mark);
  await field.click({ count: 3 });
  await field.type("many");
  await visit.page.keyboard.press("Enter");
  await visit.page.waitForFunction(() => /“many” is not a number/.test(document.getElementById("error").innerText));
  await visit.page.click("#rows-after");
  assert.match(await visit.text("#rows-note"), /rows 51 to 100 of 171/);
});

visiting("the keyboard does all", {}, async (visit) => {
  const { keyboard } = visit.page;
  const focused = () => visit.page.evaluate(() => document.activeElement.id || document.activeElement.type);
  // until moves the focus on to what is called so.
  const until = async (name) => {
    for (let i = 0; i < 20; i++) {
      await keyboard.press("Tab");
      if (await focused() === name) return;
    }
    assert.fail(`the focus does not come to ${name}`);
  };
  await until("model");
  await keyboard.type("tumours");
  await until("file");
  const outline = await visit.page.$eval("#file + label", (e) => getComputedStyle(e).outlineStyle);
  assert.equal(outline, "solid", "where the focus is cannot be seen");
  const [chooser] = await Promise.all([visit.page.waitForFileChooser(), keyboard.press("Space")]);
  await chooser.accept([join(b.table, "test.csv")]);
  await visit.page.waitForSelector("#rows-table input");
  await until("radio");
  await keyboard.press("Space");
  const first = await visit.answered();
  assert.match(first, /The file’s own label: (benign|malignant)/);
  await keyboard.press("ArrowDown");
  await visit.page.waitForFunction((was) => document.getElementById("answer").innerText !== was, {}, first);
  assert.equal(await focused(), "radio");
});

visiting("a picture is pasted, of a kind that only the browser reads", {}, async (visit) => {
  await visit.page.evaluate(async () => {
    const canvas = Object.assign(document.createElement("canvas"), { width: 8, height: 8 });
    canvas.getContext("2d").fillRect(2, 2, 3, 5);
    const webp = await new Promise((done) => canvas.toBlob(done, "image/webp"));
    const data = new DataTransfer();
    data.items.add(new File([webp], "one.webp", { type: "image/webp" }));
    document.dispatchEvent(new ClipboardEvent("paste", { clipboardData: data, bubbles: true }));
  });
  assert.match(await visit.answered(), /Probabilities/);
  assert.match(await visit.text("#image-note"), /one\.webp, 8 × 8, converted to PNG/);
});

visiting("what cannot be is refused in words", {}, async (visit) => {
  const refused = async (name, content, words) => {
    writeFileSync(join(b.scratch, name), content);
    await visit.drop("#drop", join(b.scratch, name));
    await visit.page.waitForFunction((source) => new RegExp(source).test(document.getElementById("error").innerText), { timeout: 5000 }, words);
  };
  await refused("x.bin", Buffer.alloc(200), "neither an image nor a file of rows");
  await refused("x.csv", "a,b\n1\n", "Row 1 has 1 cells");
  assert.deepEqual(await visit.findings(), []);
  await visit.page.select("#model", "tumours");
  await visit.drop("#drop", digit);
  await visit.page.waitForFunction(() => /does not take images/.test(document.getElementById("error").innerText));
  visit.complaints = visit.complaints.filter((text) => !/status of 400/.test(text)); // the server's answer, which is wanted
});

visiting("a token is asked for, and not kept", { get url() { return guarded.url; } }, async (visit) => {
  await visit.page.waitForSelector("#entry:not([hidden])");
  assert.deepEqual(await visit.findings(), []);
  await visit.page.type("#token", "wrong");
  await visit.page.keyboard.press("Enter");
  await visit.page.waitForFunction(() => document.getElementById("token").value === "");
  await visit.page.type("#token", "a-token-of-the-test");
  await visit.page.keyboard.press("Enter");
  await visit.page.waitForSelector("#entry[hidden]");
  await visit.drop("#drop", digit);
  assert.match(await visit.answered(), /Probabilities/);
  assert.doesNotMatch(await visit.text("#command"), /a-token/);
  assert.equal(await visit.page.evaluate(() => localStorage.length + sessionStorage.length + document.cookie.length), 0);
  visit.complaints = visit.complaints.filter((text) => !/status of 401/.test(text)); // asked for by what is tested
});

test("the policy is in force, and its breach is seen", { timeout: 60000 }, async () => {
  const visit = await b.Visit.of(browser, server.url);
  await visit.page.evaluate(() => {
    const script = document.createElement("script");
    script.textContent = "window.ran = true";
    document.body.append(script);
  });
  assert.equal(await visit.page.evaluate(() => window.ran), undefined);
  assert.match(visit.complaints.join("\n"), /CSP script-src-elem inline/);
  await visit.close();
});
