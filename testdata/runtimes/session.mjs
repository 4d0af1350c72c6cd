// What Node and the page share: runs one case in ONNX Runtime's JavaScript API and returns what run_python.py returns.

// Outputs of other types than float32.
const types = {ood_score: "float64", ood_percentile: "float64", ood_pvalue: "float64", abstain: "bool", prediction_set: "bool"};

const arrays = {
	float32: Float32Array, float64: Float64Array, int8: Int8Array, uint8: Uint8Array, int16: Int16Array, uint16: Uint16Array,
	int32: Int32Array, uint32: Uint32Array, bool: Uint8Array,
};

function tensor(ort, t) {
	if (t.type === "int64") return new ort.Tensor("int64", BigInt64Array.from(t.data, BigInt), t.dims);
	if (t.type === "float16") {
		const bits = Uint16Array.from(t.data);
		// Where the engine has them the API wants half-precision numbers, elsewhere their bits.
		const half = typeof Float16Array === "undefined" ? bits : new Float16Array(bits.buffer);
		return new ort.Tensor("float16", half, t.dims);
	}
	if (!(t.type in arrays)) throw new Error(`no array for an input of ${t.type}`);
	return new ort.Tensor(t.type, arrays[t.type].from(t.data), t.dims);
}

/** load(which) gives the bytes of a model: "fused" or "original". */
export async function outcome(ort, c, load, options) {
	const result = {id: c.id, original: true};
	let session;
	try {
		session = await ort.InferenceSession.create(await load("fused"), options);
		const names = Object.values(c.outputs);
		result.runs = [];
		for (const run of c.runs) {
			const feeds = {};
			for (const [name, t] of Object.entries(run.feeds)) feeds[name] = tensor(ort, t);
			const got = await session.run(feeds, names);
			const outputs = {};
			for (const [kind, name] of Object.entries(c.outputs)) {
				if (got[name].type !== (types[kind] ?? "float32")) throw new Error(`${name} is ${got[name].type}`);
				outputs[kind] = {dims: got[name].dims, data: Array.from(got[name].data)};
			}
			result.runs.push(outputs);
		}
	} catch (e) {
		delete result.runs;
		result.error = String(e?.message ?? e);
		// Whether a runtime takes the network at all is not for its head to say.
		try {
			const original = await ort.InferenceSession.create(await load("original"), options);
			await original.release();
		} catch (e) {
			result.original = false;
			result.error = String(e?.message ?? e);
		}
	}
	await session?.release();
	return result;
}
