"""Calibrates and predicts with mfgs on Apache Spark: see docs/scale.md.

Spark reads the data with any of its connectors, and mapInArrow streams each partition to an mfgs process as Arrow
record batches. The results are parts, one per partition, or predictions. Nothing is computed here.

    spark-submit --files mfgs,libonnxruntime.so,model.onnx mfgs_spark.py calibrate \\
        --model model.onnx --train s3a://lake/train --val s3a://lake/val --out digits.mfgs

From Python, calibrate() and predict() take DataFrames. PySpark 4, without Spark Connect.
"""

import argparse
import contextlib
import errno
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
from collections import deque

import pyarrow as pa
from pyspark import SparkFiles, StorageLevel, TaskContext, cloudpickle
from pyspark.sql import SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema, to_arrow_schema
from pyspark.sql.types import StructType

if __name__ != "__main__":  # so that executors need no copy of this file
    cloudpickle.register_pickle_by_value(sys.modules[__name__])

# A part is transferred as rows, which are pieces of its files: no shared folder is needed, the output of a killed task
# is never seen, and rows stay far below their limit of 2 GiB.
PIECE = 1 << 20
PIECES = pa.schema([("part", pa.int32()), ("file", pa.string()), ("offset", pa.int64()), ("data", pa.binary())])
ROWS = from_arrow_schema(PIECES)  # the same, for Spark

# The maximal number of parts of one merge, all of which are on its machine's disk.
FAN = 8

# The maximal number of shards of mfgs. A partition is a shard.
SHARDS = 4096


class MfgsError(Exception):
    """The error message of mfgs, one line."""


def calibrate(train, val, *, model, out, ood=None, mfgs="mfgs", options=(), force=False):
    """Calibrates a model with DataFrames, and writes the bundle to the driver's folder out.

    Their columns are those that mfgs reads from a Parquet file: image and label, or the model's inputs and label.
    model, mfgs (the program) and options (more arguments of `mfgs calibrate`) name files shipped by --files or
    --archives, or else files on every machine.

    Raises MfgsError with the last line of an mfgs that failed, and ValueError for a DataFrame whose rows Spark might
    not read the same way twice.
    """
    if os.path.exists(out) and not force:
        raise ValueError(f"{out} exists: choose another folder, or force")
    if not os.path.isdir(os.path.dirname(os.path.abspath(out))):
        raise ValueError(f"{out} would lie in a folder that does not exist: make it first")
    with contextlib.ExitStack() as stack:
        stack.enter_context(one_line())
        stack.enter_context(steady_plans(train.sparkSession))
        # The driver has the model, too, so parts do not contain it.
        words = [mfgs, "calibrate", "--model", model, "--no-model", *options]
        parts, count, first = None, 0, 0
        # The large set comes last, so that errors in the small ones show first.
        for flag, df in (("--val", val), ("--ood", ood), ("--train", train)):
            if df is None:
                continue
            df = repeatable(df, flag)
            shards = df.rdd.getNumPartitions()
            if shards == 0:
                raise ValueError(f"{flag}: the DataFrame has no partition, hence no rows")
            if shards > SHARDS:
                raise ValueError(f"{flag}: {shards} partitions, at most {SHARDS}: coalesce the DataFrame")
            made = df.mapInArrow(accumulation([*words, flag, "arrow:-"], count, shards, df), ROWS)
            parts = parts.unionAll(made) if parts else made
            first, count = count, count + shards  # the training data come last
        parts = kept(stack, parts)  # in one job, so that no core idles at the end of a small set
        # Merged sums stay as large as one; rows accumulate, and are merged once.
        number = functions.col("part")
        sums = merged(stack, parts.where(number >= first), first, count - first, mfgs)
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="mfgs-"))
        fetch(parts.where(number < first).unionAll(sums), scratch)
        holds = ["--no-model"] if "--no-model" in options else ["--model", model]
        with running([mfgs, "merge", *folders(scratch, 1), *holds, "--out", out] + ["--force"] * force):
            pass


def predict(df, *, bundle, keys=(), mfgs="mfgs", options=()):
    """Returns a DataFrame with one row per row of df: its columns keys, and those of a prediction.

    The other columns of df are as for calibrate(); label may be missing. bundle, mfgs and options (arguments of
    `mfgs predict`) are as there, too. The driver asks mfgs for the columns of predictions, so that a wrong bundle or
    wrong columns fail before any task runs.
    """
    inputs = [c for c in df.columns if c not in keys]
    words = [mfgs, "predict", "--bundle", bundle, "arrow:-", "--format", "arrow", *options]
    schema = to_arrow_schema(df.select(inputs).schema)
    with running(words, schema, (), answers=True) as answers:
        columns = pa.ipc.open_stream(answers).schema
    twice = set(keys) & set(columns.names)
    if twice:
        raise ValueError(f"{min(twice)} is a key and a column of the prediction: rename it")
    both = StructType(df.select(*keys).schema.fields + from_arrow_schema(columns).fields)
    return df.mapInArrow(prediction(words, list(keys), schema), both)


def accumulation(words, first, shards, df):
    """What a task does: its partition's part. The first partition of these shards has a number."""
    schema = to_arrow_schema(df.schema)

    def task(batches):
        number = TaskContext.get().partitionId()
        with scratch_folder() as scratch:
            part = os.path.join(scratch, "part")
            shard = ["--shard", f"{number - first + 1}/{shards}", "--out", part]
            with running(threaded(words) + shard, schema, batches):
                pass
            yield from pieces(number, part)

    return task


def merged(stack, parts, first, count, mfgs):
    """Merges parts, numbered from first on, in a tree on the executors, down to one."""

    def task(batches):
        with scratch_folder() as scratch:
            for batch in batches:
                for row in batch.to_pylist():
                    write_piece(os.path.join(scratch, "groups", str((row["part"] - first) // FAN)), row)
            for group in folders(scratch, 2):
                part = os.path.join(scratch, "merged")
                with running(threaded([mfgs, "merge", "--part", *folders(group, 1), "--out", part])):
                    pass
                yield from pieces(first + int(os.path.basename(group)), part)
                shutil.rmtree(part)

    while count > 1:
        count = -(-count // FAN)
        group = functions.floor((functions.col("part") - first) / FAN)
        parts = kept(stack, parts.repartitionByRange(count, group).mapInArrow(task, ROWS))
    return parts


def prediction(words, keys, schema):
    """What a task does: the predictions of its partition, beside the keys."""

    def task(batches):
        waiting = deque()  # keys of rows without predictions so far

        def fed():
            for batch in batches:
                waiting.append(batch.select(keys))
                yield batch.select(schema.names)

        with running(threaded(words), schema, fed(), answers=True) as answers:
            for answer in pa.ipc.open_stream(answers):
                columns = take(waiting, answer.num_rows) + answer.columns
                yield pa.RecordBatch.from_arrays(columns, names=keys + answer.schema.names)
        if waiting:
            raise MfgsError(f"{sum(b.num_rows for b in waiting)} rows were not answered")

    return task


def take(waiting, rows):
    """Removes rows from the front of a queue of record batches, and returns their columns."""
    taken = []
    while rows > 0:
        batch = waiting.popleft()
        if batch.num_rows > rows:
            waiting.appendleft(batch.slice(rows))
            batch = batch.slice(0, rows)
        rows -= batch.num_rows
        taken.append(batch)
    table = pa.Table.from_batches(taken).combine_chunks()
    return [column.chunk(0) for column in table.columns]


@contextlib.contextmanager
def running(words, schema=None, batches=None, answers=False):
    """Runs mfgs with record batches on its standard input, and waits for its end.

    With answers it yields the standard output, to be read to the end. Input, output and messages are streamed
    concurrently, with bounded buffers.
    """
    process = subprocess.Popen(
        [located(word) for word in words],
        stdin=subprocess.DEVNULL if batches is None else subprocess.PIPE,
        stdout=subprocess.PIPE if answers else subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env={"MFGS_NO_INSTALL": "1", **os.environ},
    )
    said, failure = deque(maxlen=1), []

    def feed():
        try:
            with process.stdin as pipe:
                write_stream(pipe, schema, batches)
        except Exception as e:
            if getattr(e, "errno", None) != errno.EPIPE:  # its exit status tells more
                failure.append(e)
                process.kill()

    def listen():
        for line in process.stderr:
            line = line.decode(errors="replace")
            sys.stderr.write(line)  # into the executor's log
            if line.strip():
                said.append(line.strip())

    threads = [threading.Thread(target=f, daemon=True) for f in ([listen] if batches is None else [listen, feed])]
    for thread in threads:
        thread.start()
    broken = None
    try:
        yield process.stdout
    except pa.ArrowException as e:  # output of a failed program
        broken = e
    except BaseException:
        process.kill()
        process.wait()
        raise
    for thread in threads:
        thread.join()
    if process.stdout:
        process.stdout.close()
    status = process.wait()
    if failure:
        raise failure[0]
    if status != 0:
        raise MfgsError(said[0] if said else f"{words[0]} ended with status {status}, and said nothing")
    if broken:
        raise broken


def write_stream(file, schema, batches):
    """Writes record batches as a stream, with the given schema if there are none."""
    first = next(iter(batches), None)
    with pa.ipc.new_stream(file, first.schema if first else schema) as stream:
        if first:
            stream.write_batch(first)
        for batch in batches:
            stream.write_batch(batch)


def located(word):
    """The local path of a file shipped under this name, or the word itself."""
    path = SparkFiles.get(word)
    return path if word and os.path.exists(path) else word


def threaded(words):
    """The arguments of a command that runs networks, with the threads of a task."""
    return words if "--threads" in words else [*words, "--threads", str(TaskContext.get().cpus())]


def scratch_folder():
    """A temporary folder among the executor's files, which is removed with them after a SIGKILL."""
    return tempfile.TemporaryDirectory(prefix="mfgs-", dir=SparkFiles.getRootDirectory())


def pieces(part, folder):
    """The files of a part as record batches of one row. An empty file is one piece, too."""
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name), "rb") as file:
            for offset in range(0, max(os.fstat(file.fileno()).st_size, 1), PIECE):
                row = {"part": part, "file": name, "offset": offset, "data": file.read(PIECE)}
                yield pa.RecordBatch.from_pylist([row], PIECES)


def write_piece(folder, row):
    """Writes a piece to its place. Pieces come in any order."""
    folder = os.path.join(folder, f"{row['part']:06d}")
    os.makedirs(folder, exist_ok=True)
    path = os.path.join(folder, os.path.basename(row["file"]))
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o644), "wb") as file:
        file.seek(row["offset"])
        file.write(row["data"])


def folders(root, depth):
    """The folders at a depth below another, sorted."""
    if depth == 0:
        return [root]
    return [f for name in sorted(os.listdir(root)) for f in folders(os.path.join(root, name), depth - 1)]


def kept(stack, parts):
    """Stores parts on two machines, so that they survive the loss of one."""
    parts.persist(StorageLevel.DISK_ONLY_2)
    stack.callback(parts.unpersist)
    return parts


def fetch(parts, folder):
    """Writes parts to a folder of the driver, with about 32 pieces in memory at a time."""
    spread = parts.repartition(1 + parts.count() // 16, "part", "file", "offset")
    # Pickled on the executors, which prefetch the next pieces.
    for row in spread.rdd.toLocalIterator(prefetchPartitions=True):
        write_piece(folder, row)


# A task that runs again must see the same rows in the same order, or its part changes. ROWWISE steps keep rows in order;
# SHUFFLING steps partition them the same way each time, but in order of arrival.
ROWWISE = set(
    "Project Filter Generate Union SubqueryAlias View ResolvedHint MapInArrow MapInPandas LocalRelation Range".split()
)
SHUFFLING = set("Repartition RepartitionByExpression RebalancePartitions Sort Join Distinct RelationV2".split())


def repeatable(df, flag):
    """Returns a DataFrame that yields the same rows in the same order each time it is read."""

    def ordered(node):
        children = node.children()
        below = all([ordered(children.apply(i)) for i in range(children.size())])
        name = node.nodeName()
        if name == "LogicalRDD":
            name = node.rdd().outputDeterministicLevel().toString()
        if name == "LogicalRelation":  # a database returns rows in any order
            name = "DETERMINATE" if node.relation().getClass().getSimpleName() == "HadoopFsRelation" else "UNORDERED"
        if name == "Sort" and not getattr(node, "global")() and node.order().size() == node.output().size():
            return True  # by all columns, as randomSplit does
        if node.deterministic() and (name == "DETERMINATE" or name in ROWWISE or name == "Sample" and below):
            return below
        if node.deterministic() and (name == "UNORDERED" or name in SHUFFLING):
            return False
        raise ValueError(
            f"{flag}: read twice, this might give other rows: {node.simpleString(60)}: "
            "write the DataFrame, or checkpoint() it, and calibrate with what was written"
        )

    df = df.select("*")  # replanned under these settings
    return df if ordered(df._jdf.queryExecution().analyzed()) else df.sortWithinPartitions(*df.columns)


@contextlib.contextmanager
def steady_plans(spark):
    """Settings under which a DataFrame is partitioned the same way each time it is planned."""
    conf = spark.conf
    parallelism = conf.get("spark.sql.leafNodeDefaultParallelism", None)
    settings = {
        "spark.sql.adaptive.enabled": "false",
        # The default is the number of live cores.
        "spark.sql.leafNodeDefaultParallelism": parallelism or str(spark.sparkContext.defaultParallelism),
        # A partition of a union comes from one of its DataFrames.
        "spark.sql.unionOutputPartitioning": "false",
        # The default, 10,000, is too large for images.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "64",
    }
    before = {name: conf.get(name, None) for name in settings}
    for name, value in settings.items():
        conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            conf.unset(name) if value is None else conf.set(name, value)


@contextlib.contextmanager
def one_line():
    """Raises an error of mfgs in a task as MfgsError, without Spark's wrapping."""
    try:
        yield
    except Exception as e:
        said = re.search(r"MfgsError: (.*)", str(e))
        if said is None:
            raise
        raise MfgsError(said[1]) from None


def main(arguments):
    parser = argparse.ArgumentParser(
        prog="mfgs_spark.py",
        allow_abbrev=False,
        epilog="Options that are not listed are those of mfgs calibrate and mfgs predict.",
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    calibration = verbs.add_parser("calibrate", help="write a bundle", allow_abbrev=False)
    calibration.add_argument("--model", required=True, metavar="FILE")
    for flag in "train", "val", "ood":
        calibration.add_argument(f"--{flag}", required=flag != "ood", metavar="PATH")
    calibration.add_argument("--out", required=True, metavar="DIR", help="folder on the driver's machine")
    calibration.add_argument("--force", action="store_true", help="replace a bundle that is there")
    prediction = verbs.add_parser("predict", help="write predictions", allow_abbrev=False)
    prediction.add_argument("--bundle", required=True, metavar="DIR")
    prediction.add_argument("--input", required=True, metavar="PATH")
    prediction.add_argument("--output", required=True, metavar="PATH", help="Parquet files of predictions")
    prediction.add_argument("--keys", default="", metavar="A,B", help="columns of the input to keep")
    for verb in calibration, prediction:
        verb.add_argument("--mfgs", default="mfgs", metavar="FILE", help="the program [mfgs]")
        verb.add_argument("--format", default="parquet", help="of the data, as spark.read.format takes it [parquet]")
    args, options = parser.parse_known_args(arguments)

    spark = SparkSession.builder.appName(f"mfgs {args.verb}").getOrCreate()
    spark.sparkContext.setLogLevel("FATAL")  # failures are reported once, below

    def read(path):
        return path and spark.read.format(args.format).load(path)

    try:
        if args.verb == "calibrate":
            calibrate(
                read(args.train), read(args.val), ood=read(args.ood), model=args.model, out=args.out,
                mfgs=args.mfgs, options=options, force=args.force,
            )  # fmt: skip
        else:
            keys = [key for key in args.keys.split(",") if key]
            spark.conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "64")
            with one_line():
                predict(read(args.input), bundle=args.bundle, keys=keys, mfgs=args.mfgs, options=options).write.parquet(
                    args.output
                )
    except (MfgsError, ValueError) as e:
        sys.exit(f"mfgs_spark.py: {e}")
    finally:
        spark.stop()


if __name__ == "__main__":
    main(sys.argv[1:])
