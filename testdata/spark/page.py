"""Runs the commands of docs/scale.md's section on Spark in an environment with exactly the packages that the page installs.

The page's `pip install` goes into a fresh virtual environment. There its commands and Python run unchanged, on small
data: s3a://lake is a folder. Then kill.py runs in the same environment.
Needs Python 3.11 and Java 17; from the root of the repository:

    python testdata/spark/page.py [options of kill.py]
"""

import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import venv

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "scale.md").read_text().partition("\n## Spark\n")[2]

# The data lake, which the page assumes. This runs in the environment, which has the packages for it.
LAKE = """
import pathlib, random, sys
sys.path[:0] = [sys.argv[1] + "/testdata/spark", sys.argv[1] + "/cmd/mfgs-spark"]
import pyarrow as pa, pyarrow.parquet as pq
from cluster import IMAGES, png
draw = random.Random(1)
for name, rows, files in ("train", 400, 4), ("val", 200, 2), ("odd", 100, 1), ("new", 100, 2):
    folder = pathlib.Path("lake", name)
    folder.mkdir(parents=True)
    for i in range(files):
        table = [
            {"image": {"bytes": png(draw.randbytes(64), 8, 8), "path": f"{i}-{j}.png"}, "label": draw.randrange(4)}
            for j in range(rows // files)
        ]
        table = pa.Table.from_pylist(table, IMAGES)
        if name == "new":
            table = table.append_column("id", pa.array([f"{i}-{j}" for j in range(len(table))]))
        pq.write_table(table, folder / f"{i}.parquet")
"""

# Preprocessing that resizes images to the model's input, whose sizes are open.
PREPROCESS = "resize: {size: 16}\nscale: 0.00392156862745098\ncolor: RGB\nlayout: NCHW\n"


def local(text):
    return text.replace("s3a://lake", "lake")


def commands(text):
    """The lines of indented blocks, those that go on with a backslash joined."""
    lines = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    return [line for line in "\n".join(lines).replace("\\\n", " ").splitlines() if line.strip()]


def shell(words, **more):
    print("$", words if isinstance(words, str) else shlex.join(map(str, words)), flush=True)
    subprocess.run(words, check=True, shell=isinstance(words, str), **more)


def main():
    shown = commands(PAGE)
    install = [line for line in shown if line.startswith("pip install ")]
    programs = [line for line in shown if line.split()[0] in ("spark-submit", "tar")]
    blocks = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    if len(install) != 1 or len(programs) != 3 or len(blocks) != 1:
        sys.exit(f"docs/scale.md has {len(install)} installations, {len(programs)} commands and {len(blocks)} blocks of Python, want 1, 3 and 1")
    scratch = pathlib.Path(tempfile.mkdtemp(prefix="mfgs-spark-page-"))
    try:
        run(scratch, install[0], programs, blocks[0])
    finally:
        shutil.rmtree(scratch)


def run(scratch, install, programs, block):
    home = scratch / "venv"
    venv.create(home, with_pip=True)
    env = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "VIRTUAL_ENV"))}
    env.update(PATH=f"{home}/bin:{env['PATH']}", SPARK_LOCAL_IP="127.0.0.1")
    shell(install, env=env)
    work = scratch / "work"
    work.mkdir()
    shell(["go", "build", "-o", work / "mfgs", "./cmd/mfgs"], cwd=ROOT)
    found = subprocess.run([work / "mfgs", "setup", "--json"], check=True, capture_output=True, text=True).stdout
    shutil.copy(json.loads(found)["path"], work / "libonnxruntime.so")
    shutil.copy(ROOT / "cmd" / "mfgs-spark" / "mfgs_spark.py", work)
    shutil.copy(ROOT / "featurize" / "testdata" / "open.onnx", work / "model.onnx")
    (work / "preprocess.yaml").write_text(PREPROCESS)
    subprocess.run([home / "bin" / "python", "-c", LAKE, ROOT], cwd=work, env=env, check=True)
    for line in programs:
        shell(local(line), cwd=work, env=env)
    notebook = work / "notebook.py"
    wanted = work / "again.mfgs"
    notebook.write_text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.getOrCreate()\n"
        'spark.sparkContext.setLogLevel("FATAL")\n'
        + local(block).replace('out="model.mfgs"', f'out="{wanted.name}"')
        + 'print(answers.count(), "answers with", ", ".join(answers.columns[:3]), flush=True)\n'
    )
    shell([home / "bin" / "python", notebook], cwd=work, env=env)
    for name in "model.mfgs", wanted.name:
        files = sorted(os.listdir(work / name))
        if "probe.safetensors" not in files:
            sys.exit(f"{name} has {files}, and no validation inputs")
        print(f"{name}: {', '.join(files)}")
    count = subprocess.run(
        [home / "bin" / "python", "-c", "import pyarrow.parquet as pq; t = pq.read_table('lake/answers'); print(t.num_rows, t.column_names[0])"],
        cwd=work, env=env, check=True, capture_output=True, text=True,
    ).stdout.split()
    if count != ["100", "id"]:
        sys.exit(f"lake/answers has {count}, want 100 rows that begin with their id")
    print("what docs/scale.md shows works with what it says to install", flush=True)
    shell([home / "bin" / "python", ROOT / "testdata" / "spark" / "kill.py", *sys.argv[1:]], env=env)


if __name__ == "__main__":
    main()
