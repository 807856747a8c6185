"""The costs of the client, compared with a bare socket and other clients: `make bench`."""

import json
import os
import tempfile
import time
from pathlib import Path

import typer

from inflight_tools.cache import write_atomic
from inflight_tools.output import log
from tools.bench.figures import measure, peers
from tools.bench.figures.plot import svg
from tools.bench.figures.run import Code, responder
from tools.bench.figures.show import tables
from tools.bench.figures.starts import starts
from tools.demo.sensors import best_runtime
from tools.peers.mosquitto import Mosquitto
from tools.setup.common import CHECKOUT
from tools.shown import show

app = typer.Typer(pretty_exceptions_enable=False)


def run(folder, others, effort):
    """Returns all figures as a dict. `others`: the result of peers.find()."""
    interpreter = best_runtime()
    machine = {"runtime": interpreter.name, "cores": os.cpu_count(), "load": round(os.getloadavg()[0], 1)}
    figures = {"machine": {"date": time.strftime("%Y-%m-%d"), **machine}}
    names = ["ours", *others]
    level_5 = [peers.AT_LEVEL_5[name] for name in names if name in peers.AT_LEVEL_5]
    code = Code(folder / "code", interpreter, others)
    figures["sizes"] = code.sizes
    with Mosquitto(folder / "broker") as broker, responder() as port:
        parts = {
            "costs": lambda: measure.costs(code, broker.port, names + level_5, effort),
            "rom": lambda: measure.costs(code, broker.port, ["ours"], effort, rom=True),
            "modules": lambda: measure.modules(code),
            "smallest": lambda: measure.smallest(code, broker.port, names, effort),
            "smallest_rom": lambda: measure.smallest(code, broker.port, ["ours"], effort, rom=True),
            "rates": lambda: measure.rates(code, port, [*names, *level_5, "ours_websocket"], effort),
            "of_level_4": lambda: measure.of_level_4(code, port, effort),
            "on_cpython": lambda: measure.at_level_5_on_cpython(port, effort),
            "trips": lambda: measure.trips(code, port, names, effort),
            "starts": starts,
            "wear": lambda: measure.wear(code, port, effort),
            "wear_by_size": lambda: measure.wear_by_size(code, port, effort),
        }
        for name, part in parts.items():
            log(name.replace("_", " "))
            figures[name] = part()
    return figures


def plots(figures):
    """{file name: SVG}."""
    trip = ("QoS 1 over a slow link", "round trip, ms", "messages/s")
    wear = ("Wear of an RP2040's flash", "bytes of the message", "bytes erased per byte")
    return {"throughput.svg": svg(*trip, figures["trips"]), "wear.svg": svg(*wear, figures["wear_by_size"])}


@app.command()
def main(
    others: Path = typer.Option(
        None, "--peers", help="a folder with checkouts of umqtt.simple, umqtt.simple2, mqtt_as"
    ),
    out: Path = typer.Option(CHECKOUT / "build/bench.json", "--json", help="file for the figures, beside the plots"),
    markdown: bool = typer.Option(False, help="print the tables as Markdown"),
    tiny: bool = typer.Option(False, help="use few messages: sizes are exact, rates mean nothing"),
):
    """Measures everything in one run. It takes minutes; the machine should be idle."""
    try:
        found = peers.find(others) if others else {}
        with tempfile.TemporaryDirectory(prefix="bench-") as folder:
            figures = run(Path(folder), found, measure.TINY if tiny else measure.FULL)
    except (ValueError, RuntimeError) as e:
        typer.secho(f"bench: {e}", fg="red", err=True)
        raise typer.Exit(1) from None
    out.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(out, json.dumps(figures, indent=1) + "\n")
    for name, picture in plots(figures).items():
        write_atomic(out.parent / name, picture)
    show(tables(figures), markdown)
    log(f"figures are in {out}")


if __name__ == "__main__":
    app()
