"""An emulated Pico W for mpremote: `python -m tools.emulators.pico_w.serve [--uf2 FILE] [PORT]`, then
`mpremote connect socket://127.0.0.1:PORT`. FILE: another firmware than MicroPython's own. What it writes to its flash
is gone when it ends."""

import argparse
import asyncio
import contextlib
import sys

from rp2040py.cli.socket_repl import SocketInteractiveRepl

from tools.emulators.pico_w import image
from tools.emulators.pico_w.board import Board


async def serve(board, port=0, ready=print):
    """Runs the board from cold, with its console on a TCP port of loopback; calls ready(address) once it listens to
    it. Returns when the board stops."""
    board.simulator.in_real_time = True  # or a watchdog ends the board while it waits for the next command
    await board.astart()  # returns when USB is up: before that a byte would be lost
    console = SocketInteractiveRepl(board.cdc, board.simulator, on_quit=lambda _: board.stop(), port=port)
    await console.start()
    ready(f"socket://127.0.0.1:{console.port}")
    try:
        await asyncio.wait([board.simulator._execute_task])
    finally:
        await console.stop()


def main():
    if reason := image.unavailable():
        sys.exit(reason)
    parser = argparse.ArgumentParser()
    parser.add_argument("--uf2")
    parser.add_argument("port", type=int, nargs="?", default=0)
    words = parser.parse_args()
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(serve(Board(uf2=words.uf2), words.port, lambda address: print("ready:", address, flush=True)))


if __name__ == "__main__":
    main()
