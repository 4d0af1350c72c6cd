#!/bin/sh
# Runs exported models in many engines, and compares with what mfgs computes in Go: docs/engines.md. By hand, not in CI.
#
#     testdata/engines/run.sh [STAGE...]
#
# stages, all unless named:
#     install   the engines: requirements*.txt, package-lock.json and rust/Cargo.lock pin them
#     build     mfgs
#     prepare   networks, exports, inputs and predictions; ONLY=REGEX restricts this and run to some networks
#     run       all engines on all networks; ENGINES names some of them
#     compare   docs/engines.json and docs/engines.md
#     models    of hundreds of small models all kinds of exports, in ONNX Runtime and the reference evaluator
#
# Everything goes to the folder $MFGS_ENGINES, 30 GB, where prepare and install find what is there already. Unless that is set it is a temporary
# one, removed at the end. PYTHON311, PYTHON312, NODE, CHROMIUM, CARGO and MFGS name other programs than python3.11, python3.12, node, chromium,
# cargo and the mfgs of this tree. PROTOC names the compiler of Protocol Buffers that Candle is built with. Needs ../shared/data.
set -eu
here=$(dirname "$(realpath "$0")")
root=$(realpath "$here/../..")
if [ -z "${MFGS_ENGINES:-}" ]; then
	MFGS_ENGINES=$(mktemp -d)
	trap 'rm -rf "$MFGS_ENGINES"' EXIT
fi
mkdir -p "$MFGS_ENGINES"
work=$(realpath "$MFGS_ENGINES")
mfgs=${MFGS:-$work/mfgs}
python=$work/venv/main/bin/python
node=${NODE:-node}
old="1.17.3 1.18.1 1.20.1 1.22.1 1.24.4 1.27.0" # of ONNX Runtime

# environment NAME PYTHON WORDS...: a Python environment with the packages that pip is given.
environment() {
	at=$work/venv/$1
	[ -e "$at/complete" ] && return
	"$2" -m venv --clear "$at"
	shift 2
	(cd "$here" && "$at/bin/python" -m pip install -q "$@")
	touch "$at/complete"
}

# of ENGINE: the environment that has it.
of() {
	case $1 in
	ort-1.*) for v in $old; do case $v in "${1#ort-}".*) echo "ort-$v" ;; esac; done ;;
	litert | jax | iree | tinygrad | tvm) echo "$1" ;;
	onnx2torch) echo torch ;;
	*) echo main ;;
	esac
}

# run ENGINE FOLDER WORDS...: an engine on the cases of a folder.
run() {
	engine=$1 folder=$2 seconds=2
	shift 2
	[ "$*" = --here ] && seconds=0
	case $engine in
	node | wasm | webgpu) "$node" "$here/run.mjs" "$folder" "$engine" "${ONLY:-}" "$seconds" ;;
	rten | candle) "$work/rust/release/engines" "$folder" "$engine" "${ONLY:-}" "$seconds" ;;
	*) "$work/venv/$(of "$engine")/bin/python" "$here/run.py" --work "$folder" --engine "$engine" --only "${ONLY:-}" "$@" ;;
	esac
}

stage() {
	echo "== $1"
	case $1 in
	install)
		p11=${PYTHON311:-python3.11} p12=${PYTHON312:-python3.12}
		environment main "$p12" -r requirements.txt
		environment torch "$p11" -r requirements-torch.txt
		environment litert "$p11" --no-deps -r requirements-litert.txt
		for e in jax iree tinygrad tvm; do environment $e "$p12" -r requirements-$e.txt; done
		for v in $old; do
			case $v in 1.17.* | 1.18.*) numpy=1.26.4 ;; *) numpy=2.5.5 ;; esac
			environment "ort-$v" "$p12" "onnxruntime==$v" "numpy==$numpy"
		done
		mkdir -p "$work/node"
		cp "$here/package.json" "$here/package-lock.json" "$work/node"
		# The install script would fetch the GPU libraries; those for the CPU are in the package.
		(cd "$work/node" && npm ci --ignore-scripts --no-audit --no-fund)
		(cd "$here/rust" && "${CARGO:-cargo}" build --release --locked --target-dir "$work/rust")
		;;
	build) (cd "$root" && go build -o "$work/mfgs" ./cmd/mfgs) && "$mfgs" setup ;;
	prepare) "$work/venv/torch/bin/python" "$here/prepare.py" --mfgs "$mfgs" --data "$root/../shared/data" --work "$work" --only "${ONLY:-}" ;;
	run)
		for e in ${ENGINES:-ort ort-extended ort-basic ort-none ort-1.27 ort-1.24 ort-1.22 ort-1.20 ort-1.18 ort-1.17 node wasm webgpu \
			openvino opencv tract rten candle mnn litert ncnn tvm iree tinygrad onnx2torch jax reference}; do
			run "$e" "$work" || echo "$e failed"
		done
		;;
	compare) "$python" "$here/compare.py" --work "$work" ;;
	models)
		models=$work/models
		mkdir -p "$models"
		ln -sfn "$work/node" "$models/node"
		"$python" "$here/models.py" --mfgs "$mfgs" --work "$models" --only "${ONLY:-}"
		"$python" "$here/check.py" --work "$models"
		for e in ${ENGINES:-ort ort-none ort-1.20 ort-1.17 reference node wasm}; do ONLY='' run "$e" "$models" --here; done
		"$python" "$here/compare.py" --work "$models" --models
		;;
	*)
		echo "run.sh: there is no stage $1: want install, build, prepare, run, compare or models" >&2
		exit 2
		;;
	esac
}

[ $# -gt 0 ] || set -- install build prepare run compare models
for s in "$@"; do stage "$s"; done
