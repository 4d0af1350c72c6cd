#!/bin/sh
# Measures mfgs on a tagger, step by step, and writes docs/evidence/steps.md. Everything else goes into the folder
# $MFGS_STEPS.
set -eu
cd "$(dirname "$0")"
work=${MFGS_STEPS:-${XDG_CACHE_HOME:-$HOME/.cache}/mfgs-steps}
mkdir -p "$work"
[ -x "$work/venv/bin/pip" ] || /usr/bin/python3 -m venv --system-site-packages "$work/venv"
"$work/venv/bin/pip" install -q --disable-pip-version-check -r requirements.txt
(cd ../.. && go build -buildvcs=true -o "$work/mfgs" ./cmd/mfgs)
[ -f "$work/tagger.onnx" ] || "$work/venv/bin/python" model.py --work "$work"
"$work/venv/bin/python" check.py --work "$work"
