// Runs the exported models in onnxruntime-node.
//
//     node run_node.mjs WORK        (after prepare.py; packages are looked for in WORK/node)
//
// Writes WORK/results/node-VERSION/ID.json, as run_python.py does.
import fs from "node:fs";
import path from "node:path";
import {createRequire} from "node:module";
import {outcome} from "./session.mjs";

const work = path.resolve(process.argv[2]);
const require = createRequire(path.join(work, "node", "package.json"));
const ort = require("onnxruntime-node");
const name = `node-${require("onnxruntime-node/package.json").version}`;
const out = path.join(work, "results", name);
fs.mkdirSync(out, {recursive: true});
const ids = fs.readdirSync(path.join(work, "cases")).sort();
for (const id of ids) {
	const folder = path.join(work, "cases", id);
	const c = JSON.parse(fs.readFileSync(path.join(folder, "case.json"), "utf8"));
	// By path, so that external data is found.
	const load = which => which === "fused" ? path.join(folder, "fused.onnx") : c.original;
	const result = await outcome(ort, c, load, {intraOpNumThreads: 1, logSeverityLevel: 4});
	fs.writeFileSync(path.join(out, id + ".json"), JSON.stringify(result));
}
console.log(`${name}: ${ids.length} models run`);
process.exit(ids.length ? 0 : 1);
