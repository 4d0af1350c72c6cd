"""Checks the files of docs/kubernetes.

All files are validated against the published schemas, strictly: unknown fields are errors. Pods must meet
Kubernetes' restricted standard. Then the commands of the Jobs run, one process per pod: merge first, the shards in random
order, some killed with SIGKILL and restarted. The result must be byte for byte the bundle of an undisturbed run. It runs
the mfgs on PATH. testdata/serve/image runs the servers' commands.

    pip install -r testdata/kubernetes/requirements.txt
    make jobs
"""

import filecmp
import json
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile

import jsonschema
import kubernetes_validate
import yaml

ROOT = pathlib.Path(__file__).resolve().parents[2]
JOBS = ROOT / "docs" / "kubernetes"
VERSIONS = ["1.31", "1.33", "1.35", "1.37"]
# Modules of Go, and their files that define resources.
CUSTOM = {
    "github.com/kserve/kserve@v0.20.0": [
        "config/crd/full/serving.kserve.io_servingruntimes.yaml",
        "config/crd/full/serving.kserve.io_inferenceservices.yaml",
    ],
    "github.com/prometheus-operator/prometheus-operator@v0.85.0": [
        "example/prometheus-operator-crd/monitoring.coreos.com_podmonitors.yaml",
    ],
}
SHARDS = 3


def jobs():
    return {name: yaml.safe_load((JOBS / f"{name}.yaml").read_text()) for name in ("parts", "merge")}


def fits(job, version):
    try:
        kubernetes_validate.validate(job, version, strict=True)
    except kubernetes_validate.ValidationError as e:
        return str(e)
    return None


def strict(schema):
    """A schema of a custom resource as Kubernetes reads it, without additional fields."""
    if isinstance(schema, list):
        return [strict(s) for s in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("x-kubernetes-int-or-string"):
        return {"type": ["integer", "string"]}
    if "properties" not in schema:
        return {k: strict(v) for k, v in schema.items() if k != "format"}
    whole = {k: strict(v) for k, v in schema.items() if k not in ("properties", "format")}
    whole["properties"] = {k: strict(v) for k, v in schema["properties"].items()}
    if not schema.get("x-kubernetes-preserve-unknown-fields"):
        whole.setdefault("additionalProperties", False)
    return whole


def custom_schemas(scratch):
    """The schemas of custom resources: (apiVersion, kind) to schema."""
    schemas = {}
    for module, names in CUSTOM.items():
        fetched = subprocess.run(["go", "mod", "download", "-json", module], cwd=scratch, stdout=subprocess.PIPE,
                                 env={**os.environ, "GOMODCACHE": f"{scratch}/modules", "GOFLAGS": "-modcacherw"})
        if fetched.returncode != 0:
            sys.exit(f"{module} cannot be had: {json.loads(fetched.stdout)['Error']}")
        for name in names:
            with open(pathlib.Path(json.loads(fetched.stdout)["Dir"]) / name) as f:
                spec = yaml.load(f, getattr(yaml, "CSafeLoader", yaml.SafeLoader))["spec"]
            for version in spec["versions"]:
                schema = strict(version["schema"]["openAPIV3Schema"])
                schema["properties"]["metadata"] = {"type": "object"}
                schemas[f"{spec['group']}/{version['name']}", spec["names"]["kind"]] = schema
    return schemas


def restricted(name, pod):
    """Fails if a pod violates the Pod Security Standard "restricted"."""
    allowed = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "persistentVolumeClaim", "projected",
               "secret"}
    of_pod = pod.get("securityContext", {})
    volumes = {v["name"]: set(v) - {"name"} for v in pod.get("volumes", [])}
    rules = {"a host's namespace": any(pod.get(h) for h in ("hostNetwork", "hostPID", "hostIPC")),
             "a volume of the node": any(not kinds <= allowed for kinds in volumes.values())}
    for c in pod.get("initContainers", []) + pod["containers"]:
        secure = {**of_pod, **c["securityContext"]}
        rules |= {
            "privilege": secure.get("privileged") or secure.get("allowPrivilegeEscalation") is not False,
            "root": secure.get("runAsNonRoot") is not True or secure.get("runAsUser") == 0,
            "no seccomp profile": secure.get("seccompProfile", {}).get("type") not in ("RuntimeDefault", "Localhost"),
            "capabilities": secure.get("capabilities") != {"drop": ["ALL"]},
            "a root that can be written": secure.get("readOnlyRootFilesystem") is not True,  # our own rule
            "no limit of memory": "memory" not in c["resources"].get("limits", {}),  # and this
            "a port of the node": any("hostPort" in p for p in c.get("ports", [])),
            "a mount of no volume": any(m["name"] not in volumes for m in c.get("volumeMounts", [])),
        }
        if broken := [rule for rule, is_broken in rules.items() if is_broken]:
            sys.exit(f"{name}: {c['name']} has {', '.join(broken)}")


MAPS = {"labels", "matchLabels", "annotations", "requests", "limits"}  # of any keys


def objects(part):
    """All objects in a part of a document, including itself."""
    if isinstance(part, dict):
        yield part
        part = [v for k, v in part.items() if k not in MAPS]
    if isinstance(part, list):
        for one in part:
            yield from objects(one)


def check_schemas(scratch):
    custom = custom_schemas(scratch)
    for path in sorted(JOBS.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            # YAML's anchors share objects.
            document = json.loads(json.dumps(document))
            name = f"{path.name}: {document['kind']}"
            schema = custom.get((document["apiVersion"], document["kind"]))

            def problem(versions):
                if schema:
                    errors = jsonschema.Draft202012Validator(schema).iter_errors(document)
                    return next((e.message for e in errors), None)
                return next((p for v in versions if (p := fits(document, v))), None)

            if found := problem(VERSIONS):
                sys.exit(f"{name} does not fit its schema: {found}")
            tried = 0
            for one in objects(document["spec"]):
                one["noSuchField"] = 1
                if not problem(VERSIONS[-1:]):
                    sys.exit(f"{name}: a field that does not exist passes in {one}: the check checks nothing")
                del one["noSuchField"]
                tried += 1
            if pod := document["spec"].get("template", {}).get("spec"):
                restricted(name, pod)
            elif document["kind"] == "ServingRuntime":
                restricted(name, document["spec"])
            print(f"{name} fits, and with a field too much in any of {tried} places does not")


def start(container, volumes, index=None):
    """Starts a container's command as a process, with its volumes in a folder."""
    words = list(container["command"])
    for path in ("/data", "/parts"):
        words[-1] = words[-1].replace(path + "/", f"{volumes}{path}/")
    # Data in the example, and here.
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
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        check_schemas(scratch)
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
