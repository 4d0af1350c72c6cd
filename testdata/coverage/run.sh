#!/bin/sh
# Exports all models, checks them with the mfgs given as the first argument, and writes docs/coverage.md. The README
# describes the environments pt, tr, tf, jx and pd.
set -eu
mfgs=$(realpath "$1")
cd "$(dirname "$0")"
for script in export_torch export_sklearn export_pipelines export_odd export_vendors; do
	pt/bin/python "$script.py"
done
tr/bin/python export_trees.py
tf/bin/python export_keras.py
jx/bin/python export_jax.py
pd/bin/python export_paddle.py
pt/bin/python convert.py
pt/bin/python check.py --mfgs "$mfgs" --again all
pt/bin/python table.py
