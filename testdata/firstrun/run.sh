#!/usr/bin/env bash
# Runs what the README says to copy, each ```sh block in order, and then those of docs/tutorials/resnet50.md, as somebody
# with a fresh clone and an empty HOME would: no caches, and nothing but what PATH has. Says how long each command
# took. From anywhere:
#
#     testdata/firstrun/run.sh [FOLDER]    keeps what is made in FOLDER, which must not be there
#
# The clone is of this tree's last commit. Go modules and ONNX Runtime are downloaded.
set -euo pipefail
tree=$(cd "$(dirname "$0")/../.." && pwd)
work=${1:-$(mktemp -u)}
mkdir "$work"
work=$(cd "$work" && pwd)
if [ $# = 0 ]; then trap 'chmod -R u+w "$work" && rm -rf "$work"' EXIT; fi
mkdir "$work/home"

# blocks FILE: its commands, one a line.
blocks() {
	awk '/^```sh$/ {on=1; next} /^```$/ {on=0} on' "$tree/$1" | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}'
}

# timed FILE: a script that runs them and says what they took.
timed() {
	echo 'all=$SECONDS count=0'
	while IFS= read -r line; do
		printf 'begun=$SECONDS; printf "%%s\n" %q\n%s\necho "    $((SECONDS - begun)) s"; count=$((count + 1))\n' "\$ $line" "$line"
	done < <(blocks "$1")
	echo "echo \"== $1: \$count commands, \$((SECONDS - all)) s\"; [ \$count -gt 1 ]"
}

case $(blocks README.md) in
"git clone "*) ;;
*) echo "firstrun: the README's first block of commands does not begin with git clone" >&2; exit 1 ;;
esac

{
	printf 'set -euo pipefail\ncd %q\n' "$work"
	timed README.md
	timed docs/tutorials/resnet50.md
	echo 'ls -l try/*.html try/*.onnx'
} >"$work/all.sh"

unset GOPATH GOMODCACHE GOCACHE GOENV XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
unset ONNXRUNTIME_SHARED_LIBRARY_PATH MFGS_NO_INSTALL
export HOME=$work/home GOFLAGS=-modcacherw
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.$tree.insteadOf" GIT_CONFIG_VALUE_0=https://github.com/mfgs/mfgs
bash "$work/all.sh" </dev/null
