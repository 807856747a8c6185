# The error of level 5: a broker that breaks the protocol is told how.

from ..compat import const
from ..packet import ProtocolError

MALFORMED = const(0x81)
ERROR = const(0x82)


class ProtocolError5(ProtocolError):
    """A ProtocolError of which the broker is told: `code` is the reason code of DISCONNECT [MQTT5-4.13.1-1]."""

    def __init__(self, text, code):
        super().__init__(text)
        self.code = code
