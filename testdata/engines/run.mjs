// Runs the files of prepare.py in ONNX Runtime for Node, or for browsers in a headless Chromium.
//
//     node run.mjs WORK node|wasm|webgpu [ONLY] [SECONDS]        (packages are looked for in WORK/node; CHROMIUM names the browser)
//
// Writes WORK/results/ENGINE/NETWORK.json, as run.py does. For a browser it serves the page, the packages and the files on localhost; the
// page runs the cases, and posts each result back.
import fs from "node:fs";
import http from "node:http";
import os from "node:os";
import path from "node:path";
import {createRequire} from "node:module";
import {spawn} from "node:child_process";
import {outcome} from "./session.mjs";

const [work, engine] = [path.resolve(process.argv[2]), process.argv[3]];
const only = new RegExp(process.argv[4] ?? ""), seconds = Number(process.argv[5] ?? 2);
const here = path.dirname(new URL(import.meta.url).pathname);
const require = createRequire(path.join(work, "node", "package.json"));
const cases = fs.readdirSync(path.join(work, "cases")).filter(c => only.test(c)).sort();
const out = path.join(work, "results", engine === "node" ? "node" : `web-${engine}`);
const SILENCE = 900_000; // no case takes so long

function save(name, result, of) {
	const {version} = JSON.parse(fs.readFileSync(path.join(work, "node/node_modules", of, "package.json"), "utf8"));
	fs.mkdirSync(out, {recursive: true});
	fs.writeFileSync(path.join(out, `${name}.json`), JSON.stringify({engine: `${of} ${version}`, ...result}));
	for (const [f, r] of Object.entries(result.files)) console.log(engine, name, f, r.error?.slice(0, 300) ?? "ran");
}

if (engine === "node") {
	for (const c of cases) {
		const read = async f => fs.readFileSync(path.join(work, "cases", c, f));
		save(c, await outcome(require("onnxruntime-node"), read, {intraOpNumThreads: 1, logSeverityLevel: 4}, seconds), "onnxruntime-node");
	}
	process.exit();
}

const page = `<!doctype html><meta charset="utf-8"><title>engines</title><script type="module">
import * as ort from "/node/node_modules/onnxruntime-web/dist/ort.${engine === "wasm" ? "wasm" : "webgpu"}.min.mjs";
import {outcome} from "/session.mjs";
const post = (where, what) => fetch(where, {method: "POST", body: JSON.stringify(what)});
try {
	ort.env.wasm.numThreads = 1;
	ort.env.wasm.wasmPaths = "/node/node_modules/onnxruntime-web/dist/";
	ort.env.logLevel = "fatal";
	if ("${engine}" === "webgpu" && !await navigator.gpu?.requestAdapter()) throw new Error("this browser has no WebGPU adapter");
	for (const c of ${JSON.stringify(cases)}) {
		const read = async f => new Uint8Array(await (await fetch("/cases/" + c + "/" + f)).arrayBuffer());
		await post("/results/" + c, await outcome(ort, read, {executionProviders: ["${engine}"], logSeverityLevel: 4}, ${seconds}));
	}
	await post("/done", navigator.userAgent);
} catch (e) {
	await post("/done", "stopped by " + (e?.stack ?? e));
}
</script>`;
const types = {".mjs": "text/javascript", ".wasm": "application/wasm"};
let heard = () => {}, done = () => {};
const server = http.createServer((request, reply) => {
	heard();
	const name = decodeURIComponent(new URL(request.url, "http://localhost").pathname);
	if (request.method === "POST") {
		let body = "";
		request.setEncoding("utf8").on("data", d => body += d).on("end", () => {
			if (name === "/done") done(JSON.parse(body));
			else if (cases.includes(name.slice(9))) save(name.slice(9), JSON.parse(body), "onnxruntime-web");
			reply.end();
		});
		return;
	}
	if (name === "/") return reply.setHeader("Content-Type", "text/html").end(page);
	const file = name === "/session.mjs" ? path.join(here, name) : path.join(work, name);
	if (name.includes("..") || !fs.existsSync(file)) return reply.writeHead(404).end();
	reply.setHeader("Content-Type", types[path.extname(file)] ?? "application/octet-stream");
	fs.createReadStream(file).pipe(reply);
});
await new Promise(resolve => server.listen(0, "127.0.0.1", resolve));
const profile = fs.mkdtempSync(path.join(os.tmpdir(), "chromium-"));
const browser = spawn(process.env.CHROMIUM ?? "chromium", ["--headless", "--no-sandbox", "--disable-quic", "--no-first-run", "--disable-background-networking",
	"--disable-component-update", "--disable-sync", ...engine === "webgpu" ? ["--enable-unsafe-webgpu", "--use-webgpu-adapter=swiftshader", "--enable-features=Vulkan"] : ["--disable-gpu"],
	`--user-data-dir=${profile}`, `http://localhost:${server.address().port}/`], {stdio: "ignore", detached: true});
let timer;
const said = await new Promise(resolve => {
	done = resolve;
	heard = () => {
		clearTimeout(timer);
		timer = setTimeout(() => resolve("stopped: the page is silent"), SILENCE);
	};
	heard();
	process.on("SIGTERM", () => resolve("stopped by a signal"));
	browser.on("error", e => resolve(`stopped: ${e.message}`));
	browser.on("exit", code => resolve(`stopped: the browser has ended with ${code}`));
});
console.log(said);
// The whole group: renderers outlive a browser that is killed alone.
if (browser.pid && browser.exitCode === null) {
	const gone = new Promise(resolve => browser.on("exit", resolve));
	process.kill(-browser.pid, "SIGKILL");
	await gone;
}
fs.rmSync(profile, {recursive: true, force: true, maxRetries: 5, retryDelay: 200});
process.exit(said.startsWith("stopped") ? 1 : 0);
