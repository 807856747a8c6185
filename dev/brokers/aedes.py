"""aedes, in JavaScript, with its sessions in LevelDB."""

from dev.demo.daemon import Daemon
from dev.setup.brokers import known

from .traits import Traits


class Aedes(Daemon, Traits):
    name = "aedes"
    ordered = False  # messages that come close behind each other may overtake each other
    prompt = False  # one in some hundred stays in its store until the subscriber connects again
    window = False
    survives_restart = survives_kill = False  # it acknowledges before it has stored, and does not wait for that

    @classmethod
    def unavailable(cls):
        return known(cls.name).get("reason", "")

    def __init__(self, folder):
        super().__init__(folder)
        self.argv = [*known(self.name)["argv"], str(self.port), str(self.folder / "sessions")]
