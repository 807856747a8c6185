# Enhanced authentication of MQTT 5: a dialogue of AUTH packets in front of CONNACK, and anew on a connection that
# stands.
#
#   AUTH of the broker       in the dialogue                 else    clause
#   18: continue             answered                        error   MQTT5-4.12.0-2, 4.12.0-3
#   00: success              of a renewal: it is over        error   MQTT5-3.15.2-1

import struct
from errno import ENOTCONN

from ..arguments import encode
from ..errors import printable, refuse
from ..packet import ProtocolError, begin, check_size
from .cursor import AUTH_DATA, AUTH_METHOD, IN_AUTH

_SUCCESS = 0x00
_CONTINUE = 0x18
_RENEW = 0x19
_NOT_AUTHORIZED = 0x87


def _with_length(properties):
    n = len(properties)
    return (bytes((n,)) if n < 128 else bytes((n & 127 | 128, n >> 7))) + properties


class Authentication:
    """How a client of level 5 and its broker prove who they are (MQTT 5, 4.12).

    method   its name, str or bytes, as the broker knows it: "SCRAM-SHA-256", for one
    answer   called with None at the beginning of a dialogue, and with each data of the broker (bytes), also with those
             of its consent. Returns what is sent back: bytes, None: nothing. An exception ends the connection. It is
             also called with None once when the client is made, to see whether CONNECT fits the buffer

    `renewing`: a renewal has begun, and the broker has not consented yet. Raises ValueError."""

    def __init__(self, method, answer):
        self._method = encode(method, name="method")
        if not callable(answer):
            refuse("answer", answer)
        self._answer = answer
        self._session = None
        self.renewing = False
        self._due = b""  # an AUTH that waits to be sent: code and properties

    def renew(self):
        """Authenticates again, while messages go on: AUTH leaves with the next packets. A broker that refuses ends the
        connection. Raises OSError without a connection. [MQTT5-4.12.1-1]"""
        if not (self._session and self._session.connected):
            raise OSError(ENOTCONN, "not connected")
        self._put(_RENEW, None)
        self.renewing = True

    # --- what the session does with it ---

    def attach(self, session):
        """The session whose CONNECT asks for this."""
        self._session = session
        session.auth = self

    def reset(self):
        """The connection is gone."""
        self.renewing = False
        self._due = b""

    def connect_block(self, others):
        """Returns the properties of CONNECT, with their length; others: those that it has besides."""
        return _with_length(others + self._properties(self._answer(None)))

    def _properties(self, data):
        found = struct.pack(">BH", AUTH_METHOD, len(self._method)) + self._method
        if data is None:
            return found
        return found + struct.pack(">BH", AUTH_DATA, len(data)) + data

    def _put(self, code, data):
        packet = bytes((code,)) + _with_length(self._properties(self._answer(data)))
        check_size(self._session.out, len(packet))
        self._due = packet

    @property
    def is_due(self):
        """An AUTH waits to be sent."""
        return len(self._due) > 0

    def write(self):
        """Puts it into the send buffer. Returns its size."""
        session = self._session
        session.clear()
        at = begin(session.out, 0xF0, len(self._due))
        end = at + len(self._due)
        session.out[at:end] = self._due
        self._due = b""
        return end

    def received(self):
        """AUTH arrived. Raises ProtocolError."""
        session = self._session
        code = session.reason_code
        dialogue = self.renewing or not session.connected
        if code == _CONTINUE and dialogue:
            self._go_on(self._put, code, self._data(IN_AUTH))
        elif code == _SUCCESS and self.renewing:
            self.consented(IN_AUTH)
            self.renewing = False
        else:
            raise ProtocolError("unexpected AUTH %02x" % code)

    def consented(self, where):
        """CONNACK or AUTH says that the dialogue has ended well. where: as cursor has it. Raises ProtocolError."""
        data = self._data(where)
        if data is not None:
            self._go_on(self._answer, data)

    def _data(self, where):
        # Those of the packet that was received, None: it has none. [MQTT5-4.12.0-5]
        session = self._session
        method = data = None
        if session.block:
            cursor = session.properties(where)
            found = cursor.next()
            while found:
                if found == AUTH_METHOD:
                    method = cursor.data()
                elif found == AUTH_DATA:
                    data = cursor.data()
                found = cursor.next()
        if method != self._method:
            raise ProtocolError("the broker changed the authentication method")
        return data

    def _go_on(self, step, *args):
        try:
            step(*args)
        except Exception as e:
            raise ProtocolError("authentication: " + printable(str(e)), _NOT_AUTHORIZED)
