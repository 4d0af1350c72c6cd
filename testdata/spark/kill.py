"""Kills Spark's workers while they calibrate, and compares the bundles.

A standalone master and two workers of one core run here. Partitions of images in Parquet are first calibrated by the
command line, and their parts merged by one `mfgs merge`. Then Spark does the same, first undisturbed, then
repeatedly while whole workers, with their executors, Python and mfgs, are killed by SIGKILL at random instants and lose
their files. All bundles must have the same bytes. Finally predictions under the same kills are compared with
`mfgs predict`.

    pip install -r testdata/spark/requirements.txt
    python testdata/spark/kill.py

`make spark` runs this in its own environment.
"""

import argparse
import filecmp
import gzip
import os
import pathlib
import random
import shutil
import subprocess
import tempfile
import threading
import time

import cluster
import pyarrow as pa
import pyarrow.parquet as pq
from cluster import IMAGES, ROOT, Cluster, png, program
from pyspark import TaskContext
from pyspark.sql import functions

import mfgs_spark

DIGITS = ROOT / "models" / "digits-mlp"


def write_images(folder, name, first, end, files, rng):
    """Writes images as Parquet files of random sizes, one of which has only the label -1."""
    folder.mkdir()
    pixels = gzip.decompress((DIGITS / f"{name}-images-idx3-ubyte.gz").read_bytes())[16:]
    labels = bytes(len(pixels) // 64)
    if name == "digits":
        labels = gzip.decompress((DIGITS / f"{name}-labels-idx1-ubyte.gz").read_bytes())[8:]
    rows = [
        {"image": {"bytes": png(pixels[64 * i : 64 * i + 64], 8, 8), "path": f"{i}.png"}, "label": labels[i]}
        for i in range(first, end)
    ]
    cuts = [0, *sorted(rng.sample(range(1, len(rows)), files - 1)), len(rows)]
    pieces = [rows[a:b] for a, b in zip(cuts, cuts[1:])]
    pieces.insert(files // 2, [{**row, "label": -1} for row in rows[:9]])
    for i, piece in enumerate(pieces):
        pq.write_table(pa.Table.from_pylist(piece, IMAGES), folder / f"{i:03d}.parquet")


def streams(df, folder):
    """Writes the input of each partition's mfgs to files, and returns their names."""
    folder.mkdir(parents=True)
    schema = mfgs_spark.to_arrow_schema(df.schema)

    def save(batches):
        with open(folder / str(TaskContext.get().partitionId()), "wb") as file:
            mfgs_spark.write_stream(file, schema, batches)
        return iter(())

    df.mapInArrow(save, "nothing int").count()
    return [folder / str(i) for i in range(len(os.listdir(folder)))]


def calibrated_by_hand(mfgs, sets, folder):
    """Makes the bundle with the command line."""
    parts = []
    for flag, df in sets.items():
        inputs = streams(df, folder / f"{flag}-streams")
        for i, stream in enumerate(inputs):
            parts.append(folder / f"{flag}{i}")
            words = ["calibrate", "--model", DIGITS / "model.onnx", f"--{flag}", "arrow:-", "--threads", "1"]
            with open(stream, "rb") as stdin:
                run(mfgs, *words, "--shard", f"{i + 1}/{len(inputs)}", "--out", parts[-1], stdin=stdin)
    run(mfgs, "merge", *parts, "--out", folder / "bundle")
    return folder / "bundle"


def predicted_by_hand(mfgs, bundle, df, folder):
    """Returns the predictions of the command line by the rows' paths."""
    answers = {}
    for stream in streams(df, folder):
        words = [mfgs, "predict", "--bundle", bundle, "arrow:-", "--format", "arrow", "--threads", "1"]
        with open(stream, "rb") as stdin:
            out = subprocess.run(words, check=True, stdin=stdin, capture_output=True).stdout
        rows = pa.ipc.open_stream(stream.read_bytes()).read_all().to_pylist()
        given = pa.ipc.open_stream(out).read_all().to_pylist()
        answers.update({row["path"]: answer for row, answer in zip(rows, given, strict=True)})
    return answers


def run(*words, **streams):
    subprocess.run(words, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **streams)


def same(a, b):
    names = sorted(os.listdir(a))
    equal, different, missing = filecmp.cmpfiles(a, b, names, shallow=False)
    if different or missing or sorted(os.listdir(b)) != names:
        raise SystemExit(f"{b} is not {a}: {different + missing}")
    return ", ".join(equal)


class Killer(threading.Thread):
    """Kills and restarts random workers at random times, until the block ends or the number is reached."""

    def __init__(self, cluster, rng, seconds, most):
        super().__init__()
        self.cluster, self.rng, self.seconds, self.most = cluster, rng, seconds, most
        self.kills, self.left = 0, threading.Event()

    def run(self):
        while self.kills < self.most and not self.left.wait(self.rng.uniform(0, self.seconds)):
            worker = self.rng.randrange(len(self.cluster.workers))
            self.cluster.kill(worker)
            self.kills += 1
            time.sleep(self.rng.uniform(0, 2))
            self.cluster.restart(worker)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.left.set()
        self.join()


def check(workers, data, mfgs, library, scratch, most, rng):
    # A task dies with its worker, several times perhaps.
    patience = {"spark.task.maxFailures": "20", "spark.stage.maxConsecutiveAttempts": "20"}
    spark = workers.session([mfgs, library, DIGITS / "model.onnx"], **patience)
    with mfgs_spark.steady_plans(spark):
        sets = {name: spark.read.parquet(str(data / name)).where("label >= 0") for name in ("train", "val", "ood")}
        hand = calibrated_by_hand(mfgs, sets, scratch / "hand")

    def calibrate(name):
        out = scratch / name
        mfgs_spark.calibrate(sets["train"], sets["val"], ood=sets["ood"], model="model.onnx", out=str(out))
        return same(hand, out)

    calibrate("cold")
    start = time.time()
    files = calibrate("calm")
    seconds = time.time() - start
    print(f"undisturbed, {seconds:.0f} s: the bytes of mfgs merge in {files}", flush=True)
    kills = runs = 0
    while kills < most:
        killer = Killer(workers, rng, seconds / 2, min(4, most - kills))
        start = time.time()
        with killer:
            calibrate(f"killed{runs}")
        kills, runs = kills + killer.kills, runs + 1
        print(f"{killer.kills} workers killed, {time.time() - start:.0f} s: the same bytes", flush=True)
    print(f"{kills} workers killed in {runs} calibrations: every bundle has the bytes of mfgs merge", flush=True)

    shutil.make_archive(str(scratch / "bundle"), "gztar", hand)
    spark.sparkContext.addArchive(f"{scratch}/bundle.tar.gz#bundle")
    test = spark.read.parquet(str(data / "test")).where("label >= 0").selectExpr("image", "label", "image.path as path")
    want = predicted_by_hand(mfgs, hand, test, scratch / "test-streams")
    with Killer(workers, rng, 0, 1) as killer:
        answers = mfgs_spark.predict(test, bundle="bundle", keys=["path"]).collect()
    got = {row["path"]: {name: value for name, value in row.asDict().items() if name != "path"} for row in answers}
    if got != want or len(answers) != len(want):
        raise SystemExit("predictions differ from those of mfgs predict")
    print(f"{len(got)} predictions, {killer.kills} workers killed: those of mfgs predict, each beside its key")
    empty_first(spark, sets, data, mfgs, scratch)
    refusals(sets, spark)


def empty_first(spark, sets, data, mfgs, scratch):
    """If the first partition of the validation data is empty, the bundle keeps inputs of the next."""
    table = pa.concat_tables(pq.read_table(file) for file in sorted((data / "val").iterdir()))
    pq.write_table(table, scratch / "one.parquet")
    size = (scratch / "one.parquet").stat().st_size
    # The rows of a file are in the partition that has its middle.
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(size // 3 + 1))
    val = spark.read.parquet(str(scratch / "one.parquet")).where("label >= 0")
    counts = [len(rows) for rows in val.rdd.glom().collect()]
    if len(counts) != 3 or counts[0] != 0 or counts[1] == 0:
        raise SystemExit(f"partitions of {counts} rows, want three with an empty one first")
    with mfgs_spark.steady_plans(spark):
        hand = calibrated_by_hand(mfgs, {"train": sets["train"], "val": val}, scratch / "empty-hand")
    mfgs_spark.calibrate(sets["train"], val, model="model.onnx", out=str(scratch / "empty"))
    spark.conf.unset("spark.sql.files.maxPartitionBytes")
    if "probe.safetensors" not in same(hand, scratch / "empty"):
        raise SystemExit(f"validation partitions of {counts} rows: the bundle keeps no validation inputs")
    print(f"validation partitions of {counts} rows: the bundle keeps inputs of the second", flush=True)


def refusals(sets, spark):
    """Failures are one line, and DataFrames whose rows may change are refused before anything runs."""
    wrong = sets["val"].withColumn("label", functions.expr("if(label = 3, 77, label)"))
    for said, train, val in [
        ("77", sets["train"], wrong),
        ("--train: read twice", sets["train"].withColumn("chance", functions.rand()), sets["val"]),
        ("--val: read twice", sets["train"], sets["val"].limit(100)),
        ("--val: read twice", sets["train"], sets["val"].repartition(2).sample(0.5, seed=1)),
    ]:
        try:
            mfgs_spark.calibrate(train, val, model="model.onnx", out="refused")
        except (ValueError, mfgs_spark.MfgsError) as e:
            if said not in str(e) or "\n" in str(e):
                raise SystemExit(f"want {said} in a line, got {e}") from None
            print(f"refused: {e}", flush=True)
        else:
            raise SystemExit(f"want {said}, and nothing was refused")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", help="keep everything here")
    args = parser.parse_args()
    rng = random.Random(args.seed)
    scratch = pathlib.Path(args.folder or tempfile.mkdtemp(prefix="mfgs-spark-"))
    scratch.mkdir(exist_ok=True)
    mfgs, library = program(scratch)
    data = scratch / "data"
    data.mkdir()
    write_images(data / "train", "digits", 0, 1200, 20, rng)
    write_images(data / "val", "digits", 1200, 1500, 3, rng)
    write_images(data / "ood", "drawings", 0, 300, 3, rng)
    write_images(data / "test", "digits", 1500, 1797, 5, rng)
    try:
        with Cluster(scratch / "cluster", 2) as workers:
            check(workers, data, mfgs, library, scratch, args.kills, rng)
    finally:
        if not args.folder:
            shutil.rmtree(scratch)



if __name__ == "__main__":
    main()
