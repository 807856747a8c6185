"""What the devices at a broker tell about themselves, and their answers to commands."""

import contextlib
import difflib
import secrets
import threading
import time

from inflight_tools.boards.device.link import DeviceError
from inflight_tools.boards.device.watch import Births, Watch
from inflight_tools.boards.monitor import records
from inflight_tools.output import WrongArgument
from inflight_tools.payload import fields_of, whole

KINDS = ("status", "release", "health", "telemetry", "state")
ONLINE, ASLEEP = "online", "asleep"
_TIMEOUT_S = 15  # for the broker
_LONGEST = 8_192  # bytes of a message that is read: more than a device sends
_MOST = 100_000  # devices: anybody may make up more
_NUMBERS = 2**32 - 1
_SHORT = 505  # bytes of topic and payload that a device with the default `buffer` receives
_HEALTH_S = 5  # it comes right behind the birth


class NotYet(DeviceError):
    """A device that is not online now has not answered a command, which it gets later."""


class Device:
    """The newest messages of the device `name`, dicts. `readings`: [(name, unit, value, when or None)], received at
    `read_at`, s since 1970; None: at an unknown time. since: when its status came; None: it was retained. started: when
    its program began."""

    def __init__(self, name):
        self.name = name
        self.status, self.release, self.health, self.readings = {}, {}, {}, []
        self.since = self.started = self.read_at = None
        self.version = 0  # grows with each message

    @property
    def state(self):
        return str(self.status.get("state", "?"))

    @property
    def has_told_all(self):
        """Whether a device that is online has told its readings and its health since."""
        return self.state != ONLINE or bool(self.read_at and self.health)

    def take(self, kind, payload, retained, now):
        self.version += 1
        if kind == "telemetry":
            if rows := [row for row in records(payload, now) if row]:
                self.readings, self.read_at = rows[-1], now
            return
        fields = fields_of(payload)
        if kind != "state":
            setattr(self, kind, fields)
            if kind == "status":
                self.since = None if retained else now
            if type(fields.get("up")) is int:  # of health
                self.started = min(max(now - fields["up"], 0), now)
        elif not self.read_at and isinstance(fields.get("readings"), dict):  # retained, with `ha`
            taken = whole(fields, "t", _NUMBERS) if "t" in fields else None  # its clock may be ahead
            self.readings = [(name, "", value, taken) for name, value in fields["readings"].items()]


class Roster:
    """The devices that have a status at a broker. A thread of Paho's calls message() and end()."""

    def __init__(self):
        self._devices = {}
        self._changed = threading.Condition()
        self._ended = None
        self.version = 0  # grows with each message
        self.trouble = ""  # what the connection to the broker reports
        self._awaited = self.reply = self.health = None
        self.births = Births()

    def message(self, device, kind, payload, retained):
        """For Watch(on_message=...)."""
        if len(payload) > _LONGEST or (device not in self._devices and len(self._devices) >= _MOST):
            return
        with self._changed:
            self.version += 1
            if kind in KINDS:
                self._devices.setdefault(device, Device(device)).take(kind, payload, retained, time.time())
            if self._awaited and device == self._awaited[0]:
                self._take_answer(kind, payload, retained)
            self._changed.notify_all()

    def _take_answer(self, kind, payload, retained):
        fields, (device, command, number) = fields_of(payload), self._awaited
        if kind == "status":
            self.births.message(device, kind, payload, retained)
        elif kind == "health" and self.births.device:
            self.health = fields
        elif kind == f"reply/{command}" and not (retained or self.reply):
            number_in = fields.get("number", number if fields.get("ok") is False else None)  # a refusal has none
            if number_in == number:
                self.reply = fields
                self.births.arm()

    def end(self, why):
        """For Watch(on_end=...)."""
        with self._changed:
            self._ended = self.trouble = why
            self.version += 1
            self._changed.notify_all()

    def report(self, trouble):
        """For Watch(on_trouble=...)."""
        self.trouble = trouble

    def wait(self, happened, seconds):
        """Returns happened() as soon as it is true, or after so many seconds. Raises DeviceError if nothing comes any
        more."""
        with self._changed:
            self._changed.wait_for(lambda: self._ended or happened(), seconds)
            if self._ended:
                raise DeviceError(self._ended)
            return happened()

    @property
    def devices(self):
        """Those that have a status, by name."""
        return {name: found for name, found in sorted(self._devices.copy().items()) if found.status}

    def find(self, name):
        """The Device of that name, or the only one whose name begins so. Raises WrongArgument."""
        names = list(self.devices)
        found = [name] if name in names else [other for other in names if name and other.startswith(name)]
        if len(found) == 1:
            return self._devices[found[0]]
        if found:
            raise WrongArgument(f"{name} may be {_listed(found)}: write more of it")
        near = difflib.get_close_matches(name, names, 5, 0.4) or names
        raise WrongArgument(f"there is no device {name}: there is {_listed(near)}")

    def expect(self, device, command, number):
        """From now on `reply` is the answer of the device to the command of that number, and `births` and `health`
        tell the start that follows it."""
        with self._changed:
            self._awaited = device, command, number
            self.reply, self.births, self.health = None, Births(), None


def _listed(names):
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


class Connection:
    """A Roster of the devices at a Broker, which has what is retained, and commands to them. Commands raise DeviceError
    if the device refuses, or does not answer within `timeout_s`. kinds: what else is listened to."""

    def __init__(self, broker, *kinds):
        self.broker = broker
        self.roster = Roster()
        self._watch = Watch(self.broker, self.roster.message, self.roster.report, self.roster.end)
        self._kinds = kinds

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._watch)
            self._watch.reach(_TIMEOUT_S)
            self._follow("+", *KINDS[:2], *self._kinds)
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_):
        self._stack.close()

    def _follow(self, *what):
        self._watch.follow(what[0], what[1:])
        self._watch.catch_up(_TIMEOUT_S)

    def log(self, device, timeout_s):
        """The last lines of the log of a Device, texts."""
        lines = self._command(device, "log", b"", timeout_s).get("lines")
        return [str(line) for line in lines] if isinstance(lines, list) else []

    def restart(self, device, timeout_s):
        """Restarts a Device, and returns when it is there again."""
        self._command(device, "reboot", b"", timeout_s)
        self._wait_for_birth(device, timeout_s)

    def configuration(self, device, timeout_s):
        """The configuration of a Device without its secrets, a dict."""
        found = self._command(device, "set", b"", timeout_s).get("config")
        return found if isinstance(found, dict) else {}

    def change(self, device, payload, timeout_s):
        """For change.send(): sends its message to a Device, and returns when that is there again what it tells of a
        change that it has given up, this one or one before; or ""."""
        self._command(device, "set", payload, timeout_s)
        self._wait_for_birth(device, timeout_s)
        health = self.roster.wait(lambda: self.roster.health, _HEALTH_S)
        error = health and health.get("error")
        text = str(error.get("text")) if isinstance(error, dict) else ""
        return text if text.startswith("set: ") else ""

    def _command(self, device, command, payload, timeout_s):
        name = device.name
        number = secrets.randbelow(_NUMBERS) + 1
        topic = f"{name}/command/{command}@{number}"
        self.roster.expect(name, command, number)
        self._follow(name, "status", "health", f"reply/{command}")
        self._watch.publish(topic, payload, _TIMEOUT_S)
        answer = self.roster.wait(lambda: self.roster.reply, timeout_s)
        if not answer:
            size = len(f"{self.broker.root}/{topic}".encode()) + len(payload)
            long = f"; {size} bytes are more than it receives, unless its `buffer` is larger" if size > _SHORT else ""
            error = DeviceError if device.state == ONLINE else NotYet
            raise error(f"no answer of {name} within {timeout_s:g} s: {later(device)}{long}")
        if answer.get("ok") is not True:
            raise DeviceError(f"{name} refuses: {answer.get('error')}")
        return answer

    def _wait_for_birth(self, device, timeout_s):
        if not self.roster.wait(lambda: self.roster.births.device, timeout_s):
            raise DeviceError(
                f"{device.name} has not come back within {timeout_s:g} s; settings with which it does not connect "
                "within 15 minutes, or in one wake, it gives up for the old ones"
            )


def later(device):
    """What becomes of a command that the Device does not answer now."""
    if device.state == ONLINE:
        return "it is online; may this user publish to command/# of it, and read reply/#?"
    next_s = device.status.get("next_s")
    if device.state == ASLEEP and isinstance(next_s, int):
        return f"it is asleep, and gets the command when it reports next, {next_s} s after its last report"
    return f"it is {device.state}, and gets the command when it connects, if the broker keeps its session"
