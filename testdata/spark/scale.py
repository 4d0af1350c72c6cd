"""Times calibration on Spark with one worker of one core and with two, and without Spark.

Workers, and mfgs without Spark, are bound to one core each, and networks run in one thread. The time is that of
calibrate(), including merge and tuning, in a session with running executors. It needs a machine with two idle cores. The
driver and the master are not bound: beside one worker they have a free core, beside two they have none.

    python testdata/spark/scale.py --model resnet50.onnx --preprocess imagenet \\
        --train train.tar --val val.tar [--train-images 3000] [--val-images 100]

The tar files hold PNG or JPEG files, and with val.tar lie their labels in val-labels.txt.
"""

import argparse
import json
import multiprocessing
import os
import pathlib
import re
import shutil
import subprocess
import tarfile
import tempfile
import time

import pyarrow as pa
import pyarrow.parquet as pq
from cluster import IMAGES, Cluster, program

import mfgs_spark

# Of one worker's time that two may take: each does half, but for the merge and the tuning.
SPEEDUP = 1.85


def images(path, most):
    """The first images of a tar file, with their labels where there are any."""
    labels, beside = {}, pathlib.Path(str(path).removesuffix(".tar") + "-labels.txt")
    if beside.exists():
        labels = {words[0]: int(words[1]) for words in map(str.split, beside.read_text().splitlines())}
    with tarfile.open(path) as tar:
        for member in tar:
            if member.isfile() and member.name.lower().endswith((".png", ".jpg", ".jpeg")):
                data = tar.extractfile(member).read()
                yield {"image": {"bytes": data, "path": member.name}, "label": labels.get(member.name, -1)}
                most -= 1
                if most == 0:
                    return


def write(rows, folder, files):
    """Writes images as several Parquet files, and as one."""
    table = pa.Table.from_pylist(list(rows), IMAGES)
    (folder / "files").mkdir(parents=True)
    pq.write_table(table, folder / "all.parquet", row_group_size=100, compression="none")
    cuts = [table.num_rows * i // files for i in range(files + 1)]
    for i, (a, b) in enumerate(zip(cuts, cuts[1:])):
        pq.write_table(table.slice(a, b - a), folder / "files" / f"{i:03d}.parquet", compression="none")
    return table.num_rows


def plain(mfgs, cores, words):
    """The seconds of mfgs on these cores, in one process."""
    start = time.time()
    subprocess.run(
        [mfgs, *map(str, words), "--threads", str(len(cores))],
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        preexec_fn=lambda: os.sched_setaffinity(0, cores),
    )
    return time.time() - start


def images_run(log):
    """When the last of the tasks ended that run images, which take the most time: of an event log."""
    seconds, ends = {}, {}
    for path in filter(pathlib.Path.is_file, log.rglob("*")):
        for event in map(json.loads, path.read_text().splitlines()):
            if event["Event"] == "SparkListenerTaskEnd":
                stage, info = event["Stage ID"], event["Task Info"]
                seconds[stage] = seconds.get(stage, 0) + info["Finish Time"] - info["Launch Time"]
                ends[stage] = max(ends.get(stage, 0), info["Finish Time"])
    return ends[max(seconds, key=seconds.get)] / 1000


def on_spark(folder, cores, args, mfgs, library, data):
    """When each stage of calibrate() ended, in seconds, with a worker on each of these cores."""
    log = folder / "events"
    log.mkdir(parents=True)
    events = {"enabled": "true", "compress": "false", "rolling.enabled": "false", "dir": log.as_uri()}
    events = {f"spark.eventLog.{name}": value for name, value in events.items()}
    with Cluster(folder / "cluster", len(cores), cores) as cluster:
        spark = cluster.session([mfgs, library, args.model], **events)
        try:
            # Executors that are up, each with a Python that has run.
            ready = spark.range(0, 64, 1, 8).mapInArrow(lambda batches: batches, "id bigint")
            while ready.count() and len(spark.sparkContext._jsc.sc().statusTracker().getExecutorInfos()) <= len(cores):
                time.sleep(1)
            sets = [spark.read.parquet(str(data / name / "files")) for name in ("train", "val")]
            start, fetched = time.time(), None
            fetch = mfgs_spark.fetch

            def timed(*parts):
                nonlocal fetched
                fetch(*parts)
                fetched = time.time()

            mfgs_spark.fetch = timed
            mfgs_spark.calibrate(
                *sets,
                model=os.path.basename(args.model),
                out=str(folder / "bundle"),
                options=["--preprocess", args.preprocess] if args.preprocess else [],
            )
            tuned = time.time()
        finally:
            spark.stop()
    return {"images run": images_run(log) - start, "parts fetched": fetched - start, "tuned": tuned - start}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", required=True)
    parser.add_argument("--preprocess")
    parser.add_argument("--train", required=True)
    parser.add_argument("--val", required=True)
    parser.add_argument("--train-images", type=int, default=3000)
    parser.add_argument("--val-images", type=int, default=100)
    parser.add_argument("--partitions", type=int, default=8, help="of the training images")
    args = parser.parse_args()
    cores = sorted(os.sched_getaffinity(0))[:2]
    with tempfile.TemporaryDirectory(prefix="mfgs-spark-") as scratch:
        scratch = pathlib.Path(scratch)
        mfgs, library = program(scratch)
        data = scratch / "data"
        n = write(images(args.train, args.train_images), data / "train", args.partitions)
        m = write(images(args.val, args.val_images), data / "val", 2)
        words = ["calibrate", "--model", args.model, "--out", scratch / "plain", "--force"]
        words += ["--train", data / "train" / "all.parquet", "--val", data / "val" / "all.parquet"]
        words += ["--preprocess", args.preprocess] if args.preprocess else []
        seconds, stages = {}, {}
        for k in 1, 2:
            seconds[f"mfgs, {k} core(s)"] = plain(mfgs, cores[:k], words)
            # A driver of its own: sessions that follow each other in a process have failed.
            with multiprocessing.get_context("spawn").Pool(1) as fresh:
                measured = fresh.apply(on_spark, (scratch / f"spark{k}", cores[:k], args, mfgs, library, data))
            seconds[f"Spark, {k} worker(s)"] = measured["tuned"]
            stages[f"Spark, {k} worker(s)"] = ", ".join(f"{name} at {s:.1f} s" for name, s in measured.items())
            shutil.rmtree(scratch / f"spark{k}")
        processor = re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text())[1]
        print(json.dumps({"train": n, "val": m, "partitions": args.partitions, "processor": processor}))
        for name, s in seconds.items():
            print(f"{name}: {s:.1f} s, {(n + m) / s:.1f} images/s", f"({stages[name]})" if name in stages else "")
        speedup = seconds["Spark, 1 worker(s)"] / seconds["Spark, 2 worker(s)"]
        for k in 1, 2:
            over = seconds[f"Spark, {k} worker(s)"] / seconds[f"mfgs, {k} core(s)"] - 1
            print(f"Spark over mfgs on {k} core(s): {over:+.1%}")
        print(f"two workers against one: {speedup:.2f} times")
        if speedup < SPEEDUP:
            raise SystemExit(f"want {SPEEDUP} times")


if __name__ == "__main__":
    main()
