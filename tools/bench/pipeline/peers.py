"""The same tables of the same landing files, as plain Spark, DuckDB and Polars make them: of deliveries that are all as
they should be, in files that nobody else writes or reads, and without what a power cut needs. DuckDB and Polars have no
sketch that can be merged: theirs are medians."""

_HEAD = "at BIGINT, by STRING, topic STRING, qos INT, dup BOOLEAN, retain BOOLEAN, text STRING"
_RECORD = "STRUCT<bt: DOUBLE, seq: BIGINT, epoch: BIGINT, n: STRING, u: STRING, v: DOUBLE, vs: STRING, vb: BOOLEAN>"


def plain_spark(spark, landing, tables):
    from pyspark.sql import Window
    from pyspark.sql import functions as F

    lines = spark.read.schema(_HEAD).json(str(landing))
    rows = lines.selectExpr("*", f"from_json(text, 'ARRAY<{_RECORD}>') AS records").selectExpr(
        *("timestamp_millis(at) AS received", "by", "topic", "qos", "dup", "retain", "text AS payload", "records"),
        "split_part(topic, '/', 2) AS device",
        *("records[0].seq AS seq", "records[0].epoch AS epoch", "timestamp_seconds(records[0].bt) AS made"),
    )
    alike = Window.partitionBy("device", "epoch", "seq").orderBy("received", "dup")
    marked = rows.withColumn("first", F.row_number().over(alike) == 1).persist()
    marked.drop("records").write.parquet(f"{tables}/raw")
    first = marked.where("first")
    measurements = first.selectExpr(
        *("device", "epoch", "seq", "received", "made AS time", "posexplode(records) AS (place, record)")
    ).selectExpr(
        "* EXCEPT (record)", "record.n AS name", "record.u AS unit", "record.v AS value", "record.vs", "record.vb"
    )
    measurements.write.parquet(f"{tables}/measurements")
    minutes = measurements.groupBy("device", "name", "unit", F.date_trunc("minute", "time").alias("minute")).agg(
        *(F.expr(f"{name}(value) AS {name}") for name in ("count", "sum", "min", "max")),
        F.kll_sketch_agg_double("value").alias("sketch"),
    )
    minutes.write.parquet(f"{tables}/minutes")
    ledger = marked.groupBy("device", "epoch").agg(
        F.expr("sort_array(collect_list(CASE WHEN first THEN seq END)) AS numbers"),
        F.expr("count_if(NOT first) AS repeated"),
        *(F.expr(f"{name}(received) AS {name}") for name in ("min", "max")),
        F.expr("kll_sketch_agg_double((unix_micros(received) - unix_micros(made)) / 1000d) AS latency"),
    )
    ledger.write.parquet(f"{tables}/ledger")
    marked.unpersist()


def duckdb(_, landing, tables):
    import duckdb

    head = {"at": "BIGINT", "by": "VARCHAR", "topic": "VARCHAR", "qos": "INT", "dup": "BOOL", "retain": "BOOL"}
    fields = {"bt": "DOUBLE", "seq": "BIGINT", "epoch": "BIGINT", "n": "VARCHAR", "u": "VARCHAR", "v": "DOUBLE"}
    record = ", ".join(f'"{name}":"{kind}"' for name, kind in fields.items())
    with duckdb.connect() as database:
        database.execute("SET TimeZone = 'UTC'")
        database.execute(
            f"""CREATE TABLE marked AS SELECT *, row_number() OVER (PARTITION BY device, epoch, seq
                ORDER BY received, dup) = 1 AS first
            FROM (SELECT * EXCLUDE ("at"), make_timestamp(1000 * "at") AS received, records[1].seq AS seq,
                records[1].epoch AS epoch, make_timestamp(CAST(1e6 * records[1].bt AS BIGINT)) AS made,
                split_part(topic, '/', 2) AS device
            FROM (SELECT *, from_json(text, '[{{{record}}}]') AS records
                FROM read_json('{landing}/*', format = 'newline_delimited', columns = {head | {"text": "VARCHAR"}})))"""
        )
        database.execute(
            """CREATE TABLE measurements AS
            SELECT * EXCLUDE (record), record.n AS n, record.u AS u, record.v AS v FROM (
                SELECT device, epoch, seq, received, made AS time, unnest(records) AS record FROM marked WHERE first)"""
        )
        for name, sql in {
            "raw": "SELECT * EXCLUDE (records) FROM marked",
            "measurements": "FROM measurements",
            "minutes": """SELECT device, n, u, date_trunc('minute', time) AS minute, count(v), sum(v), min(v), max(v),
                approx_quantile(v, 0.5) FROM measurements GROUP BY ALL""",
            "ledger": """SELECT device, epoch, list_sort(list(seq) FILTER (first)), count(*) FILTER (NOT first),
                min(received), max(received), approx_quantile(epoch_us(received) - epoch_us(made), 0.5)
                FROM marked GROUP BY device, epoch""",
        }.items():
            database.execute(f"COPY ({sql}) TO '{tables}/{name}.parquet' (COMPRESSION zstd)")


def polars(_, landing, tables):
    import polars as pl

    fields = {"bt": pl.Float64, "seq": pl.Int64, "epoch": pl.Int64, "n": pl.String, "u": pl.String, "v": pl.Float64}
    first = pl.col("records").list.first().struct
    rows = pl.concat([pl.read_ndjson(path) for path in sorted(landing.iterdir())])
    rows = rows.with_columns(pl.col("text").str.json_decode(pl.List(pl.Struct(fields))).alias("records"))
    rows = rows.with_columns(
        *(first.field(name).alias(name) for name in ("seq", "epoch")),
        pl.from_epoch(pl.col("at"), "ms").alias("received"),
        pl.from_epoch((1e6 * first.field("bt")).cast(pl.Int64), "us").alias("made"),
        pl.col("topic").str.split("/").list.get(1).alias("device"),
    ).sort("received", "dup")
    marked = rows.with_columns(pl.struct("device", "epoch", "seq").is_first_distinct().alias("first"))
    found = marked.filter("first").select("device", "epoch", "seq", "received", "made", "records").explode("records")
    measurements = found.with_columns(*(pl.col("records").struct.field(name) for name in ("n", "u", "v")))
    minute, value = pl.col("made").dt.truncate("1m").alias("minute"), pl.col("v")
    sums = [getattr(value, name)().alias(name) for name in ("count", "sum", "min", "max", "median")]
    late, numbers = pl.col("received") - pl.col("made"), pl.col("seq").filter("first").sort()
    ledger = marked.group_by("device", "epoch").agg(
        *(numbers, (~pl.col("first")).sum().alias("repeated"), late.median().alias("latency")),
        *(pl.col("received").min(), pl.col("received").max().alias("last")),
    )
    for name, table in {
        "raw": marked.drop("records"),
        "measurements": measurements.drop("records"),
        "minutes": measurements.group_by("device", "n", "u", minute).agg(sums),
        "ledger": ledger,
    }.items():
        table.write_parquet(tables / f"{name}.parquet", compression="zstd")


PEERS = {"plain Spark": plain_spark, "DuckDB": duckdb, "Polars": polars}
