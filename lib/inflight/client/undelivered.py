# Messages that handlers did not get, or raised on. Loaded with the first one.

from errno import ECONNABORTED, EIO, ENOBUFS

import inflight.counters as counters


def topic_too_long(client):
    """The topic of the message, at level 5 with its properties, does not fit the receive buffer. Nobody gets it."""
    session = client.session
    session.deliver = False
    session.count[counters.TOO_LONG] += 1
    text = (
        "message %d of QoS %d is acknowledged and lost: its topic and properties take %d bytes, and the half of the "
        "buffer that receives has %d; choose a larger buffer"
    )
    values = session.mid, session.flags >> 1 & 3, session.topic, len(session.buf)
    client._report(client.on_error, OSError(ENOBUFS, text % values))


def handled(client):
    """The handlers of a message have run: one raised (message.failed), or an earlier message has come again
    (message.again). Raises OSError if this one shall come again: it is not acknowledged then, and the connection ends.
    When it has come often enough it is acknowledged, and on_error is told."""
    message = client._message
    session = client.session
    most = failed = message.failed
    message.failed = 0
    if failed and message.again < most:
        message.again += 1
        message.again_mid = session.mid
        raise OSError(ECONNABORTED, "message %d comes again: its handler raised" % session.mid)
    if failed:
        text = "message %d is acknowledged: its handler raised %d times" % (session.mid, message.again + 1)
        client._report(client.on_error, OSError(EIO, text))
    if not session.left and session.flags & 6 and (failed or session.mid == message.again_mid):
        message.again = 0
