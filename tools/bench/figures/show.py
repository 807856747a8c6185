"""The figures as tables: (title, rows of text). The first row is the head."""

from tools.bench.figures import peers
from tools.bench.figures.measure import failure
from tools.bench.figures.run import OURS

_KINDS = {"bytes": "any byte", "pages": "pages of 256 bytes"}
_MESSAGES = {"publish": "publish", "receive": "message received"}
_RATES = (
    ("QoS 0, TCP_NODELAY", "qos0_nodelay"),
    ("QoS 1 one at a time, TCP_NODELAY", "qos1_nodelay"),
    ("QoS 1, 20 ms round trip, window 20", "qos1_trip20"),
)
_LITTLEFS = {"bytes": "littlefs, programs of 32 bytes", "pages": "littlefs, programs of 256 bytes"}


def tables(figures):
    machine = figures["machine"]
    title = "Figures to reach ({runtime}, {cores} cores, load {load} from elsewhere at the start)"
    yield title.format(**machine), _goals(figures)
    yield "TCP and WebSocket, share of a bare TCP socket's rate", _websocket(figures)
    yield "MQTT 5 and MQTT 3.1.1", _level_5(figures)
    yield "MQTT 5 on CPython", _on_cpython(figures["level_5"]["on_cpython"])
    yield "Heap for the code of what a client uses, bytes", _uses(figures["modules"])
    yield "Modules of the client, bytes", _modules(figures["modules"])
    yield "Microseconds of a publish at QoS 1 and its acknowledgement", _pieces(figures["pieces"])
    yield "Recovery, ms from power-on to a client that could connect (ring of 256 KiB)", _recovery(figures["recovery"])
    yield "Flash for a message of 89 bytes (topic and payload)", _wear(figures["wear"])


def _goals(figures):
    names = list(figures["costs"])
    costs, rates, smallest = figures["costs"], figures["rates"], figures["smallest"]

    def row(label, goal, figure):
        return [label, goal, *(figure(name) for name in names)]

    def heap(key):
        return lambda name: _bytes(costs[name], key)

    def share(key):
        return lambda name: _share(rates[name][key])

    def record(name):
        return f"{_record(figures['wear']) / 89:.2f}" if name == "ours" else "-"

    def elsewhere(label, goal, where, figure):
        # Rows that only Inflight has: its code in ROM, or frozen into a firmware.
        return (
            [row(label, goal, lambda name: f"{figure():,.0f}" if name == "ours" else "-")] if where in figures else []
        )

    return [
        ["", "goal", *("Inflight" if name == "ours" else peers.name_of(name) for name in names)],
        *(row(f"heap per publish, QoS {q}, bytes", "0", heap(f"publish_{q}")) for q in range(3)),
        *(row(f"heap per message received, QoS {q}, bytes", "32", heap(f"receive_{q}")) for q in range(3)),
        row("heap after import, bytes", "20,000", heap("import")),
        *elsewhere("the same, code in ROM", "11,000", "rom", lambda: figures["rom"]["import"]),
        *elsewhere("the same, frozen into the firmware", "7,500", "frozen", lambda: figures["frozen"]["import"]),
        row("a connected client beside its buffer, bytes", "1,400", heap("client")),
        row("a journal of 64 KiB, bytes", "", heap("journal")),
        row("smallest heap that works, bytes", "40,000", lambda name: failure(smallest[name]) or f"{smallest[name]:,}"),
        *elsewhere("the same, code in ROM", "23,000", "smallest_rom", lambda: figures["smallest_rom"]),
        *elsewhere(
            "the same, frozen into the firmware", "17,000", "smallest_frozen", lambda: figures["smallest_frozen"]
        ),
        row("QoS 0, share of the ceiling, default socket", "0.6", share("qos0_default")),
        row("the same, TCP_NODELAY", "0.6", share("qos0_nodelay")),
        row("QoS 1 one at a time, default socket", "0.7", share("qos1_default")),
        row("the same, TCP_NODELAY", "0.7", share("qos1_nodelay")),
        row("QoS 1, 20 ms round trip, window 20", "0.95", share("qos1_trip20")),
        row("flash used up per byte of topic and payload", "1.3", record),
    ]


def _bytes(costs, key):
    return failure(costs) or (f"{costs[key]:,.0f}" if key in costs else "-")


def _share(rate):
    return failure(rate) or "{share:.2f} ({rate:,.0f}/s)".format(**rate)


def _websocket(figures):
    ways = (figures["rates"]["ours"], figures["websocket"])
    return [["", "TCP", "WebSocket"], *([label, *(_share(way[key]) for way in ways)] for label, key in _RATES)]


def _level_5(figures):
    level_5 = figures["level_5"]
    costs, rates = ({"level 4": figures[part]["ours"], **level_5[part]} for part in ("costs", "rates"))
    theirs = {driver: f"{peers.name_of(name)}, level 5" for name, driver in peers.AT_LEVEL_5.items()}
    keys = [(f"heap per {what}, QoS {q}, bytes", f"{key}_{q}") for key, what in _MESSAGES.items() for q in range(3)]
    keys += [("heap after import, bytes", "import"), ("a connected client beside its buffer, bytes", "client")]

    def of_level_4(name, key):
        return {"level 4": "1", "ours_level_5": f"{level_5['of_level_4'][key]:.2f}"}.get(name, "-")

    return [
        ["", *({"ours_level_5": "level 5", **theirs}.get(name, name) for name in costs)],
        *([label, *(_bytes(found, key) for found in costs.values())] for label, key in keys),
        *(
            [f"{label}, share of the ceiling", *(_share(found[key]) for found in rates.values())]
            for label, key in _RATES
        ),
        *([f"{label}, share of level 4", *(of_level_4(name, key) for name in rates)] for label, key in _RATES),
    ]


def _on_cpython(found):
    rows = [
        ("a connected client and all it imports, bytes", "memory", "client"),
        ("most that a message of QoS 1 takes, bytes", "memory", "publish"),
        ("QoS 0, messages/s", "rates", "qos0"),
        ("QoS 1 one at a time, messages/s", "rates", "qos1"),
        ("QoS 1, window 20, messages/s", "rates", "qos1_window20"),
    ]
    names = list(found["memory"])
    return [
        ["", *names],
        *(
            [
                label,
                *(f"{(found[part][name][key] if part == 'memory' else found[part][key][name]):,.0f}" for name in names),
            ]
            for label, part, key in rows
        ),
    ]


def _record(wear):
    return next(cost["record"] for cost in wear if cost["way"] == OURS and cost["qos"] and cost["kind"] == "bytes")


_USES = {
    "a blocking client that publishes at QoS 0": ("core", "client"),
    "asyncio instead": ("core", "aio"),
    "and `async for`": ("consumers",),
    "a journal, for QoS 1 and 2": ("journal_core",),
    "messages from the broker, from the first one on": ("receive", "handlers"),
    "MQTT 5": ("mqtt5_core",),
    "a WebSocket": ("websocket",),
    "TLS; messages longer than the buffer, until one comes": (),
}


def _uses(modules):
    rows = [
        [what, *(f"{sum(modules[name][key] for name in names):,}" for key in ("heap", "rom"))]
        for what, names in _USES.items()
    ]
    return [["", "heap", "heap, code in ROM"], *rows]


def _modules(modules):
    def text(value):
        return "" if value is None else f"{value:,}"

    rows = [[module, *(text(sizes[key]) for key in ("mpy", "heap", "rom"))] for module, sizes in modules.items()]
    return [["module", "file (.mpy)", "heap after import", "heap, code in ROM"], *rows]


def _pieces(pieces):
    # Each is the best of several rounds, so the parts need not add up to the whole.
    parts = {"encode": "encode", "journal": "journal", "send": "send", "publish": "all, with the broker's answer"}
    rows = [[place, *(f"{took[name]:,.1f}" for name in parts)] for place, took in pieces.items()]
    return [["journal in", *parts.values()], *rows]


def _recovery(found):
    rows = [[f"{records:,}", f"{mount:.1f}", f"{session:.1f}"] for records, mount, session in found]
    return [["records", "journal", "session"], *rows]


def _wear(wear):
    head = ["", "QoS", "bytes programmed", "programs", "erases per 1,000", "flash used up, bytes"]
    rows = []
    for cost in wear:
        ours = cost["way"] == OURS
        label = f"Inflight, {_KINDS[cost['kind']]}" if ours else f"{cost['way']}, {_LITTLEFS[cost['kind']]}"
        used = cost["erases"] * 4096
        numbers = (cost["programmed"], cost["programs"], cost["erases"] * 1000, used)
        rows.append([label, str(cost["qos"]), *(f"{n:,.{p}f}" for n, p in zip(numbers, (0, 1, 0, 0), strict=True))])
    return [head, *rows]
