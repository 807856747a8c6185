"""The pages of the console that devices make with their own messages, and forms that change devices. A broker alone is
needed, no tables."""

import contextlib
import functools
import glob
import io
import json
import threading
import zlib

from rich.console import Console

from inflight_tools.boards.device.link import DeviceError
from inflight_tools.devices import change, form, tables
from inflight_tools.devices.roster import ONLINE, Connection, NotYet
from inflight_tools.fleet.console.server import HTML, JSON, TEXT, Refused
from inflight_tools.fleet.report import render_roster
from inflight_tools.output import WrongArgument, log, reason
from inflight_tools.update import release as releases
from inflight_tools.update.rollout import PATIENCE_H, roll_out
from inflight_tools.visible import visible

_TIMEOUT_S = 30  # for the answer of a device
_IS_BACK = "It has taken the change, and is there again."


def _digest(configuration):
    return f"{zlib.crc32(json.dumps(configuration, sort_keys=True).encode()):x}"


_UNKNOWN = "what sensors and actuators it has is not known, and these would replace them: fill in a backup before"
_BLANK = _digest({})  # of a form that was shown while the device did not answer: what is empty there stays


def _of_backup(text, name):
    """The configuration in a file that this console or `inflight device backup` has written."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("device", name) != name:
        raise ValueError(f"this is no backup of {name}: choose a file that `Back up` has written")
    return found


class _Updates:
    """Roll-outs of the releases in `folder`, None: none, to one device each, at a Broker."""

    def __init__(self, broker, folder):
        self._broker, self._folder = broker, folder
        self._lock = threading.Lock()
        self._running = {}  # {device: (thread, file with what it has reported, event that ends it)}

    @property
    def names(self):
        return sorted(path.name for path in self._folder.glob("*.release")) if self._folder else []

    @property
    def version(self):
        """A text that differs with each report."""
        return ",".join(str(told.tell()) for _, told, _ in tuple(self._running.values()))

    def begin(self, device, name):
        """Begins one. Raises ValueError, OSError."""
        with self._lock:
            if device.name in self._running and self._running[device.name][0].is_alive():
                raise ValueError("an update of it is under way: stop that first")
            if name not in self.names:
                raise ValueError("choose a release of the list")
            image = releases.load(self._folder / name)
            if image.fields["board"] != device.status.get("board"):
                raise ValueError(f"this release is for the board {image.fields['board']}")
            told, stopping = io.StringIO(), threading.Event()
            thread = threading.Thread(target=self._run, args=(device.name, image, told, stopping))
            self._running[device.name] = thread, told, stopping
            thread.start()

    def _run(self, name, image, told, stopping):
        console = Console(file=told, force_terminal=False)

        def stop():
            return contextlib.nullcontext(stopping)

        try:
            fleet, *_ = roll_out(console, self._broker, image, [glob.escape(name)], False, PATIENCE_H, stop=stop)
            if stopping.is_set():
                console.print("stopped")
            elif not told.getvalue():
                state = fleet.outcomes.get(name, {}).get("state")
                console.print(visible(f"this release is {state} there already"), markup=False, soft_wrap=True)
        except (ValueError, RuntimeError, OSError) as e:
            log(visible(f"{name}: {reason(e)}"))  # when the console ends, nobody sees the page
            console.print(f"Failed: {visible(reason(e))}", markup=False, soft_wrap=True)

    def rows(self, name):
        """What a page tells of the last one of a device."""
        _, told, _ = self._running.get(name, (None, None, None))
        return {"update": told.getvalue().strip().rpartition("\n")[2] or "begins"} if told else {}

    def end(self, *names):
        """Withdraws what is under way of the devices of these names, by default of all."""
        with self._lock:
            found = [self._running[name] for name in names or self._running if name in self._running]
            for _, _, stopping in found:
                stopping.set()
            for thread, _, _ in found:
                thread.join()


class DevicePages:
    """`pages` and `changes` for a server.Console, of a devices.roster.Connection. token: what its forms have; None:
    there are none. folder: of releases that viewers may install, None: none. Its context ends updates."""

    def __init__(self, connection, token=None, folder=None):
        self._roster, self._broker, self._token = connection.roster, connection.broker, token
        self._updates = _Updates(connection.broker, folder)
        self._place = f"{self._broker.root}/+ on {self._broker.place}"
        self._more_trouble = lambda: ""
        self.pages = {"/": self.fleet, "/device": self.device}
        self.pages["/fresh"] = lambda query: (TEXT, self.fresh(query.get("name")))
        self.changes = {"/device": self.change} if token else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self._updates.end()

    def fresh(self, name=None):
        """A text that differs when the page of that device does, None: of all."""
        found = self._roster.devices.get(name, self._roster)
        return _digest([found.version, self._updates.version, self._trouble])

    @property
    def _trouble(self):
        return " ".join(filter(None, (self._roster.trouble, self._more_trouble())))

    def tell_also(self, trouble):
        """trouble(): what else these pages tell, a text, "": nothing."""
        self._more_trouble = trouble

    def _page(self, live, **more):
        return HTML, render_roster(self._place, live, self._trouble, token=self._token, **more)

    def fleet(self, _):
        """The page of all devices."""
        return self._page(self.fresh(), devices=list(map(tables.words, self._roster.devices.values())))

    def _find(self, query):
        found = self._roster.devices.get(query.get("name", ""))
        if found is None:
            raise Refused(404, "There is no status of a device of this name.")
        return found

    @property
    def installable(self):
        """Names of releases."""
        return self._updates.names

    def told(self, name):
        """{name: value} of what a device tells; None of one that has no status."""
        found = self._roster.devices.get(name)
        return found and tables.rows(found) | self._updates.rows(name)

    def device(self, query, outcome=None):
        """The page of a device. outcome: of its last form."""
        name = self._find(query).name
        fresh, told = self.fresh(name), self.told(name)
        return self._page(fresh, device=told, outcome=outcome, installable=self.installable)

    def _settings(self, device, texts, outcome=None, wrong=()):
        # It is not renewed: a person fills it in.
        shown = form.shown(texts, str(device.status.get("board")))
        return self._page(None, device={"device": device.name}, form=shown, outcome=outcome, wrong=wrong or {})

    def change(self, query, given, page=None):
        """Does what a form of a device says. page: as device(), by default that."""
        device, act, page = self._find(query), given.get("act", ""), page or self.device
        log(visible(f"{device.name}: {act}"))
        try:
            if act == "add":
                if given.get("of") == _BLANK and not form.has_entries(given):
                    raise WrongArgument(_UNKNOWN)
                return self._settings(device, form.added(given))
            if act == "update":
                self._updates.begin(device, given.get("release", ""))
                return page(query, outcome="It begins: `update` tells how far it is.")
            if act == "stop":
                self._updates.end(device.name)
                return page(query, outcome="No update of it is under way.")
            if act == "fill":
                found = _of_backup(given.get("file", ""), device.name)
                kept = ", ".join(filter(change.by_cable, found))
                told = f"Not filled in, since only a cable changes them: {visible(kept)}" if kept else None
                return self._settings(device, form.texts(found) | {"of": given.get("of", "")}, told)
            with Connection(self._broker) as connection:
                return self._asked(connection, device, given, functools.partial(page, query))
        except NotYet as e:
            return page(query, outcome=f"Not yet: {e}")
        except (ValueError, DeviceError, OSError) as e:
            outcome = f"Failed: {reason(e)}"
        if act in ("add", "fill", "check", "save"):
            return self._settings(device, given, outcome)
        return page(query, outcome=outcome)

    def _asked(self, connection, device, given, page):
        """Does what a form says that asks the device. page: of an outcome."""
        act = given.get("act", "")
        if act == "restart":
            connection.restart(device, _TIMEOUT_S)
            return page(outcome="It has restarted.")
        if act == "log":
            return page(outcome="\n".join(connection.log(device, _TIMEOUT_S)))
        # {}: it does not answer now.
        known = connection.configuration(device, _TIMEOUT_S) if device.state == ONLINE else {}
        if act == "backup":
            if not known:
                raise DeviceError("it does not answer now: what it has is not known")
            text = json.dumps({"device": device.name} | known, indent=2, ensure_ascii=False)
            return JSON, text + "\n", f"{device.name}.json"
        of = _digest(known)
        if act not in ("check", "save"):
            texts = form.texts(known) | {"of": of}
            return self._settings(device, texts, None if known else "It does not answer now: what it has is not known.")
        shown = given.get("of", of)
        is_old = shown not in (of, _BLANK)
        if is_old and not known:
            raise DeviceError("it does not answer now: what it has is not known")
        fields = form.changes(given, {} if shown == _BLANK else known)
        wrong, kept = form.errors(given, fields, device.name, known)
        lines = [*wrong.values()] if wrong else [*change.described(fields, known)] or ["Nothing changes."]
        lines += [f"This was wrong before, and stays so: {problem}" for problem in kept]
        if is_old and not wrong:
            given = given | {"of": of}
            lines.insert(0, "Not saved yet: its settings have changed since this form was shown. What it changes now:")
        if act == "check" or wrong or is_old or not fields:
            return self._settings(device, given, "\n".join(lines), wrong)
        change.send(connection, device, fields, _TIMEOUT_S)
        return page(outcome="\n".join([*lines, _IS_BACK]))
