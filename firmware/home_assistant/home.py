# Home Assistant: what of its MQTT discovery stays loaded. The announcements themselves are in discovery.

import sys


class Home:
    """Announces the device `app` to Home Assistant: after each connection, when a new reading appears, and when Home
    Assistant starts."""

    def __init__(self, app):
        self._app = app
        self._due = False
        self.readings = {}  # {name: (unit, field of the SenML record)}
        config = app.config
        if config.ha and not config.sleep_ms:  # retained announcements are enough for Home Assistant
            app.client.subscribe(config.ha + "/status", 1, self._on_status)

    def _on_status(self, message):
        if message.view == b"online":
            self._due = True

    def connected(self):
        """The client has connected."""
        self._due = True

    def see(self, readings):
        """These readings, triples, were read."""
        for name, unit, value in readings:
            if name not in self.readings:
                self.readings[name] = unit, "vb" if isinstance(value, bool) else "vs" if isinstance(value, str) else "v"
                self._due = True

    def step(self):
        """Announces what is due."""
        if not (self._due and self._app.client.connected):
            return
        from discovery import announce

        try:
            announce(self._app, self.readings, self._publish)
            self._due = False
        except OSError:
            pass  # the client reports it; again with the next connection
        sys.modules.pop("discovery", None)

    def _publish(self, topic, payload):
        try:
            self._app.client.publish(topic, payload, 0, True)
        except ValueError as e:  # at level 5 a broker may take less
            self._app.errors["home"] = str(e)
