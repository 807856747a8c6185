"""One thread of control: calls of a client that come within other calls of it, from scheduled functions, handlers of
signals, and threads. Each is accepted or refused before anything is written; what is accepted is delivered.
test_interrupts has those that come at any line."""

import asyncio
import sys
import threading
from pathlib import Path

import pytest

from host_tests.absent import interpreter
from host_tests.broker import PATIENCE_S, Automatic
from host_tests.processes import running
from host_tests.waiting import wait_for
from inflight import AsyncClient, Client, Journal, RamFlash
from inflight.net.transport import Transport

RUNTIMES = "micropython-x86"
MORE_RUNTIMES = "micropython-x64"
SCRIPT = Path(__file__).parent / "device_scripts" / "scheduled.py"


@pytest.fixture
def automatic():
    with Automatic() as broker:
        yield broker


def check_delivered(broker, flash, accepted):
    """Each (payload, qos) of `accepted` arrived, those of QoS 2 once, and flash holds nothing any more."""
    arrived = broker.payloads()
    assert sorted(p for p, _ in accepted if p not in arrived) == []
    assert [p for p, qos in accepted if qos == 2 and arrived.count(p) != 1] == []
    journal = Journal(flash)
    assert (journal.live, journal.damaged) == (0, 0)


@pytest.mark.parametrize("name", ["connect", "disconnect", "drain", "ping", "run_for", "subscribe", "is_pending"])
def test_other_calls_within_a_call(automatic, make, name):
    """They are refused, and the call around them goes on."""
    arguments = {"drain": (0,), "run_for": (1,), "subscribe": ("t",), "is_pending": (1,)}.get(name, ())
    refused = []

    class Flash(RamFlash):
        armed = False

        def program(self, *args):
            if self.armed and not refused:
                with pytest.raises(RuntimeError) as told:
                    getattr(client, name)(*arguments)
                refused.append(str(told.value))
            super().program(*args)

    flash = Flash()
    client = make(automatic.port, flash)
    client.connect()
    flash.armed = True
    client.publish("t", b"x", 1)
    assert "busy" in refused[0]
    assert client.drain(PATIENCE_S * 1000)
    assert automatic.payloads() == [b"x"]


@pytest.mark.parametrize("name", ["micropython-x64", "micropython-x86"])
def test_a_scheduled_function_publishes(automatic, tmp_path, name):
    """While the main program publishes, and runs the client; then a restart."""
    found = interpreter(name)
    journal = tmp_path / "journal"
    with running(found, SCRIPT, automatic.port, journal, "accept", heap="600k") as process:
        *accepted, busy = process.communicate(timeout=4 * PATIENCE_S)[0].splitlines()
    assert process.returncode == 0 and busy == "busy" and len(accepted) == 240
    with running(found, SCRIPT, automatic.port, journal, "deliver", heap="600k") as process:
        assert process.communicate(timeout=4 * PATIENCE_S)[0] == "delivered\n"
    arrived = automatic.payloads()
    assert sorted(set(accepted) - {p.decode() for p in arrived}) == []
    assert automatic.failure is None


def main_program_calls():
    """True if the main program is in a call that may wait for another thread's."""
    frame = sys._current_frames()[threading.main_thread().ident]
    while frame and not frame.f_code.co_filename.endswith("inflight/cpython.py"):
        frame = frame.f_back
    return frame


def test_a_handler_within_publish_waits_for_a_thread_that_publishes(automatic, make):
    """Nobody runs the client: publish() reads, since its window is full. Meanwhile the main program may run it."""
    space = RamFlash(64, 4096)  # a full journal would refuse the thread's message
    client = make(automatic.port, space, max_inflight=1, timeout_ms=PATIENCE_S * 1000)
    waits = threading.Event()
    published = []

    def handler(message):
        thread = threading.Thread(target=lambda: published.append(client.publish("t", b"thread", 1)), daemon=True)
        thread.start()
        thread.join(PATIENCE_S)
        published.append(b"over")
        waits.set()
        wait_for(main_program_calls, PATIENCE_S)  # run_for() waits for its turn

    def work():
        k = 0
        while not waits.is_set():
            client.publish("t", b"%d" % k, 1)
            k += 1

    client.subscribe("in", 1, handler)
    client.connect()
    automatic.give("in", b"in", 1)
    worker = threading.Thread(target=work, daemon=True)
    worker.start()
    assert waits.wait(PATIENCE_S)
    client.run_for(1)
    worker.join(PATIENCE_S)
    assert len(published) == 2 and published[1] == b"over"
    assert client.drain(PATIENCE_S * 1000)


def test_a_journal_is_taken_over_between_calls(make, nobody):
    """Another client is made while a thread publishes with the one before, which has no connection: it waits, and that
    message is in the journal. In a handler of signals it is refused."""
    inside, refused = threading.Event(), []

    class Flash(RamFlash):
        def program(self, *args):
            if threading.current_thread() is thread and not inside.is_set():
                inside.set()
                wait_for(main_program_calls, PATIENCE_S)  # the other client waits for its turn
                with pytest.raises(RuntimeError) as told:
                    Client("127.0.0.1", "dev", journal)
                refused.append(str(told.value))
            super().program(*args)

    flash = Flash()
    thread = threading.Thread(target=lambda: first.publish("t", b"1", 1), daemon=True)
    first = make(nobody, flash)
    journal = first.session.journal
    first.run_for(1)
    thread.start()
    assert inside.wait(PATIENCE_S)
    second = Client("127.0.0.1", "dev", journal, port=nobody)
    thread.join(PATIENCE_S)
    assert len(refused) == 1 and "under way" in refused[0]
    with pytest.raises(ValueError, match="another client uses this journal"):
        first.publish("t", b"2", 1)
    assert second.publish("t", b"2", 1) == 2
    assert [message[:2] for message in second.pending_messages()] == [(1, 0), (2, 1)]
    assert (Journal(flash).live, Journal(flash).damaged) == (2, 0)


def test_ctrl_c_as_the_lock_comes_back(automatic, make, monkeypatch):
    """Other threads may publish afterwards."""
    real = threading.RLock
    waited = []

    class Lock:
        """The lock of the client."""

        def __init__(self):
            self.lock = real()

        def acquire(self, *how):
            done = self.lock.acquire(*how)
            if waited and waited.pop():
                raise KeyboardInterrupt
            return done

        def __enter__(self):
            return self.lock.__enter__()

        def __exit__(self, *of):
            return self.lock.__exit__(*of)

        def __getattr__(self, name):
            return getattr(self.lock, name)

    with monkeypatch.context() as now:
        now.setattr(threading, "RLock", Lock)
        client = make(automatic.port)
    client.connect()
    monkeypatch.setattr(Transport, "wait", lambda transport, ms: waited.append(True))
    with pytest.raises(KeyboardInterrupt):
        client.run_for(1000)
    monkeypatch.undo()
    assert not waited
    thread = threading.Thread(target=client.publish, args=("t", b"thread", 1), daemon=True)
    thread.start()
    thread.join(PATIENCE_S)
    assert not thread.is_alive()
    assert client.drain(PATIENCE_S * 1000)


def test_publish_from_any_thread(automatic, make):
    """Three threads and the main program publish, while that runs the client and connects anew."""
    flash = RamFlash(16, 4096)
    client = make(automatic.port, flash, timeout_ms=PATIENCE_S * 1000)
    accepted = [[] for _ in range(4)]
    errors = []

    def publish(who, k):
        qos = 1 + k % 2
        client.publish("t/%d" % who, b"%d-%d" % (who, k), qos)
        accepted[who].append((b"%d-%d" % (who, k), qos))

    def work(who):
        try:
            for k in range(60):
                publish(who, k)
        except Exception as error:
            errors.append(error)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(3)]
    for thread in threads:
        thread.start()
    for k in range(60):
        publish(3, k)
        client.run_for(2)
        if k % 20 == 10:
            client.disconnect()
            client.connect()
    for thread in threads:
        while thread.is_alive():
            client.run_for(5)
        thread.join()
    assert client.drain(PATIENCE_S * 1000)
    assert errors == []
    check_delivered(automatic, flash, sum(accepted, []))
    arrived = automatic.payloads()
    for own in accepted:  # [MQTT-4.6.0-1]
        first = [arrived.index(payload) for payload, _ in own]
        assert first == sorted(first)


def test_publish_while_another_thread_waits(automatic, make, monkeypatch):
    """It is accepted and sent at once: run_for() needs no step for that."""
    client = make(automatic.port)
    client.connect()
    waits = threading.Event()
    done = threading.Event()
    wait = Transport.wait

    def noted(transport, ms):
        waits.set()
        wait(transport, ms)

    monkeypatch.setattr(Transport, "wait", noted)

    def run():
        while not done.is_set():
            client.run_for(50)

    runner = threading.Thread(target=run)
    runner.start()
    assert waits.wait(PATIENCE_S)
    mid = client.publish("t", b"x", 1)
    with pytest.raises(RuntimeError, match="another thread runs this client"):
        client.subscribe("t")
    while client.is_pending(mid):
        pass
    done.set()
    runner.join(PATIENCE_S)
    assert automatic.payloads() == [b"x"]
    client.ping()  # nobody else runs the client any more


def test_an_asyncio_client_and_another_thread(automatic):
    """Its calls are for its own loop, and say how others get there."""

    async def main():
        client = AsyncClient("127.0.0.1", "dev", Journal(RamFlash()), port=automatic.port)
        async with client:
            await client.connect()
            loop = asyncio.get_running_loop()

            def elsewhere():
                with pytest.raises(RuntimeError, match="run_coroutine_threadsafe"):
                    asyncio.run(client.publish("t", b"refused", 1))
                return asyncio.run_coroutine_threadsafe(client.publish("t", b"x", 1), loop).result(PATIENCE_S)

            assert await asyncio.to_thread(elsewhere) == 1
            assert await client.drain(PATIENCE_S * 1000)

    asyncio.run(main())
    assert automatic.payloads() == [b"x"]
