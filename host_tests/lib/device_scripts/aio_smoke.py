"""Uses every feature of the asyncio client on a device: `aio_smoke.py PORT`. Prints RESTART when the broker is to be
restarted, DONE at the end."""

import asyncio
import sys

from inflight import AsyncClient, Journal, RamFlash

got = []
LONG = bytes(30_000)


async def until(condition):
    while not condition():
        await asyncio.sleep(0.005)


async def end(task, error=asyncio.CancelledError):
    try:
        await task
    except error:
        return


async def consume(client):
    async for message in client:
        got.append((message.topic, message.payload, message.qos))


async def there_and_back(client):
    for qos in (0, 1, 2):
        await client.publish("loop/%d" % qos, b"hello", qos)
    assert await client.drain(60_000)
    await until(lambda: len(got) == 3)
    assert sorted(got) == [("loop/%d" % qos, b"hello", qos) for qos in (0, 1, 2)], got


async def through_a_restart(client):
    got.clear()
    print("RESTART")
    for k in range(40):
        await client.publish("loop/r", b"%d" % k, 1 + k % 2)
        await asyncio.sleep(0.005)
    await until(lambda: client.counters()["outages"])
    await until(lambda: client.connected)  # connect() would make one attempt, and the broker may not be there again
    assert await client.drain(60_000)
    await until(lambda: b"39" in [payload for _, payload, _ in got])
    await until(lambda: len(set(got)) == 40)
    twice = [payload for _, payload, qos in got if qos == 2]
    assert twice == [b"%d" % k for k in range(1, 40, 2)], twice


async def cancelled(client):
    # Each of these in the midst of it; what was half written goes on.
    for call in (
        lambda: client.publish("long", LONG),
        lambda: client.ping(),
        lambda: client.subscribe("other", 1),
        lambda: client.publish("long", LONG),
        lambda: client.unsubscribe("other"),
        lambda: client.drain(1000),
    ):
        for yields in range(3):
            task = asyncio.create_task(call())
            for _ in range(yields):
                await asyncio.sleep(0)
            task.cancel()
            await end(task)
    assert await client.ping() >= 0
    assert client.counters()["outages"] == 1, "a cancelled call cost the connection"


async def a_new_consumer(client, old):
    old.cancel()
    await end(old)
    got.clear()
    heard = client.counters()["received"]
    await client.publish("loop/0", b"held", 2)
    await until(lambda: client.counters()["received"] > heard)
    new = asyncio.create_task(consume(client))
    await until(lambda: got)
    assert got == [("loop/0", b"held", 2)]
    assert await client.drain(60_000)  # the broker may complete ours after it has given it back
    return new


async def consumers_that_leave(client):
    # In each case answers of the broker come, and the message stays what it was.
    await client.publish("loop/1", b"one", 1)
    message = await asyncio.wait_for(client.__anext__(), 5)
    for k in range(3):
        await client.publish("loop/1", b"next %d" % k, 1)
    assert await client.drain(60_000)
    assert await client.ping() >= 0
    assert (message.topic, message.payload, message.qos) == ("loop/1", b"one", 1) and message.mid
    rest = []
    async for message in client:
        rest.append(message.payload)
        if len(rest) == 2:
            break
    other = asyncio.create_task(client.__anext__())
    rest.append((await other).payload)
    assert rest == [b"next 0", b"next 1", b"next 2"], rest
    try:
        await asyncio.wait_for(client.__anext__(), 0.01)
        raise AssertionError("a message that nobody sent")
    except asyncio.TimeoutError:
        pass
    assert await client.ping() >= 0


async def completed(client, told):
    mid = await client.publish("loop/quiet", b"", 2)
    assert client.is_pending(mid)
    assert await client.drain(5000, mid)
    assert not client.is_pending(mid) and told[-1] == mid


async def leave_at_once(port):
    # In the midst of connecting: nothing is watched any more.
    client = AsyncClient("127.0.0.1", "leaver", Journal(RamFlash(8, 4096)), port=port)
    for turns in range(6):
        task = asyncio.create_task(client.connect())
        for _ in range(turns):
            await asyncio.sleep(0)
        await client.disconnect()
        if hasattr(asyncio, "core"):
            assert not asyncio.core._io_queue.map
        await end(task, OSError)


async def main(port):
    await leave_at_once(port)
    errors, connects, disconnects, completes = [], [], [], []
    handlers = {"on_connect": connects.append, "on_disconnect": disconnects.append}
    handlers.update({"on_complete": completes.append, "on_error": errors.append})
    options = {"port": port, "timeout_ms": 5000, "backoff_ms": (5, 50)}
    client = AsyncClient("127.0.0.1", "smoke", Journal(RamFlash(8, 4096)), **options, **handlers)
    async with client:
        await client.subscribe("loop/#", 2)
        consumer = asyncio.create_task(consume(client))
        await client.connect()
        assert await client.subscribe("more", 1) == 1
        await there_and_back(client)
        await through_a_restart(client)
        await cancelled(client)
        consumer = await a_new_consumer(client, consumer)
        consumer.cancel()
        await end(consumer)
        await consumers_that_leave(client)
        await completed(client, completes)
    for e in errors:
        assert isinstance(e, OSError), repr(e)
    assert connects == [False, True], connects
    assert [type(e) for e in disconnects[1:]] == [type(None)] and isinstance(disconnects[0], OSError), disconnects
    if hasattr(asyncio, "core"):
        assert not asyncio.core._io_queue.map
    assert not client.connected and client.pending == 0
    try:
        await client.publish("loop/0", b"nobody")
        raise AssertionError("published without a connection")
    except OSError:
        pass
    print("DONE")


asyncio.run(asyncio.wait_for(main(int(sys.argv[1])), 40))
