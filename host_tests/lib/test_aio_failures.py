"""The asyncio client with failing flash."""

import errno

import pytest

from host_tests.lib.aio_clients import LIMIT_S, VIRTUAL, make, run, until
from nor import NorFlash

pytestmark = VIRTUAL


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
