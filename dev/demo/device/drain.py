# Delivers the messages in a sensor's journal without publishing new ones, and prints the next sequence number.

from inflight.compat import ticks_ms
from start import build

app = build(ticks_ms())
while not app.client.drain(60_000):
    pass
app.client.disconnect()
print(app.journal.next_seq)
