# Home Assistant: what of its MQTT discovery stays loaded. The announcements themselves are in discovery.
#
# The newest readings are published as the device's state, to a topic of their own, retained, with QoS 0 and while the
# client is connected. Telemetry cannot be that topic: after an outage it brings readings of hours ago, and Home
# Assistant takes what arrives for what is now.

import json


class Home:
    """Announces the device `app` to Home Assistant: after each connection, when a new reading appears, and when Home
    Assistant starts. Publishes its state."""

    def __init__(self, app):
        self._app = app
        config = app.config
        self._due = False  # the announcements
        self._state_due = False
        self.readings = {}  # {name: (unit, field of the SenML record)}
        self._values = {}  # {name: value} of the newest readings, without those that failed
        self._health = {}
        if config.ha and not config.sleep_ms:  # retained announcements are enough for Home Assistant
            app.client.subscribe(config.ha + "/status", 1, self._on_status)

    def _on_status(self, message):
        if message.view == b"online":
            self.announce()

    def announce(self):
        """The next step() announces all, and publishes the state."""
        self._due = self._state_due = True

    def see(self, readings):
        """These readings, triples, were read."""
        self._values = values = {}
        for name, unit, value in readings:
            values[name] = value
            if name not in self.readings:
                self.readings[name] = unit, "vb" if isinstance(value, bool) else "vs" if isinstance(value, str) else "v"
                self._due = True
        self._state_due = True

    def see_health(self, fields):
        """These are the fields of a health message."""
        self._health = health = {"live": fields["journal"]["live"]}
        for name in ("rssi", "heap", "up"):
            if name in fields:  # without a connection there is no signal
                health[name] = fields[name]

    def step(self, announces=True):
        """Announces what is due, and publishes the newest readings."""
        app = self._app
        if not app.client.connected:
            return
        try:
            if self._due and announces:
                from discovery import announce

                announce(app, self.readings, self._publish)
                self._due = False
                self._state_due = True  # for what was not known before
            if self._state_due and app.config.ha:
                self._state_due = False
                state = {"readings": self._values, "health": self._health}
                if app.config.sleep_ms and app.synchronised:
                    state["t"] = app.time()
                self._publish("%s/%s/state" % (app.config.root, app.config.device), json.dumps(state).encode())
        except OSError:
            pass  # the client reports it; again with the next connection

    def _publish(self, topic, payload):
        try:
            self._app.client.publish(topic, payload, 0, True)
        except ValueError as e:  # at level 5 a broker may take less
            self._app.errors["home"] = str(e)
