"""Rolls a release out to a fleet: some devices first, the others in waves; stops if too many fail."""

import contextlib
import json
import queue
import time
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from inflight_tools import options
from inflight_tools.broker import broker_of_settings
from inflight_tools.output import failing
from inflight_tools.settings import settings
from inflight_tools.signals import stop_event
from inflight_tools.update import keys
from inflight_tools.update import release as releases
from inflight_tools.update.server import Server
from inflight_tools.update.waves import BAD, DISTURBED, EXPIRED, GOOD, OFFLINE, REFUSED, Course, is_other, other, waves
from inflight_tools.visible import visible

_STYLES = {"good": "green", "bad": "bold red", "refused": "bold red", EXPIRED: "bold red", DISTURBED: "bold red"}
_WAIT_S = 0.5
Patience = Annotated[float, typer.Option(min=0.001, help="hours after which a device counts as failed")]
PATIENCE_H = 24  # the default
AGAIN, SKIPPED = "announced again", "skipped"  # reported of a device, beside its states


class Fleet:
    """What the devices at a broker have told. firmware, status: {device: what its status says}; barred: {device: why it
    cannot be updated now, None if it can}."""

    def __init__(self, server):
        self._server = server
        self.firmware, self.status, self.barred = {}, {}, {}
        self.outcomes = {}  # {device: fields of its last message about a release}

    def next(self, seconds):
        """The next (device, kind, fields); None after so many seconds. Raises RuntimeError if none can come."""
        if self._server.ended:
            raise RuntimeError(self._server.ended)
        try:
            device, kind, fields = self._server.events.get(timeout=seconds)
        except queue.Empty:
            return None
        if kind == "status":
            self.firmware[device] = str(fields.get("firmware"))
            self.status[device] = str(fields.get("state", ""))
            self.barred[device] = _barred(fields)
        elif kind == "release" and fields.get("release") is not None:  # None: of an announcement that is not signed
            known = self.outcomes.get(device, {})
            old = fields.get("state") == REFUSED and known.get("state") == GOOD  # perhaps: anybody can send it again
            self.outcomes[device] = known if old else fields
        return device, kind, fields

    def catch_up(self):
        """Takes what the broker has retained."""
        while self.next(0):
            pass

    @property
    def offline(self):
        return {device for device, state in self.status.items() if state == OFFLINE}

    def chosen(self, patterns):
        """The devices that match one of `patterns`."""
        return sorted(d for d in self.firmware if not patterns or any(fnmatchcase(d, p) for p in patterns))


def _barred(status):
    if status.get("state") == OFFLINE:
        return "it is offline"
    return "it has no update_keys" if status.get("updates") is False else None


def run(server, fleet, course, release, report, stopping, skipped=None):
    """Carries out the Course `course` until it has ended, or stopping() is true. report(device, state): what changed,
    or AGAIN; None for both: maybe nothing. skipped: {device: why}; one that can be updated after all is the last.
    Devices without an outcome have no announcement afterwards."""
    skipped = {} if skipped is None else skipped
    try:
        while not course.ended and not stopping():
            now = time.monotonic()
            for device in course.next_wave(now):
                server.announce(device, release)
            for device in course.expire(now):
                _ended(server, course, device, report)
            event = fleet.next(_WAIT_S)
            if event and event[0] in skipped and event[1] == "status" and not fleet.barred[event[0]]:
                del skipped[event[0]]
                course.add(event[0])
            if event and event[1] == "want" and course.fetched(event[0], event[2]["share"]):
                report(event[0], course.states[event[0]])
            if event and event[1] == "release" and course.message(event[0], event[2]):
                _ended(server, course, event[0], report)
            for device, why in server.restore(time.monotonic()).items():
                course.delay(device, why)
                report(device, AGAIN)
            report(None, None)
    finally:
        if left := server.withdraw(*course.states):
            raise ValueError(
                f"release {release.number} is still announced to {', '.join(left)}, since "
                f"{server.ended or 'the broker does not answer'}: when it does, publish an empty retained message to "
                "update/manifest of each"
            )


def _ended(server, course, device, report):
    if device not in course.running:
        server.withdraw(device)
    report(device, course.states[device])


class _Report:
    """Shows progress on a terminal, or as lines of JSON. offline(): devices that are marked so."""

    def __init__(self, console, course, as_json, status, offline):
        self._console, self._course, self._json = console, course, as_json
        self._status, self._offline = status, offline

    def __call__(self, device, state):
        if self._status:
            self._status.update(Text(visible(self._course.summary(self._offline()))))
        if not device:
            return
        reason, percent = self._course.reasons.get(device, ""), self._course.percent.get(device, 0)
        if self._json:
            fields = {"device": device, "state": state} | ({"percent": percent} if percent else {})
            print(json.dumps(fields | ({"reason": reason} if reason else {})), flush=True)
            return
        at = (time.strftime("%H:%M:%S"), "dim")
        word = (visible(state), _STYLES.get(state, "default"))
        more = (f" {percent} %" if percent else "") + (f": {reason}" if reason else "")
        line = Text.assemble(at, f"  {visible(device)}: ", word, visible(more))
        self._console.print(line, soft_wrap=True)


def _table(fleet, devices):
    table = Table(title="Who runs what", title_justify="left")
    for title in ("device", "status", "firmware", "last release", "outcome"):
        table.add_column(title)
    for device in devices:
        last = fleet.outcomes.get(device, {})
        outcome = ": ".join(str(word) for word in (last.get("state"), last.get("reason")) if word)
        words = (fleet.firmware[device], last.get("release", ""), outcome)
        status = Text(visible(fleet.status[device]), "bold red" if device in fleet.offline else "")
        table.add_row(Text(visible(device)), status, *(Text(visible(str(word))) for word in words))
    return table


def _planned(fleet, devices, release, canary, wave):
    """(the waves of those that have no outcome of this release yet, {device: why it is not in them})."""
    skipped, left = {}, []
    for device in devices:
        told = fleet.outcomes.get(device, {})
        state = told.get("state") if told.get("release") == release.number else None
        if state in (GOOD, BAD) and is_other(told, release.digest):
            skipped[device] = other(release.number, state)
        elif state in (GOOD, BAD) and "sha256" in told:
            continue
        elif why := fleet.barred.get(device):
            if state not in (GOOD, BAD):
                skipped[device] = why
        else:
            left.append(device)
    return waves(left, canary, wave), skipped


def main(
    release: Annotated[
        Path | None, typer.Argument(help="file of `inflight release`; without one: shows the fleet")
    ] = None,
    config: options.Config = options.CONFIG,
    device: Annotated[list[str] | None, typer.Option(help="a device, or a pattern, attic-*; can be repeated")] = None,
    canary: Annotated[int, typer.Option(min=0, help="devices of the first wave")] = 1,
    wave: Annotated[float, typer.Option(min=0.1, max=100, help="percent of the devices in each later wave")] = 25,
    stop_at: Annotated[float, typer.Option(min=0.1, help="percent of failures at which it stops")] = 10,
    patience: Patience = PATIENCE_H,
    withdraw: Annotated[
        Path | None,
        typer.Option(help="file of the private key: takes the release back from all devices that do not run it"),
    ] = None,
    tls: options.TlsOptions = None,
    broker: options.BrokerHere = None,
    as_json: options.Json = False,
):
    """Rolls a release out to the devices at a broker, and shows who runs what. Runs until every device has an outcome;
    after Ctrl-C the same command goes on. On a terminal the last line tells how much of the release each device has.
    Without --device these are all devices. --json prints each change, each quarter of a fetch, and the end. A device
    that is offline, or has no update_keys, is skipped, and named, unless it connects meanwhile.
    Exit status 0: all of them run it, or with --withdraw none of them ever will."""
    console = Console(stderr=as_json)
    with failing():
        image = releases.load(release) if release else None
        if image and withdraw:
            image, canary, wave, stop_at = releases.withdrawn(image, keys.load(withdraw)), 0, 100, 101
        place = broker_of_settings(settings(config, tls.tls, dry=False), broker, tls.tls)
        found = roll_out(console, place, image, device, as_json, patience, canary, wave, stop_at)
    conclude(console, image, as_json, *found)


def roll_out(console, place, image, patterns, as_json, patience, canary=0, wave=100, stop_at=101, stop=stop_event):
    """Rolls the Release `image`, None: none, out to the devices at the Broker `place` that match one of `patterns`, by
    default all. stop: makes the context of an event that ends it. The other arguments are options of main(). Returns
    the last arguments for conclude()."""
    with Server(place) as server, stop() as stopping:
        fleet = Fleet(server)
        fleet.catch_up()
        devices = fleet.chosen(patterns)
        if not devices:
            raise ValueError(f"no devices at {place.root}/+/status on {place.place} that match")
        course, skipped = None, {}
        if image:
            planned, skipped = _planned(fleet, devices, image, canary, wave)
            course = Course(image.number, planned, stop_at, patience * 3600, image.digest)
            with contextlib.ExitStack() as stack:
                status = stack.enter_context(console.status("begins")) if console.is_terminal else None
                report = _Report(console, course, as_json, status, lambda: fleet.offline)
                for name, why in skipped.items():
                    course.reasons[name] = why
                    report(name, SKIPPED)
                run(server, fleet, course, image, report, stopping.is_set, skipped)
    return fleet, devices, course, server.refused, skipped


def conclude(console, image, as_json, fleet, devices, course, refused, skipped):
    """Shows the end; exit status 1 if not all devices run the release."""
    good = [d for d in devices if _is_good(fleet, d, image)] if image else devices
    if as_json:
        skips = {"skipped": skipped} if image else {}
        found = {d: {"status": fleet.status[d], "firmware": fleet.firmware[d], **_told(fleet, d)} for d in devices}
        print(json.dumps({"devices": found, "stopped": bool(course and course.stopped), "refused": refused} | skips))
    else:
        console.print(_table(fleet, devices))
        if refused:
            console.print(f"{refused} messages were none that a device sends, or too many of one: they were not read")
    if skipped and not as_json:
        names = ", ".join(f"{visible(device)} ({why})" for device, why in sorted(skipped.items()))
        console.print(Text(f"skipped: {names}"), soft_wrap=True)
    if course and course.stopped:
        console.print(f"[bold red]STOPPED[/bold red]: {len(course.failed)} of {len(course.states)} devices failed")
    if len(good) < len(devices):
        raise typer.Exit(1)


def _told(fleet, device):
    last = fleet.outcomes.get(device, {})
    return {name: last[name] for name in ("release", "state", "reason", "sha256") if name in last}


def _is_good(fleet, device, release):
    last = fleet.outcomes.get(device, {})
    is_this = last.get("release") == release.number and not is_other(last, release.digest)
    return is_this and last.get("state") == (GOOD if release.digest else BAD)
