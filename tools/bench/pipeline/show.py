"""The figures as tables: (title, rows of text). The first row is the head."""

_MB = 1e6


def tables(figures):
    machine = figures["machine"]
    title = "{date}: {cores} cores, load {load} from elsewhere at the start, Python {python}, Spark {spark}"
    title = title.format(**machine)
    if figures["stages"]:
        yield f"Stages ({title})", _stages(figures["stages"])
        yield "What a message costs", _bytes(figures["stages"])
    if "history" in figures:
        yield "Micro-batch against history", _history(figures["history"])
    if "small" in figures:
        yield "Small micro-batches", _small(figures["small"])
    if "commits" in figures:
        yield "Commits to a table", _commits(figures["commits"])
    if figures["fleets"]:
        yield "Micro-batch against devices that the ledger knows", _fleets(figures["fleets"])
    if "collector" in figures:
        yield "Collector", _collector(figures["collector"])
    if "delay" in figures:
        yield "From a device to the tables", _delay(figures["delay"])


def _across(head, runs, *lines):
    """Rows of a table with a column for each of `runs`. `lines`: (label, function of a run) of each row."""
    return [head, *([label, *(figure(run) for run in runs)] for label, figure in lines)]


def _stages(runs):
    def rate(stage):
        return lambda run: f"{run['deliveries_s'][stage]:,.0f} ({run['share'][stage]:.0%})"

    def processor_us(stage):
        return lambda run: f"{run['cpu_us'][stage]:,.0f}"

    return _across(
        ["deliveries/s (share of the ceiling)", *(f"{run['rows']:,} rows" for run in runs)],
        runs,
        ("ceiling: Spark reads the files and counts", rate("ceiling")),
        ("read and parse", rate("parse")),
        ("the same, telemetry that is unusual", rate("parse unusual")),
        ("all tables", rate("take")),
        ("all tables, rows of measurements/s", lambda run: f"{run['rows_s']:,.0f}"),
        ("read and parse, µs of processor per delivery", processor_us("parse")),
        ("the same, telemetry that is unusual", processor_us("parse unusual")),
        ("all tables, µs of processor per delivery", processor_us("take")),
        ("all tables, s", lambda run: f"{run['seconds']['take']:.1f}"),
        ("first report, s", lambda run: f"{run['report_s']:.1f}"),
        ("the next ones, s", lambda run: f"{run['again_s']:.1f}"),
        ("peak memory of the JVM, MB", lambda run: f"{run['jvm_peak_bytes'] / _MB:,.0f}"),
        ("peak memory of the largest Python worker, MB", lambda run: f"{run['worker_peak_bytes'] / _MB:,.0f}"),
    )


def _bytes(runs):
    def each(table):
        return lambda run: f"{run['table_bytes'][table] / run['messages']:,.1f}"

    return _across(
        ["bytes", *(f"{run['rows']:,} rows" for run in runs)],
        runs,
        ("landed, per delivery", lambda run: f"{run['landed_bytes'] / run['deliveries']:,.1f}"),
        *((f"{table}, per message", each(table)) for table in ("raw", "measurements", "minutes")),
        ("ledger, per device", lambda run: f"{run['table_bytes']['ledger'] / run['devices']:,.1f}"),
    )


def _history(found):
    rows = [[f"{found['batches']} batches of {found['deliveries_in_batch']:,} deliveries", ""]]
    for part, seconds in found["fifths_s"].items():
        rows.append([f"a batch, {part} fifth, s", f"{seconds:.2f}"])
    ledger = found["ledger_bytes"]
    if ledger:
        rows.append(["ledger, first and largest seen, bytes", f"{ledger[0]:,} and {max(ledger):,}"])
    rows.append(["rows of the ledger", f"{found['ledger_rows']:,}"])
    if found["source_log_bytes"]:
        rows.append(["Spark's list of files read, bytes", f"{found['source_log_bytes']:,}"])
    rows.append([f"compact: {found['merged_files']} files merged, s", f"{found['merge_s']:.1f}"])
    return rows


def _small(found):
    rows = [[f"{found['batches']} batches of {found['deliveries_in_batch']} deliveries", ""]]
    for part, seconds in found["fifths_cpu_s"].items():
        rows.append([f"processor time of a batch, {part} fifth, s", f"{seconds:.2f}"])
    return rows


def _commits(found):
    return [
        [f"{found['batches']:,} batches, a file each", ""],
        ["a commit, first twentieth, ms", f"{found['first_ms']:.0f}"],
        ["a commit, last twentieth, ms", f"{found['last_ms']:.0f}"],
        ["the longest, ms", f"{found['longest_ms']:.0f}"],
        ["opening the table, ms", f"{found['open_ms']:.0f}"],
    ]


def _fleets(runs):
    return _across(
        ["", *(f"{run['devices']:,} devices" for run in runs)],
        runs,
        (f"a batch of {runs[0]['deliveries_in_batch']:,} deliveries, s", lambda run: f"{run['batch_s']:.1f}"),
        ("ledger, bytes per device", lambda run: f"{run['ledger_bytes'] / run['devices']:,.0f}"),
        ("its merge, each 16 batches, s", lambda run: f"{run['ledger_merge_s']:.1f}"),
    )


def _collector(found):
    head = [f"{found['messages']:,} messages of {found['payload_bytes']} bytes", "with fsync", "without"]
    kinds = ("fsync", "no_fsync")
    titles = {"messages/s": "messages_s", "messages in a batch": "batch", "µs of processor per message": "cpu_us"}
    return [head, *([title, *(f"{found[name][kind]:,.0f}" for kind in kinds)] for title, name in titles.items())]


def _delay(found):
    return [
        [f"{found['messages']:,} messages, {found['rate']}/s; --age and --every {found['every_s']}", ""],
        ["half of them within, s", f"{found['median_s']:.1f}"],
        ["95 % within, s", f"{found['p95_s']:.1f}"],
        ["batches meanwhile", f"{found['batches']:,}"],
        ["processor, cores", f"{found['cores']:.2f}"],
    ]
