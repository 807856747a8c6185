"""Reports beside a writer: each ends, and sees whole batches."""

import threading

from host_tests.thorough import PIPELINE
from host_tests.tools.fleet.tables import AT, Tables
from inflight_tools.fleet.query.facts import gather

REPORTS = 40 if PIPELINE else 5


def test_reports_beside_a_writer(tmp_path):
    root, over, wrote = tmp_path / "tables", threading.Event(), threading.Event()

    def write():
        """A device has three messages more with each batch. The ledger is the last table that gets it."""
        batch = 0
        while not over.is_set():
            tables = Tables(root)
            for seq in range(3 * batch, 3 * batch + 3):
                tables.add("attic", seq, seq, kind="telemetry")
            tables.write(mode="append")
            batch += 1
            wrote.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        wrote.wait()
        delivered = [gather(root, "inflight", now=AT + 1e6)["fleet"]["delivered"] for _ in range(REPORTS)]
    finally:
        over.set()
        writer.join()
    assert delivered == sorted(delivered) and not any(count % 3 for count in delivered)
