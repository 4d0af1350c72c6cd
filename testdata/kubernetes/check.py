"""Checks the Jobs in docs/kubernetes.

Both files are held against the published schemas, strictly: a field that no schema has is an
error. Then their commands run as the Jobs would have them, a process a pod: merge first, the
shards in random order, some killed with SIGKILL and started again. What comes out must be, byte
for byte, the bundle of shards that nobody killed. It runs the mfgs on PATH.

    pip install -r testdata/kubernetes/requirements.txt
    make jobs
"""

import copy
import filecmp
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "docs" / "kubernetes"
VERSIONS = ["1.31", "1.33", "1.35", "1.37"]
SHARDS = 3


def jobs():
    return {name: yaml.safe_load((JOBS / f"{name}.yaml").read_text()) for name in ("parts", "merge")}


def fits(job, version):
    try:
        kubernetes_validate.validate(job, version, strict=True)
    except kubernetes_validate.ValidationError as e:
        return str(e)
    return None


def check_schemas():
    for name, job in jobs().items():
        for version in VERSIONS:
            if problem := fits(job, version):
                sys.exit(f"{name}.yaml does not fit Kubernetes {version}: {problem}")
        wrong = copy.deepcopy(job)
        wrong["spec"]["template"]["spec"]["restartPolicyy"] = "Never"
        if not fits(wrong, VERSIONS[-1]):
            sys.exit("a field that does not exist passes: the check checks nothing")
        pod = job["spec"]["template"]["spec"]
        for container in pod.get("initContainers", []) + pod["containers"]:
            secure = container["securityContext"]
            if not secure["readOnlyRootFilesystem"] or secure["allowPrivilegeEscalation"] or "limits" not in container["resources"]:
                sys.exit(f"{name}.yaml: {container['name']} is not confined")
            for mount in container["volumeMounts"]:
                if mount["name"] not in {v["name"] for v in pod["volumes"]}:
                    sys.exit(f"{name}.yaml: {container['name']} mounts {mount['name']}, which is no volume")
    print(f"parts.yaml and merge.yaml fit Kubernetes {', '.join(VERSIONS)}")


def start(container, volumes, index=None):
    """Starts a container's command as a process, its volumes in a folder."""
    words = list(container["command"])
    for path in ("/data", "/parts"):
        words[-1] = words[-1].replace(path + "/", f"{volumes}{path}/")
    # What the example calls its data, and what there is here.
    digits = f"{ROOT}/models/digits-mlp/digits-images-idx3-ubyte.gz"
    for example, here in {
        f"'{volumes}/data/train-{{0000..1023}}.tar'": f"'{digits}[0:1200]'",
        f"'{volumes}/data/val-{{0000..0049}}.tar'": f"'{digits}[1200:1500]'",
        "--preprocess imagenet": "",
        "--threads 4": "--threads 1",
    }.items():
        if index is not None and example not in words[-1]:
            sys.exit(f"the command no longer has {example}: adapt this check")
        words[-1] = words[-1].replace(example, here)
    env = {**os.environ, **{e["name"]: str(SHARDS) for e in container["env"]}}
    if index is not None:
        env["JOB_COMPLETION_INDEX"] = str(index)
    return subprocess.Popen(words, env=env, stdout=subprocess.DEVNULL, start_new_session=True)


def run(volumes, kill):
    (volumes / "data").mkdir(parents=True)
    (volumes / "parts").mkdir()
    shutil.copy(ROOT / "models" / "digits-mlp" / "model.onnx", volumes / "data")
    parts = jobs()["parts"]["spec"]["template"]["spec"]["containers"][0]
    merge = jobs()["merge"]["spec"]["template"]["spec"]
    wait = start(merge["initContainers"][0], volumes)
    killed = 0
    for index in random.sample(range(SHARDS), SHARDS):
        while True:
            pod = start(parts, volumes, index)
            try:
                status = pod.wait(timeout=random.uniform(0, 0.4) if kill and killed < 10 else None)
            except subprocess.TimeoutExpired:
                os.killpg(pod.pid, signal.SIGKILL)
                killed += 1
                pod.wait()
                continue
            if status != 0:
                sys.exit(f"the pod of index {index} ended with status {status}")
            if not kill or start(parts, volumes, index).wait() == 0:  # a second pod of a finished index
                break
            sys.exit("a second pod of a finished index fails")
    if wait.wait(timeout=60) != 0:
        sys.exit("the init container of the merge fails")
    for _ in range(1 + kill):
        if start(merge["containers"][0], volumes).wait() != 0:
            sys.exit("the merge fails")
    return killed


def main():
    check_schemas()
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        run(scratch / "calm", kill=False)
        killed = run(scratch / "killed", kill=True)
        a, b = scratch / "calm" / "parts" / "bundle", scratch / "killed" / "parts" / "bundle"
        names = sorted(os.listdir(a))
        same, different, missing = filecmp.cmpfiles(a, b, names, shallow=False)
        if different or missing or sorted(os.listdir(b)) != names:
            sys.exit(f"{killed} pods killed, and these differ: {different + missing}")
        print(f"{SHARDS} shards, {killed} pods killed: the same bytes in {', '.join(same)}")


if __name__ == "__main__":
    main()
