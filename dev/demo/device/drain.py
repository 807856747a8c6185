# Delivers the messages in a sensor's journal without publishing new ones, prints the next sequence number, and exits.
# Argument: time-out in ms. Exit status 1 after a time-out.

import sys

from inflight.compat import ticks_ms
from start import build

app = build(ticks_ms())
if not app.client.drain(int(sys.argv[1])):
    sys.exit(1)
app.client.disconnect()
print(app.journal.next_seq)
