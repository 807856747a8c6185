"""Firmware of an ESP32 proves itself, or the bootloader and the records go back to the one before: with a power cut at
any place."""

import sys

import codes
import starting
import trials
from esp32_partitions import FIRST, POWER_ON, RESET, SECOND, VALID, Chip, PowerCut, Reset, firmware
from harness import CUT_STEP, eq
from ports import install
from scratch import Folder
from trial_app import App, Board, Restart
from update_record import IDLE, STARTS, Record, load, store

RUNTIMES = "cpython micropython-x86"

sys.path.insert(0, codes.__file__.rsplit("/", 2)[0] + "/esp32")
WORKS, CRASHES, FINDS_NOBODY = "works", "crashes", "finds nobody"


class Device(Folder):
    """A device with release 3, whose trial of firmware begins, release 4: its second partition has it."""

    def __init__(self, behaviour, cuts=()):
        self.behaviour = behaviour
        self.cuts = list(cuts)  # operations from the start or the last cut on
        self.told = []
        self.tries = 0  # starts of the firmware
        self.chip = chip = Chip()
        chip.content[SECOND][:100] = firmware(4, 100)

    def __enter__(self):
        super().__enter__()
        install(machine=self.chip.machine, esp32=self.chip.inside)
        sys.modules.pop("trial", None)
        self._stores = starting.store, trials.store
        starting.store = trials.store = self._store
        record = Record()
        record.release = 3
        record.fetch(4, 300, SECOND)
        record.begin_trial()
        store(self.path, record)
        self._arm()
        return self

    def __exit__(self, *_):
        starting.store, trials.store = self._stores
        sys.modules.pop("trial", None)
        super().__exit__()

    def _arm(self):
        self.chip.operations = 0
        self.chip.cut_at = self.cuts.pop(0) if self.cuts else -1

    def _store(self, folder, record):
        self.chip.operation()
        store(folder, record)

    def run(self):
        """Starts it until it has told the outcome, and twice more."""
        cause, more = RESET, 3
        while more:
            try:
                self._start(cause)
                cause = POWER_ON  # it is switched off
                if load(self.path).outcome == 0 and load(self.path).state == IDLE:
                    more -= 1
            except (Reset, Restart):
                cause = RESET
            except PowerCut:
                self._arm()
                cause = POWER_ON

    def _start(self, cause):
        self.chip.boot(cause)
        eq(starting.slot(self.path), "")  # the application stays
        runs_new = self.chip.running == SECOND
        self.tries += runs_new
        self.chip.operation()  # anything else that the application does
        if runs_new and self.behaviour == CRASHES:
            raise Reset
        app = App(Board(self.path, codes.SOFT))
        trial = trials.begin(app.board)
        if trial:
            trial.begin(app)
            if not (runs_new and self.behaviour == FINDS_NOBODY):
                app.connect()
                app.acknowledge()
            app.up = 900
            if app.update:
                app.update.step()
        self.told += [fields["state"] for _, fields, _ in app.told]
        self.chip.operation()


def check_good(device):
    chip, record = device.chip, load(device.path)
    eq((chip.running, chip.states[SECOND], set(device.told)), (SECOND, VALID, {"good"}))
    eq((record.release, record.failed, record.current), (4, 0, ""))


def check_bad(device):
    chip, record = device.chip, load(device.path)
    eq((chip.running, chip.states[FIRST], set(device.told)), (FIRST, VALID, {"bad"}))
    eq((record.release, record.failed, record.current), (3, 4, ""))


def test_firmware_that_fails_is_given_up():
    """And what the bootloader refuses. What works stays."""
    for behaviour, header, check, told, tries in (
        (WORKS, 0xE9, check_good, "good", 3),
        (WORKS, 0, check_bad, "bad", 0),
        (CRASHES, 0xE9, check_bad, "bad", STARTS),
        (FINDS_NOBODY, 0xE9, check_bad, "bad", 1),
    ):
        with Device(behaviour) as device:
            device.chip.content[SECOND][0] = header
            device.run()
            check(device)
            if header:
                eq(device.told, [told])
            eq(device.tries, tries)


def test_power_cuts_at_any_two_places():
    step = 1 if CUT_STEP == 1 else 3
    for behaviour, check in ((WORKS, check_good), (CRASHES, check_bad), (FINDS_NOBODY, check_bad)):
        for first in range(16):
            for second in range(first % step, 16, step):
                with Device(behaviour, (first, second)) as device:
                    device.run()
                    check(device)


def test_power_cuts_do_not_keep_firmware_for_ever():
    with Device(WORKS, [1] * 100) as device:
        device.run()
        check_bad(device)
        eq(device.tries, 0)


def test_firmware_that_was_good_and_starts_no_more():
    """The power goes whenever the bootloader is to be told that it is good."""
    with Device(WORKS, [4] + [3] * 40) as device:
        device.run()
        record = load(device.path)
        eq((device.chip.running, set(device.told)), (FIRST, {"bad"}))
        eq((record.release, record.failed), (0, 4))


def test_a_trial_of_an_application_follows():
    with Device(WORKS) as device:
        device.run()
        record = load(device.path)
        record.fetch(5, 300)
        record.begin_trial()
        store(device.path, record)
        device.chip.boot(RESET)
        eq((starting.slot(device.path), device.chip.running), ("a", SECOND))
