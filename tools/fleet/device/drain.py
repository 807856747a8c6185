# A virtual sensor that accepts nothing more: it delivers what its journal holds, tells the next sequence
# number, and ends. Argument: ms that this may take. Status 1: it took longer.

import sys

from inflight.compat import ticks_ms
from start import build

app = build(ticks_ms())
if not app.client.drain(int(sys.argv[1])):
    sys.exit(1)
app.client.disconnect()
print(app.journal.next_seq)
