"""What the application takes of a board's heap, and each option of it: `make bench-heap`."""

import tempfile
from pathlib import Path

import typer

from tools.bench.application import heap
from tools.shown import show


def main(markdown: bool = False, modules: bool = False, runs: int = 3):
    """Prints the heap that the application holds on a Pico W and on an ESP32 while it is connected. modules: what each
    module takes that stays, instead. runs: of each configuration."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        show(_modules(folder) if modules else _options(folder, runs), markdown)


def _options(folder, runs):
    found = {board: heap.measure(board, folder / board, runs) for board in heap.BOARDS}
    yield "Heap of the application, connected, and what each option adds", rows(found)


def rows(found):
    """The table of `found`, {board folder: the result of heap.measure()}."""
    head = ["", *(f"{heap.BOARDS[board]}, {what}" for board in found for what in ("bytes", "names"))]
    options = next(iter(found.values()))
    return [head, *([one, *(_signed(n, one) for own in found.values() for n in own[one])] for one in options)]


def _signed(number, option):
    return f"{number:,}" if option == heap.BASE else f"{number:+,}"


def _modules(folder):
    for board, name in heap.BOARDS.items():
        rows = sorted(heap.modules_of(board, folder / board).items(), key=lambda row: -row[1])
        yield f"Modules that stay, {name}", [["module", "bytes"], *([module, f"{took:,}"] for module, took in rows)]


if __name__ == "__main__":
    typer.run(main)
