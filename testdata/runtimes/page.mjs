// The page that run_web.mjs serves: it runs each case and posts the result. Nothing comes from anywhere but the page's own server.
import * as ort from "/packages/onnxruntime-web/dist/ort.wasm.min.mjs";
import {outcome} from "./session.mjs";

const say = (where, what) => fetch(where, {method: "POST", body: typeof what === "string" ? what : JSON.stringify(what)});
try {
	const threads = Number(new URLSearchParams(location.search).get("threads"));
	if (threads > 1 && !crossOriginIsolated) throw new Error("the page is not isolated: no threads");
	ort.env.wasm.numThreads = threads;
	ort.env.wasm.wasmPaths = "/packages/onnxruntime-web/dist/";
	ort.env.logLevel = "fatal";
	const {version, ids} = await (await fetch("/ids.json")).json();
	for (const id of ids) {
		const c = await (await fetch(`/cases/${id}/case.json`)).json();
		const load = async which => new Uint8Array(await (await fetch(which === "fused" ? `/cases/${id}/fused.onnx` : `/originals/${id}`)).arrayBuffer());
		await say(`/results/web-${version}-${threads}/${id}`, await outcome(ort, c, load, {executionProviders: ["wasm"], logSeverityLevel: 4}));
	}
	await say("/done", navigator.userAgent);
} catch (e) {
	await say("/done", `stopped by ${e?.stack ?? e}`);
}
