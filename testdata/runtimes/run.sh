#!/bin/sh
# Exports models with mfgs, and shows that other runtimes compute with them what mfgs does in Go. By hand, not in CI: it needs Go,
# Python 3.11 or 3.12, Node 18 or newer with npm, Chromium, and the package registries for what it installs.
#
#     testdata/runtimes/run.sh [STAGE...]
#
# stages, all unless named:
#     install   the versions of onnxruntime that requirements*.txt and package-lock.json pin
#     build     mfgs
#     prepare   calibrates, exports and predicts; ONLY=REGEX restricts it to some models
#     check     onnx.checker and shape inference
#     python    onnxruntime for Python, three versions; the first without optimisations, too; and onnx's reference evaluator
#     node      onnxruntime-node
#     web       onnxruntime-web in a headless Chromium
#     compare   the table; fails if a difference is beyond its bound
#
# Everything goes to the folder $MFGS_RUNTIMES, 2 GB. Unless that is set it is a temporary one, removed at the end, and stages can
# not be run one by one. PYTHON, NODE, CHROMIUM and MFGS name other programs than python3, node, chromium and the mfgs of this tree.
set -eu
here=$(dirname "$(realpath "$0")")
if [ -z "${MFGS_RUNTIMES:-}" ]; then
	if [ $# -gt 0 ]; then
		echo "run.sh: set MFGS_RUNTIMES to the folder that the stages share, or name no stage" >&2
		exit 2
	fi
	MFGS_RUNTIMES=$(mktemp -d)
	trap 'rm -rf "$MFGS_RUNTIMES"' EXIT
fi
mkdir -p "$MFGS_RUNTIMES"
work=$(realpath "$MFGS_RUNTIMES")
mfgs=${MFGS:-$work/mfgs}
python=$work/python/bin/python
node=${NODE:-node}

stage() {
	echo "== $1"
	case $1 in
	install)
		for v in "" -1.20 -1.17; do
			"${PYTHON:-python3}" -m venv "$work/python$v"
			"$work/python$v/bin/pip" install -q -r "$here/requirements$v.txt"
		done
		mkdir -p "$work/node"
		cp "$here/package.json" "$here/package-lock.json" "$work/node"
		# The install script would fetch the GPU libraries; those for the CPU are in the package.
		(cd "$work/node" && npm ci --ignore-scripts --no-audit --no-fund)
		;;
	build) (cd "$here/../.." && go build -o "$work/mfgs" ./cmd/mfgs) && "$mfgs" setup ;;
	prepare)
		rm -rf "$work/cases" "$work/results"
		"$python" "$here/prepare.py" --mfgs "$mfgs" --work "$work" --only "${ONLY:-}"
		;;
	check) "$python" "$here/check.py" --work "$work" ;;
	python)
		for v in "" -1.20 -1.17; do
			"$work/python$v/bin/python" "$here/run_python.py" --work "$work"
		done
		"$python" "$here/run_python.py" --work "$work" --unoptimised
		"$python" "$here/run_python.py" --work "$work" --reference
		;;
	node) "$node" "$here/run_node.mjs" "$work" ;;
	web) "$node" "$here/run_web.mjs" "$work" "${CHROMIUM:-chromium}" ;;
	compare) "$python" "$here/compare.py" --work "$work" ;;
	*)
		echo "run.sh: there is no stage $1: want install, build, prepare, check, python, node, web or compare" >&2
		exit 2
		;;
	esac
}

[ $# -gt 0 ] || set -- install build prepare check python node web compare
if [ $# = 1 ]; then
	stage "$1"
	exit
fi
failed=
for s in "$@"; do
	# After one that fails the rest still run: the table shows where.
	MFGS_RUNTIMES=$work "$here/run.sh" "$s" || failed="$failed $s"
done
[ -z "$failed" ] || {
	echo "failed:$failed" >&2
	exit 1
}
