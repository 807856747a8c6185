"""Promise: a device executes commands only from its own topics, never retained ones, and replies only there."""

import pytest

from host_tests.firmware.conftest import broker, make, published, until  # noqa: F401 (fixtures)

OWN = "inflight/dev/"
OF_OTHERS = """
    inflight/other/command/reboot inflight/de/command/reboot inflight/devs/command/reboot inflight/dev/commands/reboot
    inflight/dev/xcommand/reboot inflight/dev/reply/reboot inflight/dev/telemetry/command/reboot
    inflight/DEV/command/reboot inflight//dev/command/reboot /inflight/dev/command/reboot other/dev/command/reboot
    inflight/command/reboot command/reboot dev/command/reboot $SYS/inflight/dev/command/reboot
    $share/g/inflight/dev/command/reboot inflight/dev/command\u200b/reboot
""".split()


@pytest.fixture
def app(make, broker):  # noqa: F811
    return make(broker.port)


@pytest.fixture
def replies_to(app, broker, until, published):  # noqa: F811
    """replies_to(topic, ...) sends commands to these topics, and then a ping. Returns what the device publishes beside
    its reports and the answer to the ping: {topic: body}."""

    def run(*topics, **how):
        for topic in topics:
            broker.give(topic, b"500", **how)
        broker.give(OWN + "command/ping", b"fence", 2)
        until(app, lambda: [reply for reply in published("reply/ping") if reply.get("echo") == "fence"])
        others = {m.topic for m in broker.arrived} - {OWN + kind for kind in ("status", "telemetry", "health")}
        found = {topic: published(topic.removeprefix(OWN)) for topic in others}
        return {topic: body for topic, bodies in found.items() for body in bodies if body.get("echo") != "fence"}

    return run


@pytest.mark.parametrize("qos", [0, 1, 2])
def test_commands_of_others(app, replies_to, qos):
    """A broker may deliver them by mistake, or because of a wildcard subscription."""
    assert replies_to(*OF_OTHERS, qos=qos) == {} and not app.stopping


def test_its_own_command(app, replies_to):
    """The positive case for the test above."""
    ((topic, reply),) = replies_to(OWN + "command/reboot", qos=1).items()
    assert topic == OWN + "reply/reboot" and reply["ok"] and app.stopping


@pytest.mark.parametrize("name", ["reboot", "ping", "interval"])
def test_retained_commands(app, replies_to, name):
    """The broker would deliver it after each start."""
    (reply,) = replies_to(OWN + "command/" + name, qos=1, retain=1).values()
    assert not reply["ok"] and "retain" in reply["error"] and not app.stopping
