"""Cancels callers of the asyncio client at every await."""

import asyncio
import copy
import threading
import types

import pytest

from host_tests.lib.aio_clients import LIMIT_S, LONG, VIRTUAL, Slow, long_first, make, narrow, play, run, until
from inflight import Journal, OutboxFull, RamFlash
from tools.reference.kinds import SUBSCRIBE
from tools.reference.wire import publish, suback

pytestmark = VIRTUAL


@pytest.mark.parametrize("code", [1, 128])
def test_subscribe_cancelled_before_its_answer(broker, code):
    """Its SUBACK is not taken for that of the next request, for another filter or the same one."""
    client = make(broker.port)
    got = []

    async def cancelled(when, *arguments):
        task = asyncio.create_task(client.subscribe(*arguments))
        await until(when.is_set)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def scene():
        async with client:
            await client.connect()
            await cancelled(asked[0], "a", 1, print)
            second = asyncio.create_task(client.subscribe("b", 2, print))
            await asyncio.sleep(0)
            answer[0].set()
            assert await second == 2
            await cancelled(asked[1], "s", 1, print)
            second = asyncio.create_task(client.subscribe("s", 2, lambda m: got.append(m.payload)))
            await asyncio.sleep(0)
            answer[1].set()
            assert await second == 2
            await until(lambda: got)
            for connects in (2, 3):
                again[connects - 2].set()
                await until(lambda connects=connects: client.counters()["connects"] == connects)
                await client.connect()

    asked = threading.Event(), threading.Event()
    answer = threading.Event(), threading.Event()
    again = threading.Event(), threading.Event()

    def script(b):
        b.welcome()
        for k, (first, second) in enumerate((("a", "b"), ("s", "s"))):
            mid = b.expect(SUBSCRIBE, filters=[(first, 1)]).mid
            asked[k].set()
            b.until(answer[k].is_set)
            b.send(suback(mid, code))
            b.grant(2, filters=[(second, 2)])
        b.send(publish("s", b"x"))
        b.until(again[0].is_set)
        b.cut()
        b.welcome(1)
        if code == 128:
            b.grant(1, filters=[("a", 1)])  # it was refused
        b.until(again[1].is_set)
        b.cut()
        b.welcome(0)
        for wanted in (("a", 1), ("b", 2), ("s", 2)):  # each once
            b.grant(filters=[wanted])
        b.goodbye()  # no request is missing

    play(broker, script, scene)


@types.coroutine
def cut_short(coroutine, k, late, waits_now):
    """Runs the coroutine, cancelling its task at its k-th suspension: as soon as it waits, or (late) just when it
    would be resumed. Calls waits_now() at the first one. Returns the coroutine's result."""
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    steps = coroutine.__await__()
    error = None
    n = 0
    while True:
        try:
            waits = steps.throw(error) if error else steps.send(None)
        except StopIteration as end:
            return end.value
        error = None
        n += 1
        if n == 1:
            waits_now()
        if n == k and late and waits is not None:
            waits.add_done_callback(lambda _: task.cancel())
        elif n == k:
            loop.call_soon(task.cancel)
        try:
            yield waits
        except BaseException as e:
            error = e


async def _full(client, b):
    """Fills the journal."""
    with pytest.raises(OutboxFull):
        while True:
            client.session.publish(b"fill", b"x" * 150, 1, False)


CALLS = {
    "connect": (None, lambda c: c.connect()),
    "publish 0": (long_first, lambda c: c.publish("cut", b"0", 0)),
    "publish 1": (long_first, lambda c: c.publish("cut", b"1", 1)),
    "publish 2": (long_first, lambda c: c.publish("cut", b"2", 2)),
    "publish 0 long": (long_first, lambda c: c.publish("cut", LONG, 0)),
    "publish 1 long": (long_first, lambda c: c.publish("cut", b"1" * 900, 1)),
    "publish 2 long": (long_first, lambda c: c.publish("cut", b"2" * 900, 2)),
    "publish 1 full": (_full, lambda c: c.publish("cut", b"1" * 150, 1)),
    "subscribe": (long_first, lambda c: c.subscribe([("cut", 1), ("cut/2", 2)])),
    "unsubscribe": (long_first, lambda c: c.unsubscribe("u")),
    "ping": (long_first, lambda c: c.ping()),
    "drain": (_full, lambda c: c.drain(LIMIT_S * 1000)),
    "__anext__": (None, lambda c: c.__anext__()),
    "disconnect": (long_first, lambda c: c.disconnect()),
}


@pytest.mark.parametrize("name", CALLS)
def test_cancelled_anywhere(clock, name):
    """At whatever await a caller is cancelled, as it waits or as it would be resumed, the client works as before."""
    for late in (False, True):
        k = 1
        while cancelled_once(clock, name, k, late):
            k += 1
            assert k < 200
        assert k > 1  # it was suspended at least once


def cancelled_once(clock, name, k, late):
    before, call = CALLS[name]
    got = []
    with Slow(clock) as b:
        narrow(b)
        client = make(b.port, RamFlash(4, 1024 if before is _full else 4096))

        async def scene():
            other = None
            if name != "connect":
                await client.subscribe("in", 2, None if name == "__anext__" else lambda m: got.append(m.payload))
                await client.connect()
                narrow(client)
            if before:
                other = await before(client, b)

            def waits_now():
                b.reads = True
                if name == "__anext__":
                    b.give("in", b"in 1", 2)

            if name == "__anext__":
                b.give("in", b"in 0", 2)
                got.append((await client.__anext__()).payload)
            task = asyncio.create_task(cut_short(call(client), k, late, waits_now))
            result = (await asyncio.gather(task, return_exceptions=True))[0]
            check_journal(client)
            b.reads = True
            cancelled = isinstance(result, asyncio.CancelledError)
            if isinstance(result, BaseException) and not cancelled:
                raise result
            if other:
                await asyncio.gather(other, return_exceptions=name == "disconnect")
            await still_works(client, b, got, name, result)
            return cancelled

        cancelled = run(scene())
    check_arrived(b, name, cancelled)
    check_journal(client)
    assert client.pending == 0 and client.counters()["outages"] == 0
    return cancelled


async def still_works(client, b, got, name, result):
    if name == "__anext__":
        if hasattr(result, "payload"):
            got.append(result.payload)
        while len(got) < 2:
            got.append((await client.__anext__()).payload)
        assert got == [b"in 0", b"in 1"]
        waiting = asyncio.create_task(client.__anext__())  # through with the last one
        await until(lambda: not any(session.flight for session in b.sessions.values()))
        waiting.cancel()
    await client.connect()
    for qos in (0, 1, 2):
        await client.publish("after", b"%d" % qos, qos)
    assert await client.drain(LIMIT_S * 1000)
    assert await client.subscribe("in", 2, lambda m: got.append(m.payload)) == 2
    assert await client.ping() >= 0
    b.give("in", b"last", 2)
    await until(lambda: got and got[-1] == b"last")
    await client.ping()
    await client.disconnect()


def check_arrived(b, name, cancelled):
    after = [m.payload for m in b.arrived if m.topic == "after"]
    assert sorted(after) == [b"0", b"1", b"2"] and after.index(b"1") < after.index(b"2")
    times = len([m for m in b.arrived if m.topic == "cut"])
    if name.startswith("publish"):
        assert times <= 1 if cancelled else times == 1
        if cancelled and name.startswith(("publish 1", "publish 2")):
            assert times == 0  # not delivered
    last = b.connections[-1]
    assert last._parsed == len(last.received)


def check_journal(client):
    """A journal mounted on a copy of the flash agrees with the client."""
    anew = Journal(copy.deepcopy(client.device))
    assert (anew.live, anew.epoch) == (client.pending, client.session.journal.epoch)
    assert anew.next_seq == client.session.journal.next_seq
