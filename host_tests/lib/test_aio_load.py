"""The asyncio client under load: back-pressure, many tasks."""

import asyncio

from host_tests.lib.aio_clients import LIMIT_S, LONG, VIRTUAL, half_written, make, narrow, plain, play, run, sends
from inflight import RamFlash
from tools.reference.kinds import PUBLISH

pytestmark = VIRTUAL


def test_publishers_sleep_while_the_socket_is_full(broker, monkeypatch):
    """However many wait for a broker that reads nothing for a while, the client tries to write only now and then."""
    narrow(broker)
    client = make(broker.port)

    async def scene():
        async with client:
            await client.connect()
            narrow(client)
            writers = [await half_written(client)]
            writers += [asyncio.create_task(client.publish("later", b"%d" % k, 1)) for k in range(3)]
            sends(monkeypatch, 1000)
            await asyncio.gather(*writers)
            assert await client.drain(LIMIT_S * 1000)

    @plain
    def script(b):
        b.sleep(10)
        b.expect(PUBLISH, payload=LONG)
        for _ in range(3):
            b.take(topic="later")

    play(broker, script, scene)


def test_large_qos_1_is_written_in_the_background(broker):
    """publish() has returned; the client's task writes the rest as the socket takes it."""
    narrow(broker)
    client = make(broker.port, RamFlash(8, 32768), timeout_ms=4000)
    payload = bytes(range(250)) * 100

    async def scene():
        async with client:
            await client.connect()
            narrow(client)
            start = broker.clock.now
            for _ in range(4):
                await client.publish("big", payload, 1)
            assert await client.drain(LIMIT_S * 1000)
            assert broker.clock.now - start < 1  # woken by the socket, not by timers: they are due each second

    @plain
    def script(b):
        for _ in range(4):
            b.take(qos=1, payload=payload)

    play(broker, script, scene)


def test_many_publishers(automatic):
    """Each task's order is kept, packets are whole, Message IDs unique; some messages are large."""
    with automatic() as b:
        client = make(b.port, RamFlash(16, 4096), timeout_ms=LIMIT_S * 1000)

        async def one(name):
            for k in range(30):
                size = 3000 if k % 10 == 9 else 10
                await client.publish(name, b"%d " % k + b"x" * size, k % 3)
                if k % 4 == 0:
                    await asyncio.sleep(0)

        async def scene():
            async with client:
                await client.connect()
                narrow(client)
                await asyncio.gather(*(one("task/%d" % t) for t in range(20)))
                assert await client.drain(LIMIT_S * 1000)

        narrow(b)
        run(scene())
    for t in range(8):
        assert [int(m.payload.split()[0]) for m in b.arrived if m.topic == "task/%d" % t and m.qos] == [
            k for k in range(30) if k % 3
        ]
        assert [int(m.payload.split()[0]) for m in b.arrived if m.topic == "task/%d" % t and not m.qos] == [
            k for k in range(30) if not k % 3
        ]


def test_many_requests(automatic):
    """Subscriptions, pings and messages from many tasks at once: each request gets its own answer."""
    with automatic() as b:
        client = make(b.port)

        async def ask(k):
            assert await client.subscribe("s/%d" % k, k % 3) == k % 3
            assert await client.ping() >= 0
            assert await client.subscribe([("u/%d" % k, 0), ("v/%d" % k, 1)]) == [0, 1]
            await client.unsubscribe("u/%d" % k)

        async def scene():
            async with client:
                await client.connect()
                await asyncio.gather(*(ask(k) for k in range(20)))
                wanted = {f"{name}/{k}" for name in "sv" for k in range(20)}
                assert {*b.sessions["dev"].subscriptions} == wanted
                await client.disconnect()
                b.forget()  # the client makes them again
                await client.connect()
                assert {*b.sessions["dev"].subscriptions} == wanted

        run(scene())
