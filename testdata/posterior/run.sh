#!/bin/sh
# Runs the libraries and mfgs on the same posteriors, and writes docs/evidence/posterior.md and, for tests without Python,
# small posteriors with the libraries' variances into calibrate/external/testdata. Everything else goes into the folder
# $MFGS_POSTERIOR. Takes three minutes, and 6 GB of disk for PyTorch.
set -eu
cd "$(dirname "$0")"
work=${MFGS_POSTERIOR:-${XDG_CACHE_HOME:-$HOME/.cache}/mfgs-posterior}
golden=../../calibrate/external/testdata
mkdir -p "$work" "$golden"
[ -x "$work/venv/bin/pip" ] || python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check setuptools==80.9.0
"$work/venv/bin/pip" install -q --disable-pip-version-check --no-build-isolation -r requirements.txt
(cd ../.. && go build -buildvcs=true -o "$work/mfgs" ./cmd/mfgs)
for script in laplace_torch vbll sngp; do
	"$work/venv/bin/python" -W ignore "$script.py" --mfgs "$work/mfgs" --work "$work/$script" >"$work/$script.jsonl"
	"$work/venv/bin/python" -W ignore "$script.py" --mfgs "$work/mfgs" --work "$work/$script" \
		--features 4 --classes 3 --golden "$golden"
done
"$work/venv/bin/python" page.py --work "$work"
