"""The asyncio client with failing flash, and in interrupted programs."""

import asyncio
import errno
import gc
import warnings

import pytest

from host_tests.lib.aio_clients import LIMIT_S, VIRTUAL, make, run, until
from host_tests.thorough import some
from host_tests.virtual import new_loop
from nor import NorFlash
from tools.reference.at_line import AtLine

pytestmark = VIRTUAL

POINTS = 150  # of one run at which it is interrupted


def test_flash_fails_with_one_connection(automatic):
    """reconnect=False: publish() succeeds, the connection ends, and the client makes no other one."""
    with automatic() as b:
        client = make(b.port, NorFlash(), reconnect=False)

        async def scene():
            await client.connect()
            client.device.fail_at(0)
            assert await client.publish("t", b"x", 1)
            with pytest.raises(OSError) as told:
                await client.drain(LIMIT_S * 1000)
            assert told.value.errno == errno.EIO
            await client.disconnect()

        run(scene())
    assert b.payloads() == [] and client.pending == 1


@pytest.mark.parametrize("how", ["program", "read"])
@pytest.mark.parametrize("qos", [1, 2])
def test_flash_fails_while_acknowledging(automatic, qos, how):
    """Acknowledgements by the broker and by a consumer; the client's task continues."""
    with automatic() as b:
        client = make(b.port, NorFlash())
        got = []

        async def scene():
            async with client:
                await client.subscribe("t", 2)
                await client.connect()
                for k in range(3):
                    assert await client.publish("out", b"%d" % k, qos)
                client.device.fail_at(0, how)
                assert await client.drain(LIMIT_S * 1000)
                for k in range(3):
                    b.give("t", b"%d" % k, qos)
                async for message in client:
                    got.append((message.payload, message.redelivered))
                    if {payload for payload, _ in got} == {b"0", b"1", b"2"}:
                        break
                    if len(got) == 1:
                        client.device.fail_at(0, how)
                assert await client.publish("out", b"last", 1)
                assert await client.drain(LIMIT_S * 1000)

        run(scene())
    assert set(b.payloads()) == {b"0", b"1", b"2", b"last"} and (qos == 1 or len(b.arrived) == 4)
    assert qos == 1 or len([payload for payload, again in got if not again]) == 3
    assert client.errors and all(isinstance(e, OSError) for e in client.errors)


def test_flash_that_fails_for_longer(automatic):
    """publish() raises the flash's error; the client recovers when the flash does."""
    with automatic() as b:

        async def scene():
            async with client:
                await client.connect()
                assert await client.publish("t", b"0", 2)
                client.device.off_line = True
                with pytest.raises(OSError):
                    await client.publish("t", b"1", 2)
                await until(lambda: len(client.errors) > 3)
                client.device.off_line = False
                assert await client.publish("t", b"2", 2)
                assert await client.drain(LIMIT_S * 1000)

        class Unplugged(NorFlash):
            off_line = False

            def readblocks(self, *of):
                self.check_line()
                super().readblocks(*of)

            def writeblocks(self, *of):
                self.check_line()
                super().writeblocks(*of)

            def ioctl(self, op, arg):
                self.check_line()
                return super().ioctl(op, arg)

            def check_line(self):
                if self.off_line:
                    raise OSError(errno.EIO)

        client = make(b.port, Unplugged())
        run(scene())
    assert b.payloads() == [b"0", b"2"]


def counts(code):
    # Whoever is interrupted with a message in its hands is through with it; a question hits who asked it.
    return code.co_name not in ("_next", "pending")


def interrupted_run(automatic, error, at):
    """Publishes and receives with an interrupt at this line, then continues the loop. Returns how many lines ran."""

    def interrupt():
        raise error

    loop = new_loop()
    loop.set_exception_handler(lambda *_: None)  # tasks of the application that the interrupt ended
    out = [(b"%d" % k, 1 + k % 2) for k in range(4)]
    accepted, got = [], []

    async def produce(client):
        while out:
            payload, qos = out.pop(0)
            await client.publish("out", payload, qos)
            accepted.append(payload)

    async def consume(client):
        async for message in client:
            got.append((message.payload, message.redelivered))

    async def life(client, b):
        tasks = [asyncio.create_task(produce(client)), asyncio.create_task(consume(client))]
        try:
            while out or client.pending or {payload for payload, _ in got} != gifts or not client.connected:
                for k, work in enumerate((produce, consume)):
                    if tasks[k].done() and (work is consume or out):
                        tasks[k] = asyncio.create_task(work(client))
                await asyncio.sleep(0.001)
        finally:
            tasks[1].cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def go_on(work):
        task = loop.create_task(asyncio.wait_for(work, LIMIT_S * 60))
        while True:
            try:
                return loop.run_until_complete(task)
            except KeyboardInterrupt:
                assert not task.done()

    gifts = {b"a", b"b", b"c"}
    with automatic() as b:
        client = make(b.port, NorFlash(page=4))
        go_on(client.subscribe("t", 2))
        go_on(client.__aenter__())
        go_on(client.connect())
        for k, gift in enumerate(sorted(gifts)):
            b.give("t", gift, 1 + k % 2)
        with AtLine(at, interrupt, counts) as lines:
            go_on(life(client, b))
        go_on(client.disconnect())
        go_on(asyncio.sleep(0))
        assert not asyncio.all_tasks(loop)
        loop.close()
        arrived = b.payloads()
        assert set(accepted) <= set(arrived), (accepted, arrived)
        assert arrived.count(b"1") <= 1 and arrived.count(b"3") <= 1
        assert [payload for payload, again in got if not again].count(b"b") <= 1
    return at - lines.left


@pytest.mark.parametrize("error", [KeyboardInterrupt, MemoryError])
def test_interrupted_at_any_line(automatic, error):
    """Accepted messages arrive, the broker's messages are delivered, and a packet sent in part is the last one of its
    connection. The broker checks each."""
    n = interrupted_run(automatic, error, 1 << 60)
    assert n > 500
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a socket or a coroutine that has no name yet is the collector's
        for at in some(range(1, n, max(1, n // POINTS)), 5):
            try:
                interrupted_run(automatic, error, at)
            except AssertionError as found:
                raise AssertionError(f"at line {at} of {n}: {found}") from found
        gc.collect()
