"""The parts of the page, each from facts to HTML."""

from . import plots, series
from . import steps as steps_of
from .devices import name
from .markup import Html, clip, data, join, tag
from .plots import icon
from .words import NONE, ZONE, count, duration, figure, milliseconds, moment, number, reading, share, unit

_EVENTS = 60
_SERIES = 60


def section(identity, title, *children):
    return tag("section", tag("h2", title, id=f"{identity}-h"), *children, id=identity, aria_labelledby=f"{identity}-h")


def scrolling(label, *rows_and_head):
    return tag("div", tag("table", *rows_and_head), class_="scroll", role="region", tabindex="0", aria_label=label)


def heads(*words, numbers=()):
    """A row of heads; those of numbers stand to the right, as the numbers do."""
    cells = (tag("th", word, scope="col", class_="n" if word in numbers else None) for word in words)
    return tag("thead", tag("tr", *cells))


def glance(facts):
    fleet, latency = facts["fleet"], facts["fleet"]["latency_ms"] or {}
    accepted, grace = fleet["accepted"], duration(facts["grace_s"])
    proof = (
        ("", "accepted", "numbers that journals gave out", ""),
        ("=", "delivered", share(fleet["delivered"], accepted), ""),
        ("+", "lost", f"missing for more than {grace}", "bad" if fleet["lost"] else ""),
        ("+", "late", "missing, and may still come", "waiting" if fleet["late"] else ""),
    )
    sums = [
        tag("div", tag("dt", icon(kind) if kind else "", key), tag("dd", tag("span", sign, class_="sign"),
            figure(f"fleet-{key}", fleet[key])), tag("dd", note, class_="quiet"), class_=kind or None)
        for sign, key, note, kind in proof
    ]  # fmt: skip
    rest = [tag("dl", *(_small(words, key, fleet[key]) for words, key in column)) for column in _SMALL]
    rest.insert(1, tag("dl", *(_small(f"latency {p}", p, latency.get(p), milliseconds) for p in ("p50", "p95", "p99")),
                       _small("measurements", "measurements", fleet["measurements"])))  # fmt: skip
    return section("glance", "Fleet at a glance", tag("dl", *sums, class_="sums"), tag("div", *rest, class_="small"))


_SMALL = (
    (("standing twice", "doubled"), ("repetitions removed", "repeated"), ("numbers taken twice", "conflicts"),
     ("before the first", "before"), ("dead letters", "dead_letters")),
    (("devices", "devices"), ("restarts", "restarts"), ("reconnects", "reconnects"), ("sent again", "resends"),
     ("refused, journal full", "outbox_full")),
)  # fmt: skip


def _small(words, key, value, shown=number):
    grave = key == "doubled" and value
    label = tag("dt", icon("bad") if grave else "", words)
    return tag("div", label, tag("dd", figure(f"fleet-{key}", value, shown(value))), class_="bad" if grave else None)


_KEYS = (
    ("live", "received soon"), ("backlog", "backlog: made more than {} before it came"), ("outage", "nothing received"),
    ("triangle", "restart"), ("square", "gone offline"), ("diamond", "repetition removed"),
    ("cross", "dead letter"),
)  # fmt: skip


def timeline(facts):
    steps = steps_of.steps(facts["timeline"])
    if not steps:
        return section("timeline", "Timeline", tag("p", "There is nothing to draw yet."))
    delay = duration(facts["timeline"]["delay_s"])
    keys = (tag("li", icon(f"k-{shape}"), words.format(delay)) for shape, words in _KEYS)
    legend = tag("ul", *keys, class_="legend", aria_label="Legend")
    readout = tag("output", "Point at the drawing, or focus it and use the arrow keys.", class_="readout js-only")
    wide, narrow = plots.timeline(steps, 1080, "wide"), plots.timeline(steps, 360, "narrow")
    drawings = tag("div", wide, narrow, readout, class_="plot")
    return section("timeline", "Timeline", legend, drawings, _step_table(steps), _events(facts["events"]))


def _step_table(steps):
    words = ("Received", "of these backlog", "Restarts", "Gone offline", "Repetitions removed", "Dead letters")
    head = heads(join(("From (", ZONE, ")")), *words, numbers=words)
    rows = []
    for n, row in enumerate(steps.rows):
        cells = (tag("td", number(row[key])) for key in steps_of.COUNTS)
        rows.append(tag("tr", tag("th", moment(steps.start + n * steps.length)), *cells))
    table = scrolling("The timeline as a table", head, tag("tbody", *rows, id="steps"))
    title = f"The timeline as a table: {count(len(steps.rows), 'step')} of {duration(steps.length)}"
    return tag("details", tag("summary", title), table)


def _events(events):
    if not events:
        return Html("")
    rows = [
        tag("tr", tag("th", moment(event["t"], exact=True)), tag("td", name(event["device"])),
            tag("td", clip(event["what"], 40)), tag("td", clip(event["detail"] or "", 80)))
        for event in events[:_EVENTS]
    ]  # fmt: skip
    shown = "" if len(events) <= _EVENTS else f": the newest {_EVENTS} of {number(len(events))}"
    head = heads(join(("Time (", ZONE, ")")), "Device", "What", "Detail")
    table = scrolling("Events", head, tag("tbody", *rows))
    return tag("details", tag("summary", f"Starts, outages and lost journals{shown}"), table)


def measurements(facts):
    devices = {device: found for device, found in facts["measurements"].items() if found}
    if not devices:
        note = "Of no device were measurements asked for, or none has sent any."
        return section("measurements", "Measurements", tag("p", note))
    each = series.share(sum(len(found[:_SERIES]) for found in devices.values()))
    points, blocks, options = {}, [], []
    for n, (device, found) in enumerate(devices.items()):
        charts = [_measurement(f"m{n}-{m}", device, one, each, points) for m, one in enumerate(found[:_SERIES])]
        if len(found) > _SERIES:
            charts.append(tag("p", f"and {number(len(found) - _SERIES)} more measurements"))
        drawn = tag("div", *charts, class_="charts")
        blocks.append(tag("div", tag("h3", name(device)), drawn, class_="of", id=f"of-{n}"))
        options.append(tag("option", clip(device, 64), value=f"of-{n}"))
    choice = tag("label", "Device ", tag("select", *options, id="choice"), class_="js-only")
    key = tag("span", icon("k-mean"), "mean ", icon("k-band"), "least to greatest", class_="quiet legend")
    tools = tag("p", choice, key, class_="tools")
    return section("measurements", "Measurements", tools, *blocks, data("points", points))


def _measurement(identity, device, one, most, points):
    label, of = clip(one["name"], 60), clip(unit(one["unit"]), 16)
    stats = " · ".join(f"{key}\u00a0{reading(one[key])}" for key in ("min", "p50", "mean", "p95", "max"))
    thinned = series.thin(one["points"], most)
    values = tag("span", count(one["count"], "value"), class_="quiet")
    head = tag("figcaption", tag("b", tag("bdi", label)), f" {of} ", values)
    if not thinned:
        return tag("figure", head, tag("p", "No numbers to draw."))
    start = round(thinned[0][0])
    points[identity] = {"t": start, "unit": of, "p": [[round(t - start), *map(_brief, rest)] for t, *rest in thinned]}
    described = f"{label} of {clip(device, 64)} in {of or 'no unit'}: {stats}."
    drawing = plots.band(identity, thinned, f"{label}, {of}", described)
    readout = tag("output", stats, class_="readout")
    return tag("figure", head, tag("div", drawing, readout, class_="plot"))


def _brief(value):
    return float(f"{value:.5g}")


def dead_letters(facts):
    letters, total = facts["dead_letters"], facts["fleet"]["dead_letters"]
    if not letters:
        note = f"{count(total, 'message')}, of which no more is told." if total else "None: all could be read."
        return section("dead", "Dead letters", tag("p", note))
    rows = [
        tag("tr", tag("th", clip(one["reason"], 160), scope="row"),
            tag("td", figure(f"dead-{n}", one["count"]), class_="n"),
            tag("td", tag("code", tag("bdi", clip(one["example"] or NONE, 200)))),
            tag("td", tag("code", tag("bdi", clip(one["topic"] or NONE, 120)))),
            tag("td", moment(one["first"])), tag("td", moment(one["last"])))
        for n, one in enumerate(letters)
    ]  # fmt: skip
    head = heads("Reason", "Messages", "Example", "Topic", "First", "Last", numbers=("Messages",))
    note = "They are kept, with the reason, and stopped nothing. Characters that cannot be seen are written as \\x00."
    table = scrolling("Dead letters", head, tag("tbody", *rows))
    return section("dead", "Dead letters", tag("p", note, class_="quiet"), table)


def empty(facts):
    """What to do when there is nothing to show."""
    root = facts["root"] or "inflight"
    steps = (
        ("Is the pipeline running? ", tag("code", f"make pipeline BROKER=host ROOT={root}"), " collects and counts."),
        ("Do devices publish below this root? They say ", tag("code", f"{root}/<device>/telemetry"), "."),
        ("What does the broker hear? ", tag("code", "make monitor CONFIG=config.json"), " shows it live."),
        ("No fleet at hand? ", tag("code", "make demo"), " runs one of virtual sensors."),
    )
    rows = tag("ol", *(tag("li", *step) for step in steps))
    first = tag("p", "A message appears here when it was collected and the pipeline has taken its next step.")
    return section("empty", "What to do", first, rows)


def meaning(facts):
    grace = duration(facts["grace_s"])
    terms = (
        ("accepted", "A device took the message into its journal and gave it a number. Known from the numbers that"
         " came: of a device that fell silent for good, the last ones cannot be known."),
        ("delivered", "The message with that number is in the tables."),
        ("lost", f"The number is missing, and a younger one came more than {grace} ago."),
        ("late", f"The number is missing, but a younger one came less than {grace} ago: it may be on its way."),
        ("repetitions removed", "The same message came again, as QoS 1 allows, and was left out."),
        ("standing twice", "Rows of the tables that should have been left out and were not. Must be 0."),
        ("numbers taken twice", "Different messages under one number: two devices with one name, or a copied journal."),
        ("dead letters", "Messages that could not be understood. They are kept, with the reason."),
        ("before the first", "Numbers below the first that came: given out before the collector listened. Nobody can"
         " judge them, and they count nowhere else."),
        ("backlog", "Messages that were made a while before they came: what waited during an outage."),
        ("latency", "From the time a message was made, by the device's clock, to its receipt."),
    )  # fmt: skip
    rows = tag("dl", *(tag("div", tag("dt", term), tag("dd", said)) for term, said in terms), class_="terms")
    return section("meaning", "What the words mean", rows)
