"""Drives bash, zsh and fish at a terminal and tests the completion of mfgs's command lines.

    python3 check.py MFGS [SHELL=PATH...] [mandoc=PATH]

Shells that are not named are found in PATH. Each line below is typed, with its TABs, into an interactive shell in which
a fake mfgs prints its arguments; the completions are those of MFGS. Then mandoc, if installed, must find nothing
wrong with the manual page. Python 3.9 or newer, on Linux; no packages.
"""
import os
import pty
import re
import select
import shutil
import subprocess
import sys
import tempfile
import time

# What is typed, and the resulting arguments.
LINES = [
    ("mfgs cal\t", ["calibrate"]),
    ("mfgs calibrate --cov\tsan\t", ["calibrate", "--covariance", "sandwich"]),
    ("mfgs calibrate --structure=kr\t", ["calibrate", "--structure=kron"]),
    ("mfgs calibrate --train data/tr\t", ["calibrate", "--train", "data/train.tar"]),
    ("mfgs calibrate --train=data/tr\t", ["calibrate", "--train=data/train.tar"]),
    ("mfgs calibrate --train tar:data/tr\t", ["calibrate", "--train", "tar:data/train.tar"]),
    ("mfgs calibrate --train=tar:data/tr\t", ["calibrate", "--train=tar:data/train.tar"]),
    ("mfgs calibrate --preprocess imagenet-p\t", ["calibrate", "--preprocess", "imagenet-pixels"]),
    ("mfgs calibrate --out fold\t", ["calibrate", "--out", "folder"]),
    ("mfgs eval --meth\tstud\t", ["eval", "--methods", "studentized"]),
    ("mfgs predict --prov\tcu\t", ["predict", "--provider", "cuda"]),
    ("mfgs predict --bundle folder sp\t", ["predict", "--bundle", "folder", "spa ce.png"]),
    ("mfgs help pred\t", ["help", "predict"]),
    ("mfgs completion zs\t", ["completion", "zsh"]),
]

# Fish gets all flags in advance: it knows no format in front of a path.
BEYOND = {"fish": {"mfgs calibrate --train tar:data/tr\t", "mfgs calibrate --train=tar:data/tr\t"}}

# What each shell is started with, and what has it complete mfgs.
SHELLS = {
    "bash": (["--norc", "--noprofile", "-i"], "source <(mfgs completion bash)"),
    "zsh": (["-o", "NO_GLOBAL_RCS", "-i"], "autoload -U compinit && compinit -D -u && source <(mfgs completion zsh)"),
    "fish": (["--no-config", "-i"], "mfgs completion fish | source"),
}


def lines(shell):
    """What is typed into a shell."""
    return [(line, want) for line, want in LINES if line not in BEYOND.get(shell, ())]


def unpacked(path):
    """The folder that a shell was unpacked to, "" where it was installed."""
    root = os.path.dirname(os.path.dirname(os.path.realpath(path)))
    root = root.removesuffix("/usr")
    return root if root.strip("/") else ""


def settle(shell, path, work):
    """Tells a shell that was unpacked and not installed where the rest of it lies."""
    root = unpacked(path)
    if shell == "zsh":
        with open(os.path.join(work, ".zshenv"), "w") as f:
            for name, top, is_one in [
                ("module_path", "usr/lib", lambda d: os.path.exists(os.path.join(d, "zsh/parameter.so"))),
                ("fpath", "usr/share/zsh/functions", os.path.isdir),
            ]:
                found = [d for d, _, _ in os.walk(os.path.join(root, top)) if is_one(d)]
                if root:
                    f.write(f"{name}=({' '.join(found)})\n")
    if shell == "fish" and root:
        return ["-C", f"set fish_function_path {root}/usr/share/fish/functions"]
    return []


def environment(path):
    root = unpacked(path)
    return {"LD_LIBRARY_PATH": root + "/usr/lib/x86_64-linux-gnu"} if root else {}


def read_until(terminal, wanted, seconds):
    """Reads what a terminal shows until a text has come, and a little longer."""
    shown, end = b"", time.time() + seconds
    while time.time() < end:
        ready, _, _ = select.select([terminal], [], [], 0.1)
        if ready:
            try:
                shown += os.read(terminal, 65536)
            except OSError:
                break
            # Shells ask terminals what they are; without an answer fish waits.
            if b"\x1b[c" in shown or b"\x1b[0c" in shown:
                os.write(terminal, b"\x1b[?62c")
                shown = shown.replace(b"\x1b[c", b"").replace(b"\x1b[0c", b"")
        elif wanted in shown:
            break
    return shown.decode(errors="replace")


def drive(shell, path, mfgs, work):
    """Returns what was wrong with each of LINES."""
    os.makedirs(os.path.join(work, "bin"))
    with open(os.path.join(work, "bin/mfgs"), "w") as f:
        f.write(f"""#!/bin/sh
for last; do :; done
[ "$last" = --generate-bash-completion ] && exec {mfgs} "$@"
[ "$1" = completion ] && [ ! -t 1 ] && exec {mfgs} "$@"
printf 'called:'; printf '<%s>' "$@"; echo ' end'
""")
    os.chmod(os.path.join(work, "bin/mfgs"), 0o755)
    os.makedirs(os.path.join(work, "data"))
    os.makedirs(os.path.join(work, "folder"))
    for name in ("data/train.tar", "data/val.tar", "folly.txt", "spa ce.png"):
        open(os.path.join(work, name), "w").close()
    flags, script = SHELLS[shell]
    flags = settle(shell, path, work) + flags
    env = {
        "PATH": os.path.join(work, "bin") + ":/usr/bin:/bin", "HOME": work, "TERM": "xterm", "LC_ALL": "C.UTF-8",
        **environment(path),
    }
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(work)
        os.execve(path, [shell] + flags, env)
    wrong = []
    try:
        time.sleep(1)
        os.write(terminal, (script + "; echo rea''dy\n").encode())
        shown = read_until(terminal, b"ready\r\n", 30)
        if "ready\r\n" not in shown:
            return [f"the script was not taken: {shown[-300:]!r}"]
        for line, want in lines(shell):
            for piece in re.split(r"(\t)", line):
                os.write(terminal, piece.encode())
                time.sleep(0.5 if piece == "\t" else 0.1)
            os.write(terminal, b"\n")
            shown = read_until(terminal, b" end", 10)
            called = re.findall(r"called:(.*?) end", shown)
            got = re.findall("<(.*?)>", called[-1]) if called else [shown[-200:]]
            # Zsh takes the last slash of a folder away again.
            if [arg.rstrip("/") for arg in got] != want:
                wrong.append(f"{line!r}: {got}, want {want}")
    finally:
        os.write(terminal, b"\x03\nexit\n")
        time.sleep(0.3)
        os.close(terminal)
        os.waitpid(pid, 0)
    return wrong


def main():
    mfgs = os.path.abspath(sys.argv[1])
    paths = dict(arg.split("=", 1) for arg in sys.argv[2:])
    failed = False
    for shell in SHELLS:
        path = paths.get(shell) or shutil.which(shell)
        if path is None:
            print(f"{shell}: NOT TRIED, there is none")
            continue
        version = subprocess.run([path, "--version"], capture_output=True, text=True,
                                 env={**os.environ, **environment(path)})
        with tempfile.TemporaryDirectory() as work:
            wrong = drive(shell, os.path.abspath(path), mfgs, work)
        print(f"{version.stdout.splitlines()[0]}: {len(lines(shell)) - len(wrong)} of {len(lines(shell))} lines are completed")
        for w in wrong:
            print("  " + w)
        failed = failed or bool(wrong)
    mandoc = paths.get("mandoc") or shutil.which("mandoc")
    if mandoc is None:
        print("mandoc: NOT TRIED, there is none")
    else:
        page = subprocess.run([mfgs, "man"], capture_output=True, check=True, env={**os.environ, "SOURCE_DATE_EPOCH": "0"}).stdout
        lint = subprocess.run([mandoc, "-Tlint", "-Wwarning"], input=page, capture_output=True)
        print(f"mandoc: {len(lint.stdout.splitlines())} complaints about {len(page.splitlines())} lines")
        print(lint.stdout.decode(), end="")
        failed = failed or lint.returncode != 0
    sys.exit(failed)


main()
