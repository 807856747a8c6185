"""Other clients to measure: finds their files in a folder of checkouts."""

from pathlib import Path

# {module in device/ that drives it: (name, files to look for)}. mqtt_as was a module, and is a package now.
_KNOWN = {
    "umqtt_simple": ("umqtt.simple", ("umqtt/simple.py",)),
    "umqtt_simple2": ("umqtt.simple2", ("umqtt/simple2.py",)),
    "mqtt_as_client": ("mqtt_as", ("mqtt_as/__init__.py", "mqtt_as.py")),
}
DRIVERS = tuple(_KNOWN)
AT_LEVEL_5 = {"ours": "ours_level_5", "mqtt_as_client": "mqtt_as_level_5"}  # the drivers of those that speak it
_NAMES = {"ours": "Inflight", "ours_level_5": "level 5", "ours_websocket": "WebSocket"}


def name_of(driver):
    """What a table calls it."""
    if driver == AT_LEVEL_5["mqtt_as_client"]:
        return "mqtt_as, level 5"
    return _NAMES.get(driver) or _KNOWN[driver][0]


def _files(path, file):
    # A module's, and what a package imports of itself; examples may stand beside it.
    found = {path.removesuffix(".py"): file}
    if file.name == "__init__.py":
        text, place = file.read_text(), path.removesuffix(file.name)
        found |= {place + one.stem: one for one in sorted(file.parent.glob("*.py")) if f"from .{one.stem} " in text}
    return found


def find(folder):
    """{driver: {path below /lib, without suffix: source file}} of the clients in `folder`. Raises ValueError if there
    is none."""
    found = {}
    for driver, (_, paths) in _KNOWN.items():
        for path in paths:
            files = sorted(file for file in Path(folder).rglob(Path(path).name) if file.as_posix().endswith(f"/{path}"))
            if files:
                found[driver] = _files(path, files[0])
                break
    if not found:
        looked_for = ", ".join(path for _, paths in _KNOWN.values() for path in paths)
        raise ValueError(f"no client in {folder}: looked for {looked_for}")
    return found
