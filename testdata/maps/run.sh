#!/bin/sh
# Measures mfgs on a U-Net, and writes docs/evidence/maps.md. Everything else goes into the folder $MFGS_MAPS; a run that
# was interrupted continues from what is there.
set -eu
cd "$(dirname "$0")"
work=${MFGS_MAPS:-${XDG_CACHE_HOME:-$HOME/.cache}/mfgs-maps}
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || python3.11 -m venv "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
[ -x "$work/mfgs" ] || (cd ../.. && go build -buildvcs=true -o "$work/mfgs" ./cmd/mfgs)
export OMP_NUM_THREADS=${OMP_NUM_THREADS:-2} OPENBLAS_NUM_THREADS=1
"$work/venv/bin/python" draw.py --work "$work"
"${MFGS_TORCH:-/usr/bin/python3}" train.py --work "$work" # with PyTorch 1.13, as of Debian 12's python3-torch
for script in check.py page.py; do
	"$work/venv/bin/python" "$script" --work "$work"
done
