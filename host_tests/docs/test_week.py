"""The first programs run for days, with outages longer than the journal: nothing is raised, the newest readings arrive,
what was dropped is counted and told."""

import itertools
import sys
import types

import pytest

import inflight
from host_tests.clients import automatic, clock  # noqa: F401 (fixtures)
from host_tests.docs.pages import first_program
from host_tests.thorough import more
from tools.reference.kinds import CONNECT, PINGREQ, PUBLISH

HOUR_S = 3600
OUTAGES = ((1, 3), (8, 12))  # of each day, from hour to hour


@pytest.mark.parametrize("page", ["README.md", "docs/guide/first-program.md"])
@pytest.mark.parametrize("hours", [4, *more(7 * 24)])
def test_days_with_outages(automatic, clock, monkeypatch, page, hours):  # noqa: F811
    began, clients, errors = clock.now, [], []

    class Client(inflight.Client):
        def __init__(self, *arguments, **options):
            super().__init__(*arguments, on_error=errors.append, **options)
            clients.append(self)

        def run_for(self, ms):
            hour = (clock.now - began) / HOUR_S
            away = any(a <= hour % 24 < b for a, b in OUTAGES)
            broker.faults.silent = (CONNECT, PUBLISH, PINGREQ) if away else ()
            if hour >= hours:
                raise KeyboardInterrupt
            super().run_for(ms)

    def flash(*_):
        return inflight.RamFlash(8, 4096)

    network = types.SimpleNamespace(keep=lambda client: None)
    board = types.SimpleNamespace(
        network=lambda: None, device_id=lambda: "attic", journal_flash=flash, watchdog=lambda ms: None
    )
    monkeypatch.setitem(sys.modules, "board", board)
    monkeypatch.setitem(sys.modules, "connectivity", types.SimpleNamespace(Connectivity=lambda *_: network))
    monkeypatch.setattr(inflight, "Client", Client)
    monkeypatch.setattr(inflight, "FileFlash", flash)
    readings = itertools.count()
    broker = automatic()
    program = first_program(page, "127.0.0.1", broker.port).replace(", read_sensor(),", ", str(next(readings)),")
    with pytest.raises(KeyboardInterrupt):
        exec(program, {"readings": readings})
    (client,) = clients
    assert client.drain(60_000)
    arrived = [int(payload) for payload in broker.payloads()]
    assert arrived == sorted({*arrived}) and arrived[-1] == next(readings) - 1
    assert arrived[-1] + 1 - len(arrived) == client.counters()["dropped"] > 100
    assert [type(e) for e in errors].count(inflight.OutboxFull) == 1
    client.disconnect()
    broker.stop()
