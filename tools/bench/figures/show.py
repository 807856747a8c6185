"""The figures as tables: (title, rows of text). The first row is the head."""

from tools.bench.figures import peers
from tools.bench.figures.measure import failure
from tools.bench.figures.run import OURS
from tools.shown import across, text

_QOS = range(3)
_GOALS = [  # row, goal, part of the figures, figure
    *((f"heap per publish, QoS {q}, bytes", "0", "costs", f"publish_{q}") for q in _QOS),
    *((f"heap per message received, QoS {q}, bytes", "32", "costs", f"receive_{q}") for q in _QOS),
    ("heap after import, bytes", "20,000", "costs", "import"),
    ("the same, code in ROM", "11,000", "rom", "import"),
    ("a connected client beside its buffer, bytes", "1,400", "costs", "client"),
    ("a journal of 64 KiB, bytes", "", "costs", "journal"),
    ("smallest heap that works, bytes", "40,000", "smallest", "smallest"),
    ("the same, code in ROM", "23,000", "smallest_rom", "smallest"),
    ("QoS 0, share of the ceiling, default socket", "0.6", "rates", "qos0_default"),
    ("the same, TCP_NODELAY", "0.6", "rates", "qos0_nodelay"),
    ("QoS 1 one at a time, default socket", "0.7", "rates", "qos1_default"),
    ("the same, TCP_NODELAY", "0.7", "rates", "qos1_nodelay"),
    ("QoS 1, 20 ms round trip, window 20", "0.95", "rates", "qos1_trip20"),
    ("QoS 0, TCP_NODELAY, share of level 4", "", "of_level_4", "qos0_nodelay"),
    ("QoS 1 one at a time, TCP_NODELAY, share of level 4", "", "of_level_4", "qos1_nodelay"),
    ("QoS 1, 20 ms round trip, window 20, share of level 4", "", "of_level_4", "qos1_trip20"),
]
_USES = {
    "a blocking client that publishes at QoS 0": ("core", "client"),
    "asyncio instead": ("core", "aio"),
    "and `async for`": ("consumers",),
    "a journal, for QoS 1 and 2": ("journal_core",),
    "messages from the broker, from the first subscription on": ("receiving", "handlers"),
    "MQTT 5": ("mqtt5_core",),
    "a WebSocket": ("websocket",),
    "TLS; messages longer than the buffer, until one comes": (),
}
_ON_CPYTHON = {
    "client": "a connected client and all it imports, bytes",
    "publish": "most that a message of QoS 1 takes, bytes",
    "qos0": "QoS 0, messages/s",
    "qos1": "QoS 1 one at a time, messages/s",
    "qos1_window20": "QoS 1, window 20, messages/s",
}
_FLASH = {
    (True, "bytes"): "any byte",
    (True, "pages"): "pages of 256 bytes",
    (False, "bytes"): "littlefs, programs of 32 bytes",
    (False, "pages"): "littlefs, programs of 256 bytes",
}


def tables(figures):
    machine = figures["machine"]
    title = "Figures to reach ({runtime}, {cores} cores, load {load} from elsewhere at the start)"
    yield title.format(**machine), _goals(figures)
    on_cpython = figures["on_cpython"].items()
    columns = {name: {_ON_CPYTHON[key]: figure for key, figure in own.items()} for name, own in on_cpython}
    yield "MQTT 5 on CPython", across(columns)
    modules = figures["modules"]
    used = {key: {what: sum(modules[name][key] for name in _USES[what]) for what in _USES} for key in ("heap", "rom")}
    columns = {"heap": used["heap"], "heap, code in ROM": used["rom"]}
    yield "Heap for the code of what a client uses, bytes", across(columns)
    heads = {"mpy": "file (.mpy)", "heap": "heap after import", "rom": "heap, code in ROM"}
    sizes = {head: {module: own[key] for module, own in modules.items()} for key, head in heads.items()}
    yield "Modules of the client, bytes", across(sizes)
    yield "Reads of the flash in a start, messages of 95 bytes", across(figures["starts"])
    yield "Flash for a message of 89 bytes (topic and payload)", _wear(figures["wear"])


def _cell(found, key):
    value = failure(found) or found.get(key, "-")
    if isinstance(value, dict):
        return failure(value) or "{share:.2f} ({rate:,.0f}/s)".format(**value)
    return text(value)


def _goals(figures):
    names = list(figures["rates"])
    rows = []
    for row, goal, part, key in _GOALS:
        rows.append([row, goal, *(_cell(figures[part].get(name, {}), key) for name in names)])
    record = next(cost["record"] for cost in figures["wear"] if cost["way"] == OURS and cost["qos"])
    rows.append(["flash used up per byte of topic and payload", "1.3", text(record / 89), *["-"] * (len(names) - 1)])
    return [["", "goal", *map(peers.name_of, names)], *rows]


def _wear(wear):
    rows = []
    for cost in wear:
        ours = cost["way"] == OURS
        label = f"{'Inflight' if ours else cost['way']}, {_FLASH[ours, cost['kind']]}"
        figures = cost["programmed"], cost["programs"], cost["erases"] * 1000, cost["erases"] * 4096
        rows.append([label, str(cost["qos"]), *(f"{n:,.{p}f}" for n, p in zip(figures, (0, 1, 0, 0), strict=True))])
    return [["", "QoS", "bytes programmed", "programs", "erases per 1,000", "flash used up, bytes"], *rows]
