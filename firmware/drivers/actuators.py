# The actuators of the configuration. Each entry names a driver, which is the module actuator_<driver> with
#
#   FIELDS     {field of the entry: default}, NEEDED if there is none
#   Driver     Driver(fields, name) opens the hardware, or raises an exception
#     .KIND          "switch", "percent" or "light": how Home Assistant shows it; None: not at all
#     .ON, .OFF      the states that `restore` names: dicts with `state`, which become JSON
#     .change(text, state)  returns the state that the command `text` asks for; `state` is the present one. Raises
#                           ValueError with what to write instead
#     .set(state)    makes the hardware so
#
# A command is executed once, also if the power is cut at any instant: before the hardware is set, the new state and
# the identity of the command are written to a file. QoS 2 delivers a command again only if the power was cut before
# its handler had ended; if the file has its identity, it is not executed again. The identity of a command with a number
# is that number, see commands.

import json
from errno import EIO

from files import beside, kept, write
from inflight.journal.journal import IN
from sensors import SensorError, make
from telemetry import describe

KNOWN = "led, pwm, switch"
_RESTORE = ("last", "on", "off")

actuators = {}  # {name: Actuator}: for rules, see there


def of_driver(entry):
    """(`entry` without the field `restore`, which no driver gets; what that says). Raises SensorError."""
    entry = dict(entry)
    restore = entry.pop("restore", _RESTORE[0])
    if restore not in _RESTORE:
        raise SensorError('restore: write "last", "on" or "off"')
    return entry, restore


def _identity(journal, message):
    # The Message ID alone does not identify a command: some brokers use the same one for each. The journal keeps, with
    # the id, the number that the next message to the broker had then; each command is answered, so no later command
    # with this id has this number.
    seq = journal.next_seq
    if message.redelivered:
        at = journal.scan(IN, -1)
        while at >= 0 and journal.found_mid != message.mid:
            at = journal.scan(IN, at)
        if at >= 0:
            seq = journal.found_seq
    return [message.mid, seq]


class Actuator:
    """One of `actuators`, those of an Actuators, for rules."""

    def __init__(self, all, name):
        self._all = all
        self._name = name

    @property
    def state(self):
        """Its state, as it is published: a dict with `state`; None if the hardware does not work."""
        return self._all.states.get(self._name)

    def set(self, command):
        """As the command of that text over MQTT: "on", "off", "toggle", a number of percent. Nothing is written or
        published if its state is that already. Raises ValueError, OSError."""
        self._all.set(self._name, str(command))


class Actuators:
    """The actuators of the configuration of `app`, set to the states that `restore` names. `states`: {name: state}, of
    those whose hardware works. An error is in the health message under the actuator's name, and the next command
    tries again."""

    def __init__(self, app):
        self._app = app
        self._entries = {entry.get("name") or entry["driver"]: entry for entry in app.config.actuators}
        self.path = beside(app.board, "actuators.json")
        self._file = None  # not read yet
        self.drivers = {}
        self.states = {}
        for name in self._entries:
            actuators[name] = Actuator(self, name)
            try:
                self._open(name)
            except Exception:
                pass  # it is noted

    def _kept(self):
        # {name: [driver, state, identity of the last command that changed it]}. Raises OSError.
        if self._file is None:
            try:
                self._file = json.loads(kept(self.path, "{}"))
            except ValueError:
                self._app.errors["actuators"] = "actuators.json is damaged: the actuators start with the state off"
                self._file = {}
        return self._file

    def _open(self, name):
        # Returns the driver.
        if name in self.drivers:
            return self.drivers[name]
        try:
            entry, restore = of_driver(self._entries[name])
            driver = make("actuator", entry, name, KNOWN)
            state = driver.ON if restore == "on" else driver.OFF
            last = self._kept().get(name)
            if restore == "last" and last and last[0] == entry["driver"]:
                state = last[1]
            driver.set(state)
        except Exception as e:
            self._app.errors[name] = describe(e)
            raise
        self._app.errors.pop(name, None)
        self.drivers[name] = driver
        self.states[name] = state
        return driver

    def _keep(self, name, state, identity):
        file = dict(self._kept())
        file[name] = [self._entries[name]["driver"], state, identity]
        write(self.path, json.dumps(file))
        self._file = file

    def _last(self, name):
        # The identity of the last command that changed its state.
        file = self._kept()
        return file[name][2] if name in file else []

    def _set(self, name, driver, state, identity):
        # The state is in the file before the hardware is set.
        before = self.states[name]
        last = self._last(name)
        if state != before:
            self._keep(name, state, identity)
        try:
            driver.set(state)
        except Exception as e:
            del self.drivers[name], self.states[name]
            self._app.errors[name] = describe(e)
            if state != before:
                self._keep(name, before, last)  # it was not executed
            raise OSError(EIO, describe(e))
        self.states[name] = state
        self.publish(name)

    def set(self, name, command):
        """Executes the text `command`, of no message, if it changes the state of actuator `name`. Raises ValueError,
        OSError."""
        driver = self._open(name)
        state = driver.change(command, self.states[name])
        if state != self.states[name]:
            self._set(name, driver, state, self._last(name))  # that message may come again

    def numbers(self):
        """The numbers of the commands that have changed the states, of those that had one."""
        return [last[2][0] for last in self._kept().values() if len(last[2]) == 1]

    def execute(self, name, message, number=0):
        """Executes the command `message` of actuator `name`, which may have a number. Returns its state. Raises
        ValueError, OSError."""
        if name not in self._entries:
            raise ValueError("no actuator of this name: use " + ", ".join(sorted(self._entries)))
        driver = self._open(name)
        identity = [number] if number else _identity(self._app.journal, message)
        state = before = self.states[name]
        if not (message.redelivered and self._last(name) == identity):
            state = driver.change(str(message.payload, "utf-8"), before)
        self._set(name, driver, state, identity)
        return dict(state)

    def publish(self, name):
        """Publishes the state of an actuator, retained."""
        self._app.report("actuator/" + name, dict(self.states[name]), True)

    def publish_all(self):
        """Publishes all states."""
        for name in self.states:
            self.publish(name)
