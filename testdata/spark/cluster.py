"""A standalone Spark on this machine, from PyPI's pyspark, for the scripts beside it."""

import json
import os
import pathlib
import shutil
import signal
import socket
import struct
import subprocess
import sys
import time
import zlib

import pyarrow as pa
import pyspark
from pyspark.sql import SparkSession

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "cmd" / "mfgs-spark"))

SPARK = pathlib.Path(pyspark.__file__).parent
os.environ["PYSPARK_PYTHON"] = sys.executable  # of the executors


class Cluster:
    """A master and workers with one core each on 127.0.0.1, each with its own folder."""

    def __init__(self, folder, workers, cores=None):
        """Starts the workers, each bound to one of the cores if given."""
        self.folder = pathlib.Path(folder)
        self.folder.mkdir(parents=True)
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            port = s.getsockname()[1]
        self.url = f"spark://127.0.0.1:{port}"
        self.cores = cores or [None] * workers
        # By default an application fails after losing ten executors, and ours lose more.
        self.master = self._daemon(
            "master.Master",
            ["--port", str(port)],
            {"SPARK_MASTER_OPTS": "-Dspark.deploy.maxExecutorRetries=-1 -Dspark.master.rest.enabled=false"},
            None,
        )
        for _ in range(100):
            with socket.socket() as s:
                if s.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        self.workers = [self._worker(i) for i in range(workers)]

    def _daemon(self, name, words, env, core):
        log = open(self.folder / f"{name}-{time.time_ns()}.log", "wb")
        return subprocess.Popen(
            [SPARK / "bin" / "spark-class", f"org.apache.spark.deploy.{name}", "--host", "127.0.0.1", "--webui-port", "0", *words],
            env={
                **os.environ,
                "SPARK_LOCAL_IP": "127.0.0.1",
                "SPARK_DAEMON_MEMORY": "256m",
                **env,
            },
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            preexec_fn=None if core is None else lambda: os.sched_setaffinity(0, [core]),
        )

    def _worker(self, i):
        home = self.folder / f"worker{i}"
        words = ["--cores", "1", "--memory", "2g", "--work-dir", str(home / "work"), self.url]
        return self._daemon("worker.Worker", words, {"SPARK_LOCAL_DIRS": str(home / "local")}, self.cores[i])

    def kill(self, i):
        """Kills a worker and all its processes by SIGKILL, and removes their files."""
        kill(self.workers[i])
        shutil.rmtree(self.folder / f"worker{i}", ignore_errors=True)

    def restart(self, i):
        self.workers[i] = self._worker(i)

    def session(self, files, **conf):
        """A session of this cluster with shipped files."""
        builder = SparkSession.builder.master(self.url).appName("mfgs")
        for name, value in {
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "1g",
            "spark.local.dir": str(self.folder / "driver"),
            # Data of the tests are small: each of their files is a partition.
            "spark.sql.files.openCostInBytes": "128m",
            **conf,
        }.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        spark.sparkContext.setLogLevel("FATAL")
        for file in files:
            spark.sparkContext.addFile(str(file))
        return spark

    def __enter__(self):
        return self

    def __exit__(self, *_):
        for process in [*self.workers, self.master]:
            kill(process)


def kill(process):
    for pid in descendants(process.pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    process.wait()


def descendants(pid):
    """A process and all below it, the parents first."""
    children = {}
    for entry in os.listdir("/proc"):
        try:
            stat = pathlib.Path("/proc", entry, "stat").read_text()
        except (OSError, NotADirectoryError):
            continue
        if entry.isdigit():
            children.setdefault(int(stat.rpartition(")")[2].split()[1]), []).append(int(entry))
    found = [pid]
    for p in found:
        found += children.get(p, [])
    return found


def program(folder):
    """Builds mfgs, and returns the files to ship: the program and its runtime library."""
    mfgs = pathlib.Path(folder) / "mfgs"
    subprocess.run(["go", "build", "-o", mfgs, "./cmd/mfgs"], cwd=ROOT, check=True)
    found = subprocess.run([mfgs, "setup", "--json"], check=True, capture_output=True, text=True).stdout
    library = json.loads(found)["path"]
    return mfgs, pathlib.Path(library)


IMAGES = pa.schema([("image", pa.struct([("bytes", pa.binary()), ("path", pa.string())])), ("label", pa.int64())])


def png(pixels, width, height):
    """A grey image as a PNG file."""

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    rows = b"".join(b"\0" + pixels[i : i + width] for i in range(0, width * height, width))
    header = struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")
