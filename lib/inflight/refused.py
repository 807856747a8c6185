# The error of a connection that the broker refused.

from errno import EACCES, ECONNREFUSED

_REFUSALS = ("", "protocol level", "client id", "broker unavailable", "user name or password", "not authorised")


class ConnectRefused(OSError):
    """The broker refused the connection: `code` is the return code of its CONNACK, 1 to 5 [MQTT-3.2.2-5];
    errno is EACCES for 4 and 5 (credentials), ECONNREFUSED for the others."""

    def __init__(self, code):
        super().__init__(EACCES if code > 3 else ECONNREFUSED, "connection refused: " + _REFUSALS[code])
        self.code = code
