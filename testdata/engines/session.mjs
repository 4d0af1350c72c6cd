// What Node and the page share: runs the files of a case in ONNX Runtime's JavaScript API, as run.py does in Python.

const FILES = ["plain", "features", "float64", "float32"];
const arrays = {
	float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array, int32: Int32Array,
	uint32: Uint32Array, int64: BigInt64Array, bool: Uint8Array, float16: globalThis.Float16Array ?? Uint16Array,
};

/** read(name) gives the bytes of a file of the case. */
export async function outcome(ort, read, options, seconds) {
	const c = JSON.parse(new TextDecoder().decode(await read("case.json")));
	const feeds = {};
	for (const [name, {type, dims}] of Object.entries(c.inputs))
		feeds[name] = new ort.Tensor(type, new arrays[type](new Uint8Array(await read(`${name}.bin`)).buffer), dims);
	const files = {}, ran = {};
	for (const f of FILES) {
		let session;
		try {
			session = await ort.InferenceSession.create(await read(`${f}.onnx`), options);
			const outputs = {};
			for (const [name, t] of Object.entries(await session.run(feeds)))
				outputs[name] = {type: t.type, dims: t.dims, data: Array.from(t.data, Number)};
			files[f] = {outputs};
			if (f !== "features") ran[f] = session;
		} catch (e) {
			files[f] = {error: String(e?.message ?? e)};
		}
		if (!ran[f]) await session?.release();
	}
	const took = Object.fromEntries(Object.keys(ran).map(f => [f, []]));
	const end = performance.now() + 1e3 * seconds * Object.keys(ran).length;
	for (let i = 0; seconds && ran.plain && (performance.now() < end || i < 2); i++) {
		for (const [f, session] of Object.entries(ran)) {
			const start = performance.now();
			await session.run(feeds);
			took[f].push(performance.now() - start);
		}
	}
	for (const session of Object.values(ran)) await session.release();
	return {files, ms: Object.fromEntries(Object.entries(took).filter(([, t]) => t.length > 1).map(([f, t]) => [f, Math.min(...t.slice(1))]))};
}
