"""Checks announcements by Home Assistant's own code: runs in its environment, see tools/setup/home_assistant.py.

stdin: {"prefix": text, "announced": {topic: fields}, "states": {topic: payload}}. stdout: {topic: {"problems": [text],
"state": what Home Assistant makes of the payload of its state topic, "available": "online" or "offline", "without":
[both, if the device's state lacks the readings and diagnostics]}}."""

import asyncio
import importlib
import json
import sys
import tempfile

from homeassistant.components.mqtt.discovery import TOPIC_MATCHER
from homeassistant.components.mqtt.models import MqttCommandTemplate, MqttValueTemplate
from homeassistant.components.sensor.const import DEVICE_CLASS_STATE_CLASSES, DEVICE_CLASS_UNITS
from homeassistant.core import HomeAssistant
from homeassistant.exceptions import HomeAssistantError
from voluptuous import Invalid

BEFORE = {"this": {"state": "before"}}
NOTHING = '{"readings": {}, "health": {}}'  # a device's state


def checked(prefix, topic, fields):
    """(problems, the fields as Home Assistant keeps them)."""
    match = TOPIC_MATCHER.fullmatch(topic.removeprefix(prefix + "/"))
    if not match:
        return ["not a topic of its discovery"], None
    component = importlib.import_module("homeassistant.components.mqtt." + match["component"])
    try:
        component.DISCOVERY_SCHEMA(fields)  # drops what it does not know
        kept = component.PLATFORM_SCHEMA_MODERN(fields)  # refuses it
    except Invalid as e:
        return [str(e)], None
    return list(_of_class(fields)) if match["component"] == "sensor" else [], kept


def _of_class(fields):
    # Home Assistant logs these, and uses the sensor nevertheless.
    kind, unit = fields.get("device_class"), fields.get("unit_of_measurement")
    if kind and unit not in DEVICE_CLASS_UNITS.get(kind, {unit}):
        yield f"{unit} is no unit of {kind}"
    if kind and "state_class" in fields and fields["state_class"] not in DEVICE_CLASS_STATE_CLASSES[kind]:
        yield f"{fields['state_class']} does not go with {kind}"


def rendered(hass, template, payload):
    return str(MqttValueTemplate(template, hass=hass).async_render_with_possible_json_value(payload, variables=BEFORE))


def states(hass, kept, payloads):
    """What its templates make of messages."""
    template = kept.get("value_template") or kept.get("state_value_template")
    payload = payloads.get(kept.get("state_topic"))
    if template and payload is not None:
        yield "state", rendered(hass, template, payload)
        if "readings" in payload:
            without = dict(payloads)
            without[kept["state_topic"]] = NOTHING
            yield "without", [rendered(hass, template, NOTHING), available(hass, kept, without)]
    if "rgb_value_template" in kept and payload is not None:
        yield "color", rendered(hass, kept["rgb_value_template"], payload)
        command = MqttCommandTemplate(kept["rgb_command_template"], hass=hass)
        yield "command", command.async_render(None, {"red": 255, "green": 8, "blue": 0})
    if "availability" in kept:
        yield "available", available(hass, kept, payloads)


def available(hass, kept, payloads):
    """ "online" if all of its conditions are so; "offline" too if Home Assistant waits for one of the messages."""
    found = set()
    for condition in kept["availability"]:
        payload = payloads.get(condition["topic"])
        found.add("offline" if payload is None else rendered(hass, condition["value_template"], payload))
    return "online" if found == {"online"} and kept["availability_mode"] == "all" else "offline"


async def main():
    given = json.load(sys.stdin)
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        hass = HomeAssistant(folder)
        for topic, fields in given["announced"].items():
            problems, kept = checked(given["prefix"], topic, fields)
            found[topic] = {"problems": problems}
            try:
                found[topic].update(states(hass, kept or {}, given["states"]))
            except HomeAssistantError as e:
                problems.append(str(e))
        await hass.async_stop(force=True)
    json.dump(found, sys.stdout)


if __name__ == "__main__":
    asyncio.run(main())
