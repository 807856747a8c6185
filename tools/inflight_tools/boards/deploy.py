"""Deploys the application and its settings to a board that runs MicroPython: copies changed files, and waits for the
board's birth message at the broker."""

import contextlib
import json
from collections import deque
from contextlib import ExitStack

from rich.console import Console
from rich.text import Text

from inflight_tools import options
from inflight_tools.boards import own
from inflight_tools.boards.build import native
from inflight_tools.boards.build.bundle import files
from inflight_tools.boards.connected import running_board, running_port
from inflight_tools.boards.device.console import Console as BoardConsole
from inflight_tools.boards.device.files import hashes
from inflight_tools.boards.device.install import install
from inflight_tools.boards.device.link import DeviceError, Link
from inflight_tools.boards.device.watch import Births, Watch
from inflight_tools.boards.images import variants
from inflight_tools.broker import broker_of_settings
from inflight_tools.output import failing
from inflight_tools.settings import CONFIG, settings
from inflight_tools.visible import visible

_BROKER_S = 15  # time-out for connecting to the broker
_MPY = "import sys\nprint(getattr(sys.implementation, '_mpy', 0))"
_DEVICE = "import launch\nlaunch.main()\nimport board\nprint(board.device_id())"
_TAIL = 8  # lines of the board's console to show if no birth message arrives


def deploy(
    board, port, device_files=None, in_rom=False, say=lambda text: None, before_reset=lambda link: None, app=None
):
    """Installs the application for the board in folder `board` with the modules of one's own in folder `app`, and
    `device_files` ({path: content}: its settings; None keeps the present ones) on the board at `port`, and resets it.
    Returns the executed Plan. Raises DeviceError, ValueError."""
    more = own.files(app, board)
    if more:
        say(f"modules of your own: {', '.join(path.removeprefix('/lib/').removesuffix('.mpy') for path in more)}")
    application = files(board) | more  # compiled before the board has to wait
    with Link(port) as link:
        if processor := fitting(link, board, say):
            application = files(board, processor=processor) | more
        if device_files is None and not hashes(link, [CONFIG]):
            raise DeviceError("there is no configuration on the board: bring one, --config config.json")
        plan = install(link, board, application, device_files or {}, in_rom, say)
        before_reset(link)
    return plan


def fitting(link, board, say):
    """The processor of a board in folder `board` whose machine code it imports, "" if there is none."""
    processor = native.fitting(int(link.run(_MPY)), variants.boards()[board].processors)
    if processor:
        say(f"machine code for {processor}")
    return processor


class Birth:
    """Waits until `broker` has received a birth message of the board after its reset. port: of its console, if it has
    one."""

    def __init__(self, broker, port, seconds):
        self._broker, self._port, self._seconds = broker, port, seconds
        self._births = Births()
        self._watch = Watch(broker, self._births.message, on_end=self._births.end)
        self._device = broker.device

    def __enter__(self):
        self._watch.__enter__()
        self._watch.reach(_BROKER_S, ", --wait 0 not to wait for the board")
        return self

    def __exit__(self, *what):
        self._watch.__exit__(*what)

    def expect(self, identity):
        """Messages that the broker has retained until now belong to an earlier start. identity(): the board's own, if
        the configuration has no `device`; None: it is not known, and the board has a new journal."""
        self._device = self._device or identity() or "+"
        self._watch.follow(self._device, ["status"])
        self._watch.catch_up(_BROKER_S)
        self._births.arm(self._device == "+")

    def wait(self):
        """(the device, the fields of its new birth message). Raises DeviceError with the end of the board's console."""
        lines = deque(maxlen=_TAIL)
        with BoardConsole(self._port, lines.append) if self._port else contextlib.nullcontext():
            fields = self._births.wait(self._seconds)
        if fields:
            return self._births.device, fields
        said = "\n  ".join(lines) or "(nothing)"
        console = f". The board's console:\n  {said}" if self._port else ""
        raise DeviceError(
            f"no birth message at {self._broker.root}/{self._device}/status on {self._broker.place} within "
            f"{self._seconds:g} s: look at Wi-Fi, broker and user in the configuration{console}"
        )


def _run(console, board, port, config, app, tls, broker, wait, in_rom):
    """(executed Plan, fields of the birth message or None)."""

    def say(text):
        console.print(f"  {text}", highlight=False, markup=False)

    port = port or running_port(board)
    if not board:
        with Link(port) as link:
            board = running_board(link)
        say(f"{board} on {port}")
    modules = own.folder_of(app, config)
    chosen = settings(config, tls, variants.known(board), modules)
    with ExitStack() as stack:
        birth = None
        if chosen and wait:
            birth = stack.enter_context(Birth(broker_of_settings(chosen, broker, tls), port, wait))
        folder = variants.board(board).folder

        def before_reset(link):
            if birth:
                birth.expect(lambda: link.run(_DEVICE).split()[-1])

        plan = deploy(folder, port, chosen, in_rom, say, before_reset, modules)
        console.print(f"{len(plan.write)} files written, {len(plan.stale)} removed, {plan.same} were there already")
        if not birth:
            console.print("The board starts. " + ("" if chosen else "Without --config there is no broker to look at."))
            return plan, None
        console.print("The board starts: waiting for its birth message", highlight=False)
        _, fields = birth.wait()
        firmware = visible(str(fields.get("firmware")))
        console.print(Text.assemble((visible(str(fields["state"])), "bold green"), f", firmware {firmware}"))
        return plan, fields


def main(
    board: options.AnyBoardFound = None,
    port: options.PortFound = None,
    config: options.BoardConfig = None,
    app: options.App = None,
    tls: options.BoardTlsOptions = None,
    broker: options.BrokerHere = None,
    wait: options.Wait = options.WAIT_S,
    romfs: options.Romfs = False,
    as_json: options.Json = False,
):
    """Copies changed files to the board, resets it, and succeeds when the broker has received its birth message.
    Without --board and --port it is the one that is connected. Without --config the board keeps its own. --json prints
    what was done, and the birth message."""
    console = Console(soft_wrap=True, stderr=as_json)
    with failing(DeviceError, ValueError, OSError, RuntimeError, console=console):
        plan, birth = _run(console, board, port, config, app, tls.tls, broker, wait, romfs)
    if as_json:
        print(json.dumps({"written": [*plan.write], "removed": plan.stale, "unchanged": plan.same, "birth": birth}))
