"""A running Home Assistant on loopback: its core with MQTT, recorder and frontend. It installs nothing itself."""

import json
import shutil
import urllib.parse
import urllib.request

from inflight_tools.fleet.home_assistant import late_hours
from tools.peers.daemon import Daemon
from tools.setup.common import CHECKOUT
from tools.setup.home_assistant import program

_ANSWER_S = 240
_CONFIGURATION = """\
homeassistant:
  name: Home
  latitude: 0
  longitude: 0
  elevation: 0
  unit_system: metric
  time_zone: UTC
  country: DE
  currency: EUR
http:
  server_host: 127.0.0.1
  server_port: %d
frontend:
config:
history:
recorder:
compile:
"""
_OURS = "custom_components"
# The step core_config would add integrations that need the internet.
_ONBOARDED = {"version": 4, "minor_version": 1, "key": "onboarding"}
_ONBOARDED |= {"data": {"done": ["core_config", "analytics", "integration"]}}


class HomeAssistant(Daemon):
    """Its files are in `folder`. `token`: a long-lived access token of its only user, an administrator."""

    name = "home-assistant"

    def __init__(self, folder):
        super().__init__(folder)
        self.url = f"http://127.0.0.1:{self.port}"
        self.argv = [program("hass"), "-c", self.folder, "--skip-pip", "--log-no-color"]
        self.environ = {"PATH": "/usr/bin:/bin", "HOME": str(self.folder)}  # none of our modules
        self.token = None
        (self.folder / "configuration.yaml").write_text(_CONFIGURATION % self.port)
        shutil.copytree(CHECKOUT / "tools/home_assistant" / _OURS, self.folder / _OURS)
        (self.folder / ".storage").mkdir()
        (self.folder / ".storage/onboarding").write_text(json.dumps(_ONBOARDED))

    def start(self):
        super().start()
        self.token = self.token or self._onboard()
        return self

    def _onboard(self):
        client = {"client_id": f"{self.url}/"}
        user = {"name": "Anna", "username": "anna", "password": "anna", "language": "en"}
        code = self._post("/api/onboarding/users", client | user)["auth_code"]
        form = urllib.parse.urlencode(client | {"grant_type": "authorization_code", "code": code})
        token = self._post("/auth/token", form, "application/x-www-form-urlencoded")["access_token"]
        with Api(self.url, token) as api:
            return api.ask("auth/long_lived_access_token", client_name="tests", lifespan=365)

    def _post(self, path, body, kind="application/json"):
        headers = {"Content-Type": kind} | ({"Authorization": f"Bearer {self.token}"} if self.token else {})
        text = body if isinstance(body, str) else json.dumps(body)
        request = urllib.request.Request(self.url + path, text.encode(), headers)
        with urllib.request.urlopen(request, timeout=_ANSWER_S) as answer:
            return json.load(answer)

    def use_broker(self, port, **fields):
        """Adds its integration MQTT, as a person does. fields: username, password."""
        flow = "/api/config/config_entries/flow"
        asked = self._post(flow, {"handler": "mqtt"})
        done = self._post(f"{flow}/{asked['flow_id']}", {"broker": "127.0.0.1", "port": port, **fields})
        if done["type"] != "create_entry":
            raise RuntimeError(f"{done}\n{self.log()}")

    def api(self):
        return Api(self.url, self.token)


class Api(late_hours.HomeAssistant):
    """The WebSocket API of a Home Assistant, for `with`. `states`: {entity id: its state as JSON}; `changes`: [(entity
    id, state)], as they came. Both as of the last call."""

    def __init__(self, url, token):
        super().__init__(url, token)
        self.states, self.changes = {}, []

    def __enter__(self):
        super().__enter__()
        self.ask("subscribe_events")
        self.states |= {one["entity_id"]: one for one in self.ask("get_states")}
        return self

    def _receive(self, timeout=_ANSWER_S):
        message = json.loads(self._socket.recv(timeout))
        event = message.get("event", {})
        if event.get("event_type") == "state_changed":
            entity, state = event["data"]["entity_id"], event["data"]["new_state"]
            self.states.pop(entity, None)
            if state:
                self.states[entity] = state
                self.changes.append((entity, state["state"]))
        return message

    def do(self, service, entity=None, **data):
        """Calls a service: do("switch.turn_on", "switch.attic_pump")."""
        domain, _, name = service.partition(".")
        target = {"target": {"entity_id": entity}} if entity else {}
        self.ask("call_service", domain=domain, service=name, **target, service_data=data)

    def look(self):
        """Takes the events that are there."""
        while True:
            try:
                self._receive(0)
            except TimeoutError:
                return

    def wait(self, condition):
        """Takes events until condition() is true, and returns what it is."""
        while not (found := condition()):
            self._receive()
        return found

    def state(self, entity):
        """The state of an entity; None if there is none."""
        return self.states.get(entity, {}).get("state")
