// Runs the exported models in onnxruntime-web's WebAssembly, in a headless Chromium.
//
//     node run_web.mjs WORK [CHROMIUM]        (after prepare.py; packages are looked for in WORK/node)
//
// Serves the page, the packages and the models on localhost; the page fetches them, runs the cases, and posts each result back. It is
// opened twice: with one thread, as any page can, and with two, for which the server isolates it (COOP, COEP). Results go to
// WORK/results/web-VERSION-THREADS/ID.json.
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import {spawn} from "node:child_process";

const here = path.dirname(new URL(import.meta.url).pathname);
const work = path.resolve(process.argv[2]);
const chromium = process.argv[3] ?? "chromium";
const packages = path.join(work, "node", "node_modules");
const {version} = JSON.parse(fs.readFileSync(path.join(packages, "onnxruntime-web/package.json"), "utf8"));
const ids = fs.readdirSync(path.join(work, "cases")).sort();
const read = id => JSON.parse(fs.readFileSync(path.join(work, "cases", id, "case.json"), "utf8"));
const types = {".html": "text/html", ".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm", ".json": "application/json"};
// No case takes a tenth of it.
const SILENCE = 120_000;

let heard = () => {};
let done = () => {};
let saved = 0;

/** The file that a path of the page stands for, or null. */
function file(url) {
	const [, folder, ...rest] = url.split("/").map(decodeURIComponent);
	if (rest.includes("..")) return null;
	switch (folder) {
	case "page": return path.join(here, ...rest);
	case "packages": return path.join(packages, ...rest);
	case "cases": return path.join(work, "cases", ...rest);
	case "originals": return read(rest[0]).original;
	}
	return null;
}

const server = http.createServer((request, reply) => {
	heard();
	const {pathname} = new URL(request.url, "http://localhost");
	reply.setHeader("Cross-Origin-Opener-Policy", "same-origin");
	reply.setHeader("Cross-Origin-Embedder-Policy", "require-corp");
	if (request.method === "POST") {
		let body = "";
		request.setEncoding("utf8").on("data", d => body += d).on("end", () => {
			const [, what, folder, id] = pathname.split("/").map(decodeURIComponent);
			if (what === "results" && ids.includes(id)) {
				const out = path.join(work, "results", path.basename(folder));
				fs.mkdirSync(out, {recursive: true});
				fs.writeFileSync(path.join(out, id + ".json"), body);
				saved++;
			} else if (what === "done") {
				done(body);
			}
			reply.end();
		});
		return;
	}
	if (pathname === "/ids.json") return reply.setHeader("Content-Type", types[".json"]).end(JSON.stringify({version, ids}));
	const name = file(pathname);
	if (!name || !fs.existsSync(name)) return reply.writeHead(404).end();
	reply.setHeader("Content-Type", types[path.extname(name)] ?? "application/octet-stream");
	fs.createReadStream(name).pipe(reply);
});

async function visit(url) {
	const profile = fs.mkdtempSync(path.join(os.tmpdir(), "chromium-"));
	let browser, timer;
	try {
		return await new Promise((resolve, reject) => {
			heard = () => {
				clearTimeout(timer);
				timer = setTimeout(() => reject(new Error("the page has said nothing for two minutes")), SILENCE);
			};
			heard();
			done = resolve;
			browser = spawn(chromium, ["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
				"--disable-component-update", "--disable-sync", `--user-data-dir=${profile}`, url], {stdio: "ignore", detached: true});
			browser.on("error", e => reject(new Error(`${chromium} does not start: ${e.message}`)));
			browser.on("exit", code => reject(new Error(`${chromium} has ended with ${code} before the page was done`)));
		});
	} finally {
		clearTimeout(timer);
		heard = () => {};
		// The whole group: renderers outlive a browser that is killed alone.
		if (browser?.pid && browser.exitCode === null) {
			const gone = new Promise(resolve => browser.on("exit", resolve));
			process.kill(-browser.pid, "SIGKILL");
			await gone;
		}
		fs.rmSync(profile, {recursive: true, force: true, maxRetries: 5, retryDelay: 200});
	}
}

await new Promise(resolve => server.listen(0, "127.0.0.1", resolve));
let failed = ids.length === 0;
for (const threads of [1, 2]) {
	saved = 0;
	const said = await visit(`http://localhost:${server.address().port}/page/page.html?threads=${threads}`).catch(e => e.message);
	console.log(`web-${version}-${threads}: ${saved} of ${ids.length} models run: ${said}`);
	failed ||= saved !== ids.length;
}
server.close();
process.exit(failed ? 1 : 0);
