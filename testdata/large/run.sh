#!/bin/sh
# Inspects, calibrates, predicts with and exports a model of 2.5 GiB, and says what time and memory it took. By hand, not in CI: it needs
# Python with onnx and numpy, GNU time, 5 GiB of memory, and 2.5 GiB of disk for a copy of the model at a time. The model itself
# takes none, as its weights are holes in a file.
#
#     testdata/large/run.sh MFGS [PYTHON [FOLDER]]
#
# "Go heap" is the largest that the garbage collector has seen: what mfgs itself holds. The rest of the memory is ONNX Runtime's,
# which has the weights. Fails if a command fails, if the heap reaches a tenth of the weights, or if the bundle's copy of the model
# predicts anything else than the model.
set -eu
mfgs=$(realpath "$1")
python=${2:-python3}
folder=${3:-$(mktemp -d)}
here=$(dirname "$(realpath "$0")")
"$python" "$here/make.py" "$folder"
cd "$folder"
rm -rf bundle whole fused*
trap 'rm -rf whole fused*' EXIT

measured() {
	echo "== mfgs $*"
	GODEBUG=gctrace=1 /usr/bin/time -f '%e s, %M KiB in all' -o time.txt "$mfgs" "$@" >out.txt 2>err.txt || { grep -v '^gc ' err.txt >&2; exit 1; }
	# gctrace: gc 1 @0.1s 0%: … 4->5->2 MB, …
	heap=$(sed -n 's/^gc .* [0-9]*->\([0-9]*\)->[0-9]* MB.*/\1/p' err.txt | sort -n | tail -1)
	echo "$(cat time.txt), Go heap ${heap:-below 4} MiB"
	[ "${heap:-0}" -lt 250 ]
}

measured inspect big.onnx
measured calibrate --model big.onnx --train train.npz --val val.npz --no-model --out bundle
measured predict --bundle bundle --model big.onnx --json val.npz
mv out.txt want.txt
measured export --bundle bundle --model big.onnx --out fused.onnx
ls -l fused.onnx fused.onnx.data
rm fused*
measured export --bundle bundle --model big.onnx --triton fused --name big
ls -l fused/big/1/model.onnx/model.onnx fused/big/1/model.onnx/model.onnx.data
rm -r fused
measured calibrate --model big.onnx --train train.npz --val val.npz --out whole
ls -l whole
measured predict --bundle whole --json val.npz
cmp out.txt want.txt
measured predict --bundle whole --model whole/model.onnx --json val.npz
cmp out.txt want.txt
