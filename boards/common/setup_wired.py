# The set-up of a board with an Ethernet cable, whose configuration has `network` and no host yet: the page is in that
# network. In the place of setup_board, see boards/README.md.

from codes import ONLINE
from inflight.compat import const

_WAIT_MS = const(20_000)


class Wired:
    """fields: the configuration so far."""

    HTTP_PORT = 80
    DNS_PORT = 0  # none: the network has its own name server
    CONNECTIONS = 3

    def __init__(self, board, fields):
        self.fields = fields
        self._network = board.network(fields["network"])

    def open_access_point(self, name):
        print("inflight: waits for an address of the network")
        while self._network.join(_WAIT_MS) != ONLINE:
            print("inflight:", self._network.status())
        return self.address()

    def scan(self):
        """None: there is no network to choose."""

    def address(self):
        return self._network.nic.ifconfig()[0] if self._network.status() == ONLINE else None
