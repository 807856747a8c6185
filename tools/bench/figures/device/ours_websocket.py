# The driver of Inflight over WebSocket.

import ours
from ours import QOS, journal, load  # noqa: F401


class Contender(ours.Contender):
    path = "/mqtt"
