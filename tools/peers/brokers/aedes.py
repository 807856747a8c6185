"""aedes, in JavaScript, with its sessions in LevelDB."""

from tools.peers.brokers.traits import Traits
from tools.peers.daemon import Daemon
from tools.setup.brokers import known


class Aedes(Daemon, Traits):
    name = "aedes"
    level_5 = False  # answers with a CONNACK of level 4 that says so
    ordered = False  # messages in quick succession may be reordered
    prompt = False  # about one in a hundred is delivered only after the subscriber has reconnected
    window = False
    survives_restart = survives_kill = False  # it acknowledges before it has stored the message

    @classmethod
    def unavailable(cls):
        return known(cls.name).get("reason", "")

    def __init__(self, folder):
        super().__init__(folder)
        self.argv = [*known(self.name)["argv"], str(self.port), str(self.folder / "sessions")]
