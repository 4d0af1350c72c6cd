#!/usr/bin/env bash
# Runs the README's commands up to make demo, the ```sh blocks of docs/tutorials/images.md, and those of the README with
# the model and images that the tutorial made, as somebody with a fresh clone and an empty HOME would: no caches, and nothing but what PATH has. Prints how long each command took. From
# anywhere:
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

# first FILE: the indented commands from git clone to make demo, one per line.
first() {
	sed -n '/^    git clone /,/^    make demo/s/^    //p' "$tree/$1"
}

# blocks FILE: the commands of its ```sh blocks, one per line.
blocks() {
	awk '/^```sh$/ {on=1; next} /^```$/ {on=0} on' "$tree/$1" | sed -e ':a' -e '/\\$/{N;s/\\\n *//;ba' -e '}'
}

# timed COMMANDS FILE: a script that runs them and prints what they took.
timed() {
	echo 'all=$SECONDS count=0'
	while IFS= read -r line; do
		printf 'begun=$SECONDS; printf "%%s\n" %q\n%s\necho "    $((SECONDS - begun)) s"; count=$((count + 1))\n' "\$ $line" "$line"
	done < <("$1" "$2")
	echo "echo \"== $2: \$count commands, \$((SECONDS - all)) s\"; [ \$count -gt 1 ]"
}

{
	printf 'set -euo pipefail\nmkdir %q/readme %q/images\ncd %q/readme\n' "$work" "$work" "$work"
	timed first README.md
	printf 'cd %q/images\n' "$work"
	timed blocks docs/tutorials/images.md
	printf 'mkdir mine; ln -s %q/images/mfgs/try/resnet50.onnx mine/model.onnx\n' "$work"
	printf 'ln -s %q/images/mfgs/try/pictures/{train,val,test} mine; cd mine\n' "$work"
	timed blocks README.md
	echo 'ls -l ../try/*.html ../try/*.onnx *.html'
} >"$work/all.sh"

unset GOPATH GOMODCACHE GOCACHE GOENV XDG_CACHE_HOME XDG_CONFIG_HOME XDG_DATA_HOME
unset ONNXRUNTIME_SHARED_LIBRARY_PATH MFGS_NO_INSTALL
export HOME=$work/home GOFLAGS=-modcacherw
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.$tree.insteadOf" GIT_CONFIG_VALUE_0=https://github.com/mfgs/mfgs
bash "$work/all.sh" </dev/null
