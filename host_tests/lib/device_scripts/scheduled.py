"""`scheduled.py PORT JOURNAL accept|deliver`: a program whose main part publishes and runs the client, while a function
that is scheduled publishes too, wherever the interpreter lets it. Prints each accepted payload; "busy" if some were
refused. "deliver": a restart; prints "delivered" when the journal is empty."""

import sys

import micropython

from inflight import Client, FileFlash, Journal

port, path, mode = sys.argv[1:]
_MANY = 120
accepted = []
refused = 0
running = True


def note(payload, qos):
    # A message that is accepted is delivered: what is printed before may be one more than that.
    client.publish("t", payload, qos)
    accepted.append(payload)


def scheduled(k):
    """Publishes, and schedules itself again: it runs at nearly each point where the interpreter looks."""
    global refused
    try:
        if k < _MANY:
            note("s%d" % k, k % 3 if client.connected else 1 + k % 2)
            k += 1
    except RuntimeError:
        refused += 1
    if running:
        micropython.schedule(scheduled, k)


client = Client("127.0.0.1", "dev", Journal(FileFlash(path)), port=int(port), backoff_ms=(0, 0), timeout_ms=20_000)
if mode == "deliver":
    assert client.session.journal.damaged == 0
    assert client.drain(20_000)
    print("delivered")
else:
    micropython.schedule(scheduled, 0)
    for k in range(_MANY):
        while True:
            try:
                note("m%d" % k, 1 + k % 2)
                break
            except RuntimeError as e:
                raise AssertionError("the main program is nobody's scheduled function") from e
        client.run_for(3)
    while len(accepted) < 2 * _MANY:
        client.run_for(3)
    running = False
    print("\n".join(accepted))
    if refused:
        print("busy")
