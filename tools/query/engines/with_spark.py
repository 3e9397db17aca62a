"""with_spark.py FOLDER [RECIPE...] [--master URL]: answers recipes over tables with Spark, a line of JSON each.

FOLDER is one of `clscope export parquet`, under a path that every worker sees. The recipes are those of
`clscope sql`. URL is spark://HOST:7077 of a standalone cluster, or yarn, k8s://..., local[N]. Needs pyspark
and a Java that it knows: pip install pyspark pyarrow; apt install openjdk-17-jre-headless."""

from __future__ import annotations

import argparse
import re
from typing import Any, List

import tables
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.functions import col, lit


def session(master: str, **settings: str) -> SparkSession:
    """A session whose tables can be read by `view`."""
    builder = SparkSession.builder.appName("clscope").master(master)
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    for name, value in settings.items():
        builder = builder.config(name.replace("_", "."), value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    return made


def view(spark: SparkSession, folder: str, table: str) -> DataFrame:
    """A table, as a view of its name. Parts that older versions wrote lack columns, which are null there."""
    tables.parts(folder, table)
    # What is a pattern to Spark stands for itself.
    path = re.sub(r"([\\[\]{}*?])", r"\\\1", str((tables.check(folder) / table).resolve()))
    frame = spark.read.option("mergeSchema", "true").parquet(path)
    if "rank" in frame.columns:
        frame = frame.withColumn("rank", col("rank").cast("bigint"))
    for name in set(tables.LATER).difference(frame.columns):
        frame = frame.withColumn(name, lit(None).cast("bigint"))
    frame.createOrReplaceTempView(table)
    return frame


def answer(spark: SparkSession, folder: str, name: str) -> List[dict]:
    """The rows that a recipe gives."""
    query = tables.questions()[name]
    for table in ("commands", "calls"):
        if re.search(rf"\bFROM {table}\b", query):
            view(spark, folder, table)
    return [row.asDict() for row in spark.sql(query).collect()]


def run() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder")
    parser.add_argument("recipes", nargs="*")
    parser.add_argument("--master", default="local[*]")
    named: Any = parser.parse_args()
    names = tables.chosen(named.recipes)
    tables.check(named.folder)
    spark = session(named.master)
    for name in names:
        tables.show(name, answer(spark, named.folder, name))
    spark.stop()


if __name__ == "__main__":
    tables.main(run)
