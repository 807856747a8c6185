"""What the client costs, measured on the 32-bit MicroPython: `make figures`."""

import subprocess
import sys
import tempfile
from pathlib import Path

from rich.console import Console
from rich.table import Table

from fleet.mosquitto import Mosquitto
from fleet.sensors import best_runtime, build

_DEVICE = Path(__file__).resolve().parent / "figures" / "device.py"
_ROWS = (
    ("heap after import: client and journal", "import_all", "bytes"),
    ("heap of a journal of 64 KiB, mounted", "journal", "bytes"),
    ("heap of a connected client beside its buffer", "client", "bytes"),
    ("flash per message of QoS 1 or 2 (topic and payload: 89)", "record", "bytes"),
    *((f"heap per publish, QoS {q}, journal in a file", f"publish_{q}_bytes", "bytes") for q in range(3)),
    *((f"heap per round trip to a handler, QoS {q}", f"receive_{q}_bytes", "bytes") for q in range(3)),
    *((f"publish and completion, QoS {q}, journal fsync'd", f"publish_{q}_rate", "messages/s") for q in range(3)),
)


def measure(interpreter, folder):
    """Returns {name: value} of what figures/device.py prints."""
    with Mosquitto(folder / "broker") as broker:
        done = subprocess.run(
            [*interpreter.command("400k"), str(_DEVICE), str(broker.port), str(folder / "journal.bin")],
            env={"MICROPYPATH": str(folder / "code")},
            capture_output=True,
            text=True,
            timeout=120,
        )
    if done.returncode:
        raise RuntimeError(done.stderr or done.stdout)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}


def main():
    console = Console()
    interpreter = best_runtime()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        build(folder / "code")
        sizes = {p.stem: p.stat().st_size for p in sorted((folder / "code" / "inflight").glob("*.mpy"))}
        found = measure(interpreter, folder)
    table = Table(title=f"Rooms of the client, .mpy -O3, {interpreter.name}", title_justify="left")
    for column in ("room", "bytes of .mpy", "heap after import"):
        table.add_column(column, justify="left" if column == "room" else "right")
    for room, size in sizes.items():
        cost = found.get(f"import_{room}")
        table.add_row(room, str(size), "" if cost is None else f"{cost:.0f}")
    console.print(table)
    table = Table(title="25-byte topic, 64-byte payload, mosquitto on loopback", title_justify="left")
    for column in ("", "", ""):
        table.add_column(column, justify="right" if table.columns else "left")
    for label, key, unit in _ROWS:
        table.add_row(label, f"{found[key]:g}", unit)
    console.print(table)


if __name__ == "__main__":
    sys.exit(main())
