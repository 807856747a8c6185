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
    head = ["", *(f"{name}, {what}" for name in heap.BOARDS.values() for what in ("bytes", "names"))]
    rows = [
        [option, *(_signed(number, option) for board in found.values() for number in board[option])]
        for option in found["rp2040"]
    ]
    yield "Heap of the application, connected, and what each option adds", [head, *rows]


def _signed(number, option):
    return f"{number:,}" if option == heap.BASE else f"{number:+,}"


def _modules(folder):
    for board, name in heap.BOARDS.items():
        rows = sorted(heap.modules_of(board, folder / board).items(), key=lambda row: -row[1])
        yield f"Modules that stay, {name}", [["module", "bytes"], *([module, f"{took:,}"] for module, took in rows)]


if __name__ == "__main__":
    typer.run(main)
