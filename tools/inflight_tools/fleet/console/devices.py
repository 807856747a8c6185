"""The pages of the console that devices make with their own messages, and forms that change devices. A broker alone is
needed, no tables."""

from inflight_tools.boards.device.link import DeviceError
from inflight_tools.devices import change, tables
from inflight_tools.devices.roster import Connection
from inflight_tools.fleet.console.server import HTML, TEXT, Refused
from inflight_tools.fleet.report import render_roster
from inflight_tools.output import log, reason
from inflight_tools.visible import visible

_TIMEOUT_S = 30  # for the answer of a device


def _do(connection, device, form):
    """Does what a form says. Returns what has happened."""
    act, field = form.get("act", ""), form.get("field", "").strip()
    log(visible(f"{device.name}: {act} {field}"))
    if act == "restart":
        connection.restart(device, _TIMEOUT_S)
        return "It has restarted."
    if act == "log":
        return "\n".join(connection.log(device, _TIMEOUT_S))
    fields = change.read([f"{field}={form.get('value', '')}"], lambda _: form.get("secret", ""))
    change.check(fields, device.name)
    connection.change(device, change.message(fields), _TIMEOUT_S)
    return "It has taken the change, and is there again."


class DevicePages:
    """`pages` and `changes` for a server.Console, of a devices.roster.Connection. token: what its forms have; None:
    there are none."""

    def __init__(self, connection, token=None):
        self._roster, self._broker, self._token = connection.roster, connection.broker, token
        self._place = f"{self._broker.root}/+ on {self._broker.place}"
        self.pages = {"/": self._fleet, "/device": self._device, "/fresh": lambda _: (TEXT, self._fresh)}
        self.changes = {"/device": self._change} if token else None

    @property
    def _fresh(self):
        return f"{self._roster.version}-{self._roster.trouble}"

    def _fleet(self, _):
        live, devices = self._fresh, self._roster.devices.values()
        return HTML, render_roster(self._place, live, self._roster.trouble, list(map(tables.words, devices)))

    def _find(self, query):
        found = self._roster.devices.get(query.get("name", ""))
        if found is None:
            raise Refused(404, "There is no status of a device of this name.")
        return found

    def _device(self, query, outcome=None):
        live, told = self._fresh, tables.rows(self._find(query))
        more = {"token": self._token, "outcome": outcome}
        return HTML, render_roster(self._place, live, self._roster.trouble, device=told, **more)

    def _change(self, query, form):
        device = self._find(query)
        try:
            with Connection(self._broker) as connection:
                outcome = _do(connection, device, form)
        except (ValueError, DeviceError, OSError) as e:
            outcome = f"Failed: {reason(e)}"
        return self._device(query, outcome)
