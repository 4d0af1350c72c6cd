"""Checks docs/serve/Dockerfile without Docker, and the servers of docs/kubernetes in the image.

The Dockerfile is executed: its build stage on an overlay of this machine's root in place of the image of Go, and its
last stage on the Debian packages of distroless/cc. The result is started as a node starts the containers of serve.yaml
and kserve.yaml: with their arguments, user, capabilities and mounts, a read-only root, a network with only loopback, and
the entry point as process 1. They must pass their probes, predict like `mfgs predict`, at SIGTERM answer requests while
they report not ready, and exit with status 0. They must not try to write a file.

Linux, as root, with Go, apt for bookworm, iproute2 and strace. Everything happens in separate namespaces and in a
temporary folder.

    pip install -r testdata/serve/image/requirements.txt
    make image
"""

import ctypes
import fnmatch
import gzip
import json
import os
import pathlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[3]
DOCKERFILE = ROOT / "docs" / "serve" / "Dockerfile"
# Of distroless/cc-debian12.
PACKAGES = "base-files netbase tzdata libc6 libssl3 gcc-12-base libgcc-s1 libgomp1 libstdc++6".split()
DEVICES = ("null", "zero", "random", "urandom")
CLONE_NEWNS, CLONE_NEWNET = 0x20000, 0x40000000
PR_CAPBSET_DROP, PR_SET_NO_NEW_PRIVS = 24, 38
libc = ctypes.CDLL(None, use_errno=True)


def fail(why):
    sys.exit(f"FAILED: {why}")


def call(*words, **options):
    return subprocess.run([str(w) for w in words], check=True, **options)


# The Dockerfile


def instructions():
    """The Dockerfile's instructions, as (word, rest), with the values of its arguments."""
    text = "\n".join(line for line in DOCKERFILE.read_text().splitlines() if not line.startswith("#"))
    arguments = {}
    for line in text.replace("\\\n", " ").splitlines():
        if not line.strip():
            continue
        word, rest = line.split(None, 1)
        if word == "ARG":
            name, value = rest.split("=", 1)
            arguments[name] = value
            continue
        if word != "RUN":
            rest = re.sub(r"\$\{(\w+)\}", lambda m: arguments[m[1]], rest)
        yield word, rest.strip()


def ignored(path):
    """Whether .dockerignore keeps a path out: the last pattern that fits it, or a folder of it."""
    out = False
    parts = path.split("/")
    for line in (ROOT / ".dockerignore").read_text().split("\n"):
        if not line or line.startswith("#"):
            continue
        pattern = line.removeprefix("!")
        anywhere = pattern.startswith("**/")
        for n in range(1, len(parts) + 1):
            start = range(n) if anywhere else [0]
            if any(len(parts[i:n]) == 1 + pattern.removeprefix("**/").count("/") and
                   fnmatch.fnmatchcase("/".join(parts[i:n]), pattern.removeprefix("**/")) for i in start):
                out = not line.startswith("!")
    return out


def make_context(folder):
    """What a builder is given."""
    listed = call("git", "-C", ROOT, "ls-files", "-zco", "--exclude-standard", stdout=subprocess.PIPE, text=True).stdout
    names = [n for n in listed.split("\0") if n and not ignored(n) and (ROOT / n).is_file()]
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / name)
    size = sum((folder / n).stat().st_size for n in names)
    places = sorted({n.split("/")[0] for n in names})
    print(f"context: {len(names)} files, {size / 2**20:.1f} MiB, in {', '.join(places)}")


def copy(words, source, root, workdir):
    *names, to = words
    target = root / (workdir + "/" + to if not to.startswith("/") else to).lstrip("/")
    for name in names:
        one = source / name.lstrip("/")
        if one.is_dir():  # its content, as Docker does
            shutil.copytree(one, target, dirs_exist_ok=True, symlinks=True)
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(one, target)


def build_base(scratch, name):
    """The root of the machine for the stage of Go, under an overlay; Debian's packages for the last one."""
    root = scratch / "root"
    if name.startswith("golang:"):
        layer = scratch / "overlay"
        layer.mkdir()
        call("mount", "-t", "tmpfs", "tmpfs", layer)
        root = layer / "root"
        for one in ("upper", "work", "root"):
            (layer / one).mkdir()
        call("mount", "-t", "overlay", "overlay", "-o", f"lowerdir=/,upperdir={layer}/upper,workdir={layer}/work", root)
        for one in ("/dev", "/proc", "/sys"):
            call("mount", "--rbind", one, root / one[1:])
        for variable in ("GOCACHE", "GOMODCACHE"):  # filled beyond this run
            cache = call("go", "env", variable, stdout=subprocess.PIPE, text=True).stdout.strip()
            os.makedirs(cache, exist_ok=True)
            os.makedirs(root / cache[1:], exist_ok=True)
            call("mount", "--bind", cache, root / cache[1:])
        return root
    if not name.startswith("gcr.io/distroless/cc-debian12:"):
        fail(f"this check does not know what {name} is made of")
    packages = scratch / "packages"
    packages.mkdir()
    call("apt-get", "download", "-qq", "-o", "APT::Sandbox::User=root", *PACKAGES, cwd=packages)
    for package in packages.glob("*.deb"):
        call("dpkg-deb", "-x", package, root)
    return root


def build(scratch):
    """Carries out the Dockerfile. Returns the root of the image, and what its configuration is."""
    context = scratch / "context"
    make_context(context)
    roots, image, workdir = {}, {"env": {}}, "/"
    for word, rest in instructions():
        words = shlex.split(rest)
        if word == "FROM":
            name = words[2] if words[1:2] == ["AS"] else ""
            (scratch / f"stage{len(roots)}").mkdir()
            root = roots[name] = build_base(scratch / f"stage{len(roots)}", words[0])
            image, workdir = {"env": {}}, "/"
        elif word == "WORKDIR":
            workdir = rest
            (root / rest[1:]).mkdir(parents=True)
        elif word == "COPY":
            source = context
            if words[0].startswith("--from="):
                source = roots[words.pop(0).removeprefix("--from=")]
            copy(words, source, root, workdir)
        elif word == "RUN":
            print("RUN", " ".join(words))
            call("chroot", root, "sh", "-ec", f"cd {workdir}; {rest}", stdout=subprocess.DEVNULL)
        elif word == "ENV":
            image["env"].update(w.split("=", 1) for w in words)
        elif word == "ENTRYPOINT":
            image["entrypoint"] = json.loads(rest)
        elif word == "USER":
            image["user"] = rest
        elif word not in ("LABEL", "EXPOSE"):
            fail(f"this check does not know {word}")
    return root, image


def check_image(root, image):
    if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", image["user"]):
        fail(f"USER {image['user']}: Kubernetes sees only of a number that it is not root")
    for name in ("sh", "bash", "dash", "busybox", "perl", "apt", "dpkg"):
        for folder in ("bin", "sbin", "usr/bin", "usr/sbin", "usr/local/bin"):
            if (root / folder / name).exists():
                fail(f"the image has {folder}/{name}")
    ours = sorted(str(p.relative_to(root)) for p in (root / "usr" / "local").rglob("*") if p.is_file())
    size = sum(p.lstat().st_size for p in root.rglob("*") if p.is_file() and not p.is_symlink())
    print(f"image: {size / 2**20:.0f} MiB, no shell; {', '.join(ours)}; USER {image['user']}")


# A node


def enter(root, user, group, *words):
    """Becomes a container's first process, as a runtime makes it."""
    call("mount", "-t", "proc", "proc", root + "/proc", "-o", "nosuid,nodev,noexec")
    os.chroot(root)
    os.chdir("/")
    for capability in range(64):
        libc.prctl(PR_CAPBSET_DROP, capability, 0, 0, 0)
    os.setgroups([])
    os.setgid(int(group))
    os.setuid(int(user))
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit("no_new_privs cannot be set")
    os.execve(words[0], list(words), dict(os.environ))


class Node:
    """The image's root as a container sees it, read-only, with volumes at their paths."""

    def __init__(self, scratch, root, image, volumes):
        self.image, self.root = image, scratch / "container"
        for path in ("proc", "dev", *(v.lstrip("/") for v in volumes)):
            (root / path).mkdir(parents=True, exist_ok=True)
        for device in DEVICES:
            (root / "dev" / device).touch()
        self.root.mkdir()
        call("mount", "--bind", root, self.root)
        call("mount", "-o", "remount,bind,ro", self.root)
        for device in DEVICES:
            call("mount", "--bind", f"/dev/{device}", self.root / "dev" / device)
        for path, folder in volumes.items():
            call("mount", "--bind", folder, self.root / path.lstrip("/"))
            call("mount", "-o", "remount,bind,ro", self.root / path.lstrip("/"))

    def start(self, arguments, trace=None):
        user, group = self.image["user"].split(":")
        words = [sys.executable, __file__, "enter", self.root, user, group, *self.image["entrypoint"], *arguments]
        if trace:
            words = ["strace", "-f", "-qq", "-o", trace, "-e", "trace=%file,memfd_create", *words]
        return subprocess.Popen(["unshare", "--mount", "--pid", "--fork", "--kill-child", *map(str, words)],
                                env={"PATH": "/usr/local/bin:/usr/bin:/bin", **self.image["env"]},
                                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def first_process(unshare):
    """The process that a container begins with, seen from here."""
    children = f"/proc/{unshare.pid}/task/{unshare.pid}/children"
    return int(pathlib.Path(children).read_text().split()[0])


def get(url, body=None):
    """The status of a request, and its answer."""
    kind = {"Content-Type": "application/json"} if body else {}
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, kind), timeout=5) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as e:
        return e.code, e.read()
    except OSError as e:
        return 0, str(e).encode()


def passes(container, probe):
    """Carries out a probe, as the kubelet does."""
    if "grpc" in probe:
        import grpc
        from grpc_health.v1 import health_pb2, health_pb2_grpc
        with grpc.insecure_channel(f"127.0.0.1:{probe['grpc']['port']}") as channel:
            try:
                answer = health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=1)
            except grpc.RpcError:
                return False
            return answer.status == health_pb2.HealthCheckResponse.SERVING
    port = probe["httpGet"]["port"]
    port = {p["name"]: p["containerPort"] for p in container.get("ports", [])}.get(port, port)
    return 200 <= get(f"http://127.0.0.1:{port}{probe['httpGet']['path']}")[0] < 400


def wait(what, condition, seconds):
    until = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > until:
            fail(f"no {what} after {seconds} s")
        time.sleep(0.05)


def seconds(container, flag):
    value, = (a.split("=")[1] for a in container["args"] if a.startswith(f"--{flag}="))
    return float(value.removesuffix("s"))


def predicted(root, image, bundle):
    """What the image's own program predicts of three digits, and their pixels."""
    digits = ROOT / "models" / "digits-mlp" / "digits-images-idx3-ubyte.gz"
    program = root / image["entrypoint"][0][1:]
    want = json.loads(call(program, "predict", "--bundle", bundle, "--json", f"{digits}[1500:1503]",
                           stdout=subprocess.PIPE).stdout)["predictions"]
    pixels = gzip.decompress(digits.read_bytes())
    data = [v / 255 for v in pixels[16 + 1500 * 64:16 + 1503 * 64]]
    return {"data": data, "want": want}


def infers(url, model, example):
    """Asks for the predictions, and compares."""
    metadata = json.loads(get(f"{url}/v2/models/{model}")[1])
    given = metadata["inputs"][0]
    image = {"name": given["name"], "shape": [3, *given["shape"][1:]], "datatype": "FP32", "data": example["data"]}
    request = {"id": "a", "inputs": [image]}
    status, body = get(f"{url}/v2/models/{model}/infer", json.dumps(request).encode())
    if status != 200:
        fail(f"an inference is answered with {status}: {body.decode()}")
    answer = json.loads(body)
    outputs = {o["name"]: o["data"] for o in answer["outputs"]}
    for name, key in ("probabilities", "probabilities"), ("ood_score", "ood_score"):
        want = [one[key] for one in example["want"]]
        want = sum(want, []) if name == "probabilities" else want
        if answer["id"] != "a" or len(want) != len(outputs[name]) or any(
                abs(a - b) > 1e-5 for a, b in zip(want, outputs[name])):  # float32, in another batch
            fail(f"{name} is {outputs[name]}, and mfgs predict says {want}")
    return outputs


def serve(node, name, model, container, grace, example):
    """Runs a container of a manifest from its start to its end."""
    container = {**container, "args": [a.replace("{{.Name}}", model) for a in container["args"]]}
    pod = node.start(container["args"])
    startup = container.get("startupProbe", container["readinessProbe"])
    wait(f"{name}: probe that passes", lambda: pod.poll() is not None or passes(container, startup), 60)
    if pod.poll() is not None:
        fail(f"{name} ended: {pod.stderr.read()}")
    for probe in ("readinessProbe", "livenessProbe"):
        if not passes(container, container[probe]):
            fail(f"{name}: the {probe} fails")
    url, = (f"http://127.0.0.1{a.split('=')[1]}" for a in container["args"] if a.startswith("--http="))
    infers(url, model, example)
    status = pathlib.Path(f"/proc/{first_process(pod)}/status").read_text()
    if not re.search(r"^CapEff:\t0+$", status, re.M) or not re.search(r"^NSpid:\t\d+\t1$", status, re.M):
        fail(f"{name}: not process 1, or with capabilities")
    memory = int(re.search(r"^VmHWM:\s+(\d+)", status, re.M)[1]) / 1024

    notice, drain = seconds(container, "notice"), seconds(container, "drain")
    if notice + drain >= grace:
        fail(f"{name}: --notice and --drain take {notice + drain} s, and the pod has {grace}")
    began = time.monotonic()
    os.kill(first_process(pod), signal.SIGTERM)
    wait(f"{name}: readiness that ends", lambda: not passes(container, container["readinessProbe"]), 2)
    while time.monotonic() - began < notice - 1:
        infers(url, model, example)
        if passes(container, container["readinessProbe"]):
            fail(f"{name} is ready again while it ends")
        time.sleep(0.2)
    log = pod.communicate(timeout=grace)[1]
    took = time.monotonic() - began
    if pod.returncode != 0 or took < notice:
        fail(f"{name} ended with status {pod.returncode} after {took:.1f} s: {log}")
    print(f"{name}: probes, predictions, {notice:.0f} s of notice, status 0 after {took:.1f} s; {memory:.0f} MiB")


WRITES = re.compile(r"O_WRONLY|O_RDWR|O_CREAT|O_TRUNC|memfd_create|\b(?:mkdir|unlink|rename|link|symlink|chmod|chown"
                    r"|truncate|mknod|utime\w*)(?:at2?)?\(")


def check_writes(scratch, node, example):
    """Traces what the server does with files."""
    trace = scratch / "trace"
    pod = node.start(["serve", "--bundle=digits=/parts/bundle", "--http=:8000", "--grpc=none", "--watch=100ms"], trace)
    ready = "http://127.0.0.1:8000/v2/health/ready"
    wait("ready server under strace", lambda: pod.poll() is not None or get(ready)[0] == 200, 120)
    if pod.poll() is not None:
        fail(f"the server ended: {pod.stderr.read()}")
    infers("http://127.0.0.1:8000", "digits", example)
    status, _ = get("http://127.0.0.1:8000/v2/repository/models/digits/load", b"{}")
    if status != 200:
        fail("a bundle is not loaded again under strace")
    tracer = first_process(pod)
    server, = pathlib.Path(f"/proc/{tracer}/task/{tracer}/children").read_text().split()
    os.kill(int(server), signal.SIGTERM)
    pod.wait(timeout=60)
    lines = trace.read_text().splitlines()
    ours = [k for k, line in enumerate(lines) if "execve(" in line and node.image["entrypoint"][0] in line]
    if not ours or pod.returncode != 0:
        fail(f"strace saw no server, or it ended with status {pod.returncode}")
    opened = lines[ours[-1]:]
    writing = [line for line in opened if WRITES.search(line) and '"/dev/null"' not in line]
    if writing:
        fail("the server tries to write:\n" + "\n".join(writing))
    print(f"strace: {len(opened)} calls that name files, none of which writes")


def main():
    import yaml
    if libc.unshare(CLONE_NEWNS) != 0:
        fail("a mount namespace is wanted: run this as root")
    call("mount", "--make-rprivate", "/")
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        try:
            root, image = build(scratch)
            check_image(root, image)
            parts = scratch / "parts"
            parts.mkdir()
            digits = f"{ROOT}/models/digits-mlp/digits-images-idx3-ubyte.gz"
            call(root / image["entrypoint"][0][1:], "calibrate", "--model", ROOT / "models/digits-mlp/model.onnx",
                 "--train", digits + "[0:1200]", "--val", digits + "[1200:1500]", "--out", parts / "bundle",
                 stdout=subprocess.DEVNULL)
            example = predicted(root, image, parts / "bundle")
            node = Node(scratch, root, image, {"/parts": parts, "/mnt/models": parts / "bundle"})
            # From here on there is nothing but loopback.
            if libc.unshare(CLONE_NEWNET) != 0:
                fail("a network namespace is wanted: run this as root")
            call("ip", "link", "set", "lo", "up")
            check_writes(scratch, node, example)
            manifests = ROOT / "docs" / "kubernetes"
            deployment = next(yaml.safe_load_all((manifests / "serve.yaml").read_text()))
            pod = deployment["spec"]["template"]["spec"]
            user = pod["securityContext"]
            if f"{user['runAsUser']}:{user['runAsGroup']}" != image["user"]:
                fail("serve.yaml and the image have different users")
            serve(node, "serve.yaml", "digits", pod["containers"][0], pod["terminationGracePeriodSeconds"], example)
            runtime, service = yaml.safe_load_all((manifests / "kserve.yaml").read_text())
            container, = runtime["spec"]["containers"]
            default_grace = 30  # of a pod
            serve(node, "kserve.yaml", service["metadata"]["name"], container, default_grace, example)
        finally:
            mounts = [line.split()[1] for line in pathlib.Path("/proc/self/mounts").read_text().splitlines()]
            for mount in reversed([m for m in mounts if m.startswith(str(scratch))]):
                subprocess.run(["umount", "-l", mount])


if __name__ == "__main__":
    if sys.argv[1:2] == ["enter"]:
        enter(*sys.argv[2:])
    main()
