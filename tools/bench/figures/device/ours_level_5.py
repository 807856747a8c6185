# The driver of Inflight at level 5.

import ours
from ours import QOS, journal  # noqa: F401


def load():
    """Imports what an application imports, and what a client of level 5 loads."""
    ours.load()
    from inflight.level5.mqtt5 import Session5  # noqa: F401


class Contender(ours.Contender):
    level = 5
