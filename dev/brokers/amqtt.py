"""amqtt, in Python."""

import json

from dev.demo.daemon import Daemon
from dev.setup.brokers import known

from .traits import Traits


class Amqtt(Daemon, Traits):
    name = "amqtt"
    level_3 = False  # closes the connection without a word
    keeps_qos = False  # delivers at the QoS of the subscription, be it higher than that of the message
    answers_pubrel = False  # not when the connection broke after PUBREC: that row of the window stays taken
    ordered = False  # of messages at whose handshake a connection broke, some come after later ones
    window = False
    queues = False
    clean_wipes = False  # the next CONNACK claims a session again
    takes_over = False  # both connections stay
    keep_alive = False  # a silent client lives on
    survives_restart = survives_kill = False  # it keeps everything in RAM

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
