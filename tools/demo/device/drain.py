# Delivers the messages in a sensor's journal without publishing new ones, and prints the next sequence number.

import board
from assemble import build
from inflight.compat import ticks_ms

app = build(board, ticks_ms())
while not app.client.drain(60_000):
    pass
app.client.disconnect()
print(app.journal.next_seq)
