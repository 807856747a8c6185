# A sensor that sleeps between readings. The reading is in flash before the radio is switched on: without Wi-Fi or
# without a broker it stays there, and a later wake delivers it, in order.

import board
from codes import ONLINE
from inflight import Client, Journal, ProtocolError

PERIOD_MS = 600_000


def deliver():
    """Returns when the broker has completed what the journal holds, after 20 s at the latest."""
    if board.network().join(20_000, "home", "secret") == ONLINE:
        try:
            client.connect()
            client.drain(20_000)
            client.disconnect()
        except (OSError, ProtocolError) as e:
            print("not delivered:", e)


journal = Journal(board.journal_flash())
# One attempt to connect in each wake; when the journal is full, the oldest readings are dropped.
client = Client("broker.example", board.device_id(), journal, reconnect=False, when_full="oldest")
client.publish(board.device_id() + "/battery", "%.2f" % 3.71, 1)
deliver()
board.sleep(PERIOD_MS, True)  # the next wake starts this program again
