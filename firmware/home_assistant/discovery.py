# Announcements for Home Assistant's MQTT discovery, one for each entity, retained. They are sent with QoS 0: they come
# again with each connection, and take no sequence number that a pipeline would miss.
#
# A file lists what was announced, {topic: owner}. An entity whose owner (a sensor or actuator with its driver, or the
# device) is not configured any more is removed. It stays in the file, without an owner, until it was removed once more:
# the connection can break behind a message of QoS 0.

import json
import os

from files import beside, kept_json, write
from telemetry import describe

_OWN = "device"
_GONE = ""
_TOPIC = "%s/%s/%s/%s/config"  # prefix, component, device, object
# Home Assistant's device class, and its units: as in SenML, or behind `=` as Home Assistant writes them. As one text,
# since each short text of its own would stay in the interpreter's table of names.
_UNITS = """apparent_power VA
battery %EL=%
current A mA
data_rate bit/s B/s Mbit/s
data_size B KiB GB
distance m mm cm km
duration s ms min h
energy kWh Wh J
frequency Hz MHz
humidity %RH=%
illuminance lx
irradiance W/m2=W/m²
power W kW
precipitation_intensity mm/h
pressure Pa hPa
reactive_power var
signal_strength dBm
sound_pressure dB
speed m/s km/h
temperature Cel=°C K
voltage V mV
volume_flow_rate m3/s=m³/s l/s=L/s
volume_storage m3=m³ L l=L
weight kg g
"""
# Field of the state's `health`: name, SenML unit, object.
_DIAGNOSTICS = {
    "rssi": ("Signal", "dBm", "health-rssi"),
    "heap": ("Free heap", "B", "health-heap"),
    "up": ("Uptime", "s", "health-up"),
    "live": ("Messages waiting", None, "health-journal_2elive"),
}
_MISSED = 3  # states in a row, and some seconds, after which a reading is not available
_SECONDS = 60


def _identifier(text):
    # Letters, digits, - and _ are allowed.
    return "".join(c if c.isalpha() or c.isdigit() or c in "-_" else "_%02x" % ord(c) for c in text)


def _with_unit(fields, unit, measures=None):
    # measures: what a counter does, see there.
    name = unit
    kind = None
    for row in _UNITS.split("\n"):
        for text in row.split()[1:]:
            known, _, theirs = text.partition("=")
            if known == unit:
                name = theirs or unit
                kind = row.split()[0]
    if fields["name"].endswith("-co2"):  # parts per million can be of anything
        kind = "carbon_dioxide"
    if measures is not None:
        kind = {"mm": "precipitation", "m3": "volume", "L": "water", "l": "water"}.get(unit, kind)
        if measures:
            kind = "precipitation" if measures == "rain" else measures
    if measures is not None or kind == "energy":
        fields["state_class"] = "total_increasing"
    if unit and unit not in ("/", "count"):
        fields["unit_of_measurement"] = name
    if kind:
        fields["device_class"] = kind
    return fields


class _Device:
    # Yields the entities of a device: (component, object, owner, fields).

    def __init__(self, app, readings):
        self._app = app
        self._readings = readings
        config = app.config
        self._base = "%s/%s/" % (config.root, config.device)
        self.sensors = self._owners(config.sensors)
        self.actuators = self._owners(config.actuators)
        self.owners = [_OWN] + list(self.sensors.values()) + list(self.actuators.values())

    def _owners(self, entries):
        # {name of an entry: owner}
        found = {}
        for entry in entries or ():
            name = entry.get("name") or entry["driver"]
            found[name] = "%s %s" % (entry["driver"], name)
        return found

    def _owner(self, reading):
        # The entry with the longest name that the reading begins with; names are <entry> or <entry>-<quantity>.
        best = ""
        for name in self.sensors:
            if len(name) > len(best) and (reading == name or reading.startswith(name + "-")):
                best = name
        return self.sensors.get(best, _OWN)

    def entities(self):
        for name in self._readings:
            yield self._reading(name)
        for field in _DIAGNOSTICS:
            yield self._diagnostic(field)
        yield self.command("button", "reboot", {"name": "Restart", "device_class": "restart"})
        if not self._app.config.sleep_ms:
            fields = {"name": "Interval", "min": 100, "max": 86_400_000, "mode": "box", "unit_of_measurement": "ms"}
            yield self.command("number", "interval", fields)
        if self._app.actuators:
            for name in self._app.actuators.drivers:
                kind = self._app.actuators.drivers[name].KIND
                if kind:
                    yield self._actuator(name, kind)

    def command(self, component, name, fields):
        fields["entity_category"] = "config"
        fields["command_topic"] = self._base + "command/" + name
        fields["qos"] = self._app.config.most_qos
        return component, name, _OWN, fields

    def _reading(self, name):
        unit, field = self._readings[name]
        owner = self._owner(name)
        config = self._app.config
        period = config.sleep_ms * config.report_every if config.sleep_ms else self._app.telemetry.ms
        expires = _MISSED * period // 1000 + _SECONDS
        # A sensor that failed is not in the state.
        there = "'%s' in value_json.readings" % name
        if config.sleep_ms:  # it has no will that tells Home Assistant, when that starts, that the state is an old one
            there += " and (value_json.t is not defined or value_json.t > now().timestamp() - %d)" % expires
        fields = {
            "name": name,
            "state_topic": self._base + "state",
            "value_template": "{{ value_json.readings.get('%s', %s) }}"
            % (name, "this.state" if field == "vs" else "''"),
            "expire_after": expires,
            "availability": [
                {"topic": self._base + "state", "value_template": "{{ 'online' if %s else 'offline' }}" % there}
            ],
        }
        if field == "vb":
            fields["payload_on"], fields["payload_off"] = "True", "False"
            return "binary_sensor", _identifier(name), owner, fields
        if field == "v":
            fields["state_class"] = "measurement"
            _with_unit(fields, unit, self._measures(owner))
        return "sensor", _identifier(name), owner, fields

    def _measures(self, owner):
        # Of a counter, what its entry says; None of another sensor.
        for entry in self._app.config.sensors or ():
            if owner == "counter " + (entry.get("name") or "counter"):
                return entry.get("measures", "")

    def _diagnostic(self, field):
        name, unit, object_id = _DIAGNOSTICS[field]
        fields = {
            "name": name,
            "state_topic": self._base + "state",
            "value_template": "{{ value_json.health.get('%s', '') }}" % field,
            "entity_category": "diagnostic",
            "state_class": "measurement",
        }
        return "sensor", object_id, _OWN, _with_unit(fields, unit)

    def _actuator(self, name, kind):
        command = "%scommand/actuator/%s" % (self._base, name)
        state = "%sactuator/%s" % (self._base, name)
        qos = self._app.config.most_qos
        fields = {"name": name, "command_topic": command, "state_topic": state, "qos": qos}
        component = "switch"
        if kind == "percent":
            component = "number"
            fields["value_template"] = "{{ value_json.state }}"
            fields["min"] = 0
            fields["max"] = 100
            fields["unit_of_measurement"] = "%"
        else:
            fields["payload_on"] = "on"
            fields["payload_off"] = "off"
            fields["value_template"] = "{{ value_json.state }}"
        if kind == "light":
            component = "light"
            fields["state_value_template"] = fields.pop("value_template")
            fields["rgb_state_topic"] = state
            color = "value_json.color[%d:%d] | int(base=16)"
            channels = ["{{ %s }}" % (color % (i, i + 2)) for i in (1, 3, 5)]
            fields["rgb_value_template"] = ",".join(channels)
            fields["rgb_command_topic"] = command
            fields["rgb_command_template"] = "{{ '#%02x%02x%02x' | format(red, green, blue) }}"
        return component, "actuator-" + _identifier(name), self.actuators[name], fields


def _common(app):
    # The fields of all entities.
    config = app.config
    return {
        "availability": [
            {
                "topic": "%s/%s/status" % (config.root, config.device),
                "value_template": "{{ 'offline' if value_json.state == 'offline' else 'online' }}",
            }
        ],
        "availability_mode": "all",
        "device": {
            "identifiers": [config.device],
            "name": config.hostname or config.device,
            "manufacturer": "Inflight",
            "model": app.board.NAME,
            "sw_version": app.version,
        },
    }


def _change(old, new, device, prefix, node):
    # Returns what the file is to list, and the topics to remove.
    listed = dict(new)
    gone = []
    for topic in old:
        if topic in new:
            continue
        if prefix and topic.startswith(prefix + "/") and "/%s/" % node in topic and old[topic] in device.owners:
            listed[topic] = old[topic]  # a sensor that was not read yet
            continue
        gone.append(topic)
        if old[topic] != _GONE:
            listed[topic] = _GONE
    return listed, gone


def _list(app, path, topics):
    try:
        if topics:
            write(path, json.dumps(topics))
        else:
            os.remove(path)
    except OSError as e:  # without the list nothing is removed later; the device works
        app.errors["home"] = describe(e)


def announce(app, readings, publish):
    """Announces all entities of `app`, with these readings ({name: (unit, field)}), by publish(topic, payload). Removes
    those not configured any more. Raises OSError if the connection breaks."""
    path = beside(app.board, "home.json")
    prefix = app.config.ha
    node = _identifier(app.config.device)
    device = _Device(app, readings)
    new = {}
    if prefix:
        for component, name, owner, _ in device.entities():
            new[_TOPIC % (prefix, component, node, name)] = owner
    old = kept_json(path, {})
    listed, gone = _change(old, new, device, prefix, node)
    if listed != old:
        _list(app, path, listed)  # first: nothing is announced that is not listed
    for topic in gone:
        publish(topic, b"")
    if not prefix:
        publish("%s/%s/state" % (app.config.root, app.config.device), b"")
        return
    common = _common(app)
    for component, name, _, fields in device.entities():
        more = fields.get("availability", [])
        fields.update(common)
        fields["availability"] = common["availability"] + more
        fields["unique_id"] = "%s-%s" % (node, name)
        publish(_TOPIC % (prefix, component, node, name), json.dumps(fields).encode())
