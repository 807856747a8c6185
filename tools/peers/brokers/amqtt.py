"""amqtt, in Python."""

import json

from tools.peers.brokers.traits import Traits
from tools.peers.daemon import Daemon
from tools.setup.brokers import known


class Amqtt(Daemon, Traits):
    name = "amqtt"
    level_5 = False  # does not answer
    level_3 = False  # closes the connection without an answer
    keeps_qos = False  # delivers at the QoS of the subscription, even if the message's is lower
    answers_pubrel = False  # not if the connection broke after PUBREC: the message stays in flight
    ordered = False  # if a connection breaks during handshakes, later messages may come first
    window = False
    queues = False
    clean_wipes = False  # the next CONNACK has session present = 1
    takes_over = False  # both connections stay
    keep_alive = False  # a silent client stays connected
    survives_restart = survives_kill = False  # everything is in RAM

    @classmethod
    def unavailable(cls):
        return known(cls.name).get("reason", "")

    def __init__(self, folder):
        super().__init__(folder)
        configuration = self.folder / "amqtt.yaml"
        listener = {"type": "tcp", "bind": f"127.0.0.1:{self.port}"}
        plugins = {"amqtt.plugins.authentication.AnonymousAuthPlugin": {"allow_anonymous": True}}
        configuration.write_text(json.dumps({"listeners": {"default": listener}, "plugins": plugins}))  # JSON is YAML
        self.argv = [*known(self.name)["argv"], "-c", str(configuration)]
