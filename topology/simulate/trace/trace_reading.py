"""Stage: the lines of traces as one DataFrame, and the bad lines among them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from openclust.shell.config.schema import ConfigError
from topology.simulate.trace.files import NAMED_MAX, TraceFiles, bad_lines
from topology.simulate.trace.trace_schemas import EVENTS, MESSAGE_EVENTS, TRACE

_CORRUPT = "_corrupt"
_FILE = "_file"


class Begun(NamedTuple):
    """The values that the brokers write when they begin a trace."""

    cluster: str
    sample: int
    roles: dict[str, str]


def read_lines(spark: SparkSession, files: TraceFiles) -> DataFrame:
    """TRACE of all files, with columns for the text of a bad line and for the file of each line."""
    fields = _fields()
    found: list[DataFrame] = []
    if files.json:
        found.append(
            spark.read.schema(StructType(fields).add(_CORRUPT, StringType()))
            .option("columnNameOfCorruptRecord", _CORRUPT)
            .json([str(each) for each in files.json])
            .withColumn(_FILE, F.input_file_name())
        )
    for path in files.parquet:
        read = spark.read.parquet(str(path))
        columns = [
            (F.col(each.name) if each.name in read.columns else F.lit(None)).cast(each.dataType).alias(each.name)
            for each in fields
        ]
        nothing = F.lit(None).cast("string").alias(_CORRUPT)
        found.append(read.select(*columns, nothing, F.lit(str(path)).alias(_FILE)))
    lines = found[0]
    for each in found[1:]:
        lines = lines.unionByName(each)
    return lines


def _fields() -> list[StructField]:
    schema = StructType.fromDDL(TRACE)
    assert isinstance(schema, StructType), "that is what it says"
    return list(schema.fields)


def sound(lines: DataFrame) -> DataFrame:
    """TRACE without the bad lines."""
    return lines.where(_is_sound()).drop(_CORRUPT, _FILE)


def count_bad(lines: DataFrame) -> dict[Path, int]:
    """The number of bad lines, by file."""
    rows = lines.where(~_is_sound()).groupBy(_FILE).agg(F.count("*").alias("lines")).collect()
    return {_path(row[_FILE]): int(row["lines"]) for row in rows}


def name_bad(counts: dict[Path, int]) -> list[str]:
    """A sentence for each file with bad lines; it names the first of these."""
    notes = []
    for path, count in sorted(counts.items()):
        named = bad_lines(path) if path.is_file() and path.suffix != ".parquet" else []
        where = f": {', '.join(named)}" if named else f": in {path}"
        more = ", ..." if named and count > NAMED_MAX else ""
        notes.append(
            f"{count} {'line was' if count == 1 else 'lines were'} passed over as no line of a trace{where}{more}"
        )
    return notes


def begun(trace: DataFrame) -> Begun:
    """The begin of the traces. Raises ConfigError if they are of several clusters, or of several sample rates."""
    rows = (
        trace.where(F.col("event") == "begin")
        .groupBy("broker", "cluster", "sample")
        .agg(F.max("role").alias("role"))
        .orderBy("broker", "cluster", "sample")
        .collect()
    )
    if not rows:
        raise ConfigError("no line of these files begins a trace: the sample is not known")
    _demand_one("clusters", [(row["broker"], row["cluster"]) for row in rows], "give those of one")
    told = "let trace.sample be the same at all brokers: only then they follow the same messages"
    _demand_one("samples", [(row["broker"], f"1 in {row['sample']}") for row in rows], told)
    silent = trace.where(F.col("event") != "begin").select("broker").distinct().collect()
    roles = {row["broker"]: row["role"] or "primary" for row in rows}
    if strangers := sorted({row["broker"] for row in silent} - set(roles)):
        raise ConfigError(f"the trace of {', '.join(strangers)} has no beginning: its sample is not known")
    return Begun(rows[0]["cluster"], int(rows[0]["sample"]), dict(sorted(roles.items())))


def _demand_one(what: str, told: Sequence[tuple[str, str]], way_out: str) -> None:
    values: dict[str, str] = {}
    for broker, value in told:
        values.setdefault(value, broker)
    if len(values) > 1:
        listed = ", ".join(f"{value} ({broker})" for value, broker in values.items())
        raise ConfigError(f"these are traces of different {what}: {listed}; {way_out}")


def _is_sound() -> Column:
    event = F.col("event")
    whole = F.col(_CORRUPT).isNull() & F.col("at_us").isNotNull() & F.col("broker").isNotNull()
    known = F.coalesce(event.isin(*EVENTS), F.lit(False))
    return whole & known & (~F.coalesce(event.isin(*MESSAGE_EVENTS), F.lit(False)) | F.col("id").isNotNull())


def _path(url: str) -> Path:
    return Path(unquote(urlsplit(url).path)) if url.startswith("file:") else Path(url)
