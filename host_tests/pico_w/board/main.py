# What the copies of the emulated board have in common: there is a journal, everything is imported, Wi-Fi is up.
# Then the board says so and stops; each copy goes on with the task that its test gives it.

import gc
import os

import board
from inflight import Client, Journal
from inflight.compat import const, sleep_ms
from machine import mem32

_TASK = const(0x40058024)
_NOTE = const(0x40058028)
_READY = const(0x3FFFFFFF)
_SETTLE_MS = const(1000)  # the Wi-Fi driver waits several times when it has joined; once for all copies as well
_PLAIN = const(999)  # task: messages of QoS 0
_PUBLISH = const(1000)  # tasks from here on: the number of a publisher, and 1000 more if it stays offline


def accepted(seq, qos, topic):
    mem32[_NOTE] = seq << 2 | qos


def main():
    if "journal" not in os.listdir("/"):  # the first start of all
        Journal(board.journal_flash())
        mem32[_NOTE] = _READY
    for room in ("app", "commands", "health", "node", "start", "telemetry", "wifi"):
        __import__(room)
    import config
    import publisher
    import start

    settings = config.load("/0.json", "")
    publisher.prepare()
    board.accepted = accepted
    board.wifi_setup()
    board.wifi_connect(settings.wifi_ssid, settings.wifi_key, 60_000)
    sleep_ms(_SETTLE_MS)
    gc.collect()  # once for all copies
    mem32[_NOTE] = _READY
    task = mem32[_TASK]
    if task == _PLAIN:
        publisher.plain(settings)
    elif task < _PUBLISH:
        board.config_path = lambda: "/%d.json" % task
        start.main()
    else:
        number = task % _PUBLISH
        journal = publisher.journal()
        client = Client(settings.host, "publisher%d" % number, journal, port=settings.port)
        publisher.run(client, journal, "cut/publisher%d/n" % number, accepted, task < 2 * _PUBLISH)


main()
