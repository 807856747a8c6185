"""`tls_client.py blocking|asyncio HOST PORT CA [what]` connects, publishes, and prints the result. `what` turns
verification off: before the client is created or, with "later", before it connects."""

import sys

from inflight import AsyncClient, Client, Journal, RamFlash
from trusting import ssl, trusting

kind, host, port, ca = sys.argv[1:5]
what = sys.argv[5] if len(sys.argv) > 5 else ""

context = trusting(ca)


def loosen():
    if hasattr(context, "check_hostname") and "optional" not in what:
        context.check_hostname = False
    if "none" in what:
        context.verify_mode = ssl.CERT_NONE
    if "optional" in what:
        context.verify_mode = 1


def make(client):
    return client(
        host, "dev", Journal(RamFlash()), port=int(port), tls=context, timeout_ms=20_000, on_error=lambda e: None
    )


async def by_asyncio():
    client = make(AsyncClient)
    if "later" in what:
        loosen()
    try:
        await client.connect()
        await client.publish("t", "over TLS", 1)
        print("delivered" if await client.drain(20_000) else "no answer")
    finally:
        await client.disconnect()


def blocking():
    client = make(Client)
    if "later" in what:
        loosen()
    client.connect()
    client.publish("t", "over TLS", 1)
    print("delivered" if client.drain(20_000) else "no answer")
    client.disconnect()


try:
    if what and "later" not in what:
        loosen()
    if kind == "asyncio":
        import asyncio

        asyncio.run(by_asyncio())
    else:
        blocking()
except (OSError, ValueError) as error:
    print("refused: %s: %s" % (type(error).__name__, error))
