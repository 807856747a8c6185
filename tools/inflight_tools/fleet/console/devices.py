"""The pages of the console that devices make with their own messages, and forms that change devices. A broker alone is
needed, no tables."""

import functools
import json

from inflight_tools.boards.device.link import DeviceError
from inflight_tools.devices import change, form, tables
from inflight_tools.devices.roster import ONLINE, Connection
from inflight_tools.fleet.console.server import HTML, JSON, TEXT, Refused
from inflight_tools.fleet.report import render_roster
from inflight_tools.output import log, reason
from inflight_tools.visible import visible

_TIMEOUT_S = 30  # for the answer of a device
_IS_BACK = "It has taken the change, and is there again."


def _known(connection, device):
    """The configuration of a Device, a dict; {} of one that does not answer now."""
    return connection.configuration(device, _TIMEOUT_S) if device.state == ONLINE else {}


def _of_backup(text, name):
    """The fields of a form, of a file that this console or `inflight device backup` has written."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found.get("device", name) != name:
        raise ValueError(f"this is no backup of {name}: choose a file that `Back up` has written")
    return form.texts(found)


class DevicePages:
    """`pages` and `changes` for a server.Console, of a devices.roster.Connection. token: what its forms have; None:
    there are none."""

    def __init__(self, connection, token=None):
        self._roster, self._broker, self._token = connection.roster, connection.broker, token
        self._place = f"{self._broker.root}/+ on {self._broker.place}"
        self.pages = {"/": self.fleet, "/device": self.device, "/fresh": lambda _: (TEXT, self.fresh)}
        self.changes = {"/device": self.change} if token else None

    @property
    def fresh(self):
        """A text that differs when a page does."""
        return f"{self._roster.version}-{self._roster.trouble}"

    def _page(self, live, **more):
        return HTML, render_roster(self._place, live, self._roster.trouble, token=self._token, **more)

    def fleet(self, _):
        """The page of all devices."""
        return self._page(self.fresh, devices=list(map(tables.words, self._roster.devices.values())))

    def _find(self, query):
        found = self._roster.devices.get(query.get("name", ""))
        if found is None:
            raise Refused(404, "There is no status of a device of this name.")
        return found

    def told(self, name):
        """{name: value} of what a device tells; None of one that has no status."""
        found = self._roster.devices.get(name)
        return found and tables.rows(found)

    def device(self, query, outcome=None):
        """The page of a device. outcome: of its last form."""
        return self._page(self.fresh, device=tables.rows(self._find(query)), outcome=outcome)

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
                return self._settings(device, form.added(given))
            if act == "fill":
                return self._settings(device, _of_backup(given.get("file", ""), device.name))
            with Connection(self._broker) as connection:
                return self._asked(connection, device, given, functools.partial(page, query))
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
        known = _known(connection, device)
        if act == "backup":
            text = json.dumps({"device": device.name} | known, indent=2, ensure_ascii=False)
            return JSON, text + "\n", f"{device.name}.json"
        if act not in ("check", "save"):
            return self._settings(
                device, form.texts(known), None if known else "It does not answer now: what it has is not known."
            )
        fields = form.changes(given, known)
        wrong, kept = form.errors(fields, device.name, known)
        lines = [*wrong.values()] if wrong else [*change.described(fields, known)] or ["Nothing changes."]
        lines += [f"This was wrong before, and stays so: {problem}" for problem in kept]
        if act == "check" or wrong or not fields:
            return self._settings(device, given, "\n".join(lines), wrong)
        connection.change(device, change.message(fields), _TIMEOUT_S)
        return page(outcome="\n".join([*lines, _IS_BACK]))
