# asyncio: the client beside other tasks. Any task may publish(); it waits for the flash, not for the broker. When the
# journal is full, because there was no broker for a long time, the oldest readings are dropped.

import asyncio

import board
from connectivity import Connectivity
from inflight import AsyncClient, Journal

name = board.device_id()


async def measure(client):
    while True:
        for sensor, unit, value in board.sensors():
            if isinstance(value, (int, float)):  # a sensor that failed has an exception in the place of its value
                await client.publish("%s/%s" % (name, sensor), "%s %s" % (value, unit), 1)
        await asyncio.sleep(10)


async def stay_online(client):
    network = Connectivity(board.network(), "home", "secret")
    while True:
        network.keep(client)  # joins, and joins again when it is lost
        await asyncio.sleep(1)


async def blink():
    while True:
        await asyncio.sleep(1)  # toggle a LED here: nothing in the client holds this task up


async def main():
    journal = Journal(board.journal_flash())
    async with AsyncClient("broker.example", name, journal, when_full="oldest") as client:
        await client.subscribe(name + "/ask", 1)
        asyncio.create_task(stay_online(client))
        asyncio.create_task(measure(client))
        asyncio.create_task(blink())
        async for message in client:  # a message is acknowledged when the loop asks for the next one
            await client.publish(name + "/answer", message.payload, 1)


asyncio.run(main())
