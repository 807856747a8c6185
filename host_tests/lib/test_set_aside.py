"""One message blocks nothing: a broker that ends the connection at a message, and calls that look at pending messages
and give them up, with both clients."""

import contextlib

import pytest

from host_tests.broker import Gone
from inflight import Client, FileFlash, Journal
from inflight.journal.journal import OUT
from inflight.journal.records import OVERHEAD
from inflight.session.refused import MessageDamaged, MessageSetAside
from nor import NorFlash
from tools.reference.kinds import PINGREQ, PUBLISH
from tools.reference.wire import disconnect, pingresp


def policy(connections, bad=b"bad", present=True, packet=b""):
    """The script of a broker that ends connections at payloads that begin with `bad`, and takes other messages, until
    the client disconnects. connections: of each a list of the payloads. not present: it forgets each session. packet:
    the last one of a connection that it ends."""

    def script(b):
        while True:
            b.welcome(1 if connections and present else 0)
            connections.append([])
            try:
                while True:
                    p = b.receive()
                    if p.kind == PINGREQ:
                        b.send(pingresp())
                        continue
                    if p.kind != PUBLISH:
                        return
                    connections[-1].append(p.payload)
                    if p.payload.startswith(bad):
                        b.send(packet)
                        b.connection.finish()  # what was answered before arrives
                        break
                    b.acknowledge(p)
            except Gone:
                pass

    return script


def told(errors):
    return [(e.mid, e.seq, e.topic, e.kept) for e in errors if isinstance(e, MessageSetAside)]


@pytest.mark.parametrize("client_kind", ["blocking", "asyncio"])
def test_a_message_that_ends_each_connection(broker, make):
    """[MQTT-4.4.0-1] It is set aside and told; drain() returns when nothing else is pending."""
    client = make(broker.port)
    connections = []
    with broker.play(policy(connections)):
        bad = client.publish("t/bad", b"bad", 1)
        for k in range(5):
            client.publish("t", b"%d" % k, 1)
        assert not client.drain(60_000)
        assert [(found[0], found[5]) for found in client.pending_messages()] == [(bad, "set aside")]
        assert client.pending == 1 and client.is_pending(bad)
        assert told(client.errors) == [(bad, 0, "t/bad", True)]
        assert client.discard(bad) and not client.discard(bad)
        assert client.pending == 0 and client.drain(0)
        counted = client.counters()
        assert (counted["completed"], counted["dropped"], counted["set_aside"]) == (5, 1, 1)
        if not client.connected:
            client.connect()  # the script ends with the DISCONNECT of a connection
        client.disconnect()


@pytest.mark.parametrize("level", [4, 5])
@pytest.mark.parametrize("awake_ms", [8_000, 5_000, 0], ids=["8 s", "5 s", "one connection"])
def test_a_device_that_sleeps(virtual, make, level, awake_ms):
    """[MQTT-4.4.0-1] Within 30 s awake the message is set aside: once, also where each life has a single connection. In
    each later life the others come first, and then it has a try."""
    flash, connections, found = NorFlash(4, 4096), [], []
    awake = 0
    with virtual.play(policy(connections, packet=disconnect(0x87) if level == 5 else b"")):
        for k in range(14):
            client = make(virtual.port, flash, protocol_level=level, backoff_ms=(1_000, 60_000), reconnect=awake_ms > 0)
            began, before = virtual.clock.now, len(connections)
            client.publish("t", b"%d" % k if k else b"bad", 1)
            with contextlib.suppress(OSError):  # which ends the only connection
                awake_ms or client.connect()
                client.drain(awake_ms or 5_000)
            if found:
                assert connections[before][-1] == b"bad" and len(connections) <= before + 2
            else:
                awake += virtual.clock.now - began
            found += told(client.errors)
            make.cut_power(client)
        client.connect()
        client.disconnect()
    assert found == [(1, 0, "t", True)] and awake <= 30, (found, awake)
    assert {p for payloads in connections for p in payloads} == {b"bad", *(b"%d" % k for k in range(1, 14))}


def test_retry_does_not_wait_for_the_pause(broker, make, virtual):
    """[MQTT-4.4.0-1] The message failed a second time, alone, and would wait for a minute. drain() tries what retry()
    allows, and is True when that was completed."""
    client = make(broker.port)
    connections, bad = [], bytearray(b"bad")
    with broker.play(policy(connections, bad)):
        client.retry()  # nothing is set aside
        mid = client.publish("t/bad", b"bad", 1)
        assert not client.drain(60_000)
        client.run_for(5_000)
        bad[:] = b"none"
        client.run_for(5_000)
        assert client.is_pending(mid)
        client.retry()
        assert client.drain(5_000)
        assert not client.is_pending(mid) and client.counters()["set_aside"] == 1
        client.disconnect()


def test_pending_messages_of_damaged_flash(make, tmp_path):
    """Its topic is no UTF-8 any more: an OSError, then it is dropped and told, and the client goes on."""
    path = tmp_path / "journal"
    flash = FileFlash(str(path), 4, 1024)
    client = make(1, flash, backoff_ms=(60_000, 60_000))
    for topic in ("t/1", "t/2"):
        client.publish(topic, b"x", 1)
    with path.open("r+b") as file:
        file.seek(path.read_bytes().index(b"t/1"))
        file.write(b"\xd9")
    with pytest.raises(OSError, match="damaged"):
        list(client.pending_messages())
    assert client.publish("t/3", b"x", 1) == 3
    assert [found[2] for found in client.pending_messages()] == ["t/2", "t/3"]
    client.run_for(60)
    client.run_for(1)
    assert [error.mid for error in client.errors if isinstance(error, MessageDamaged)] == [1]
    flash.close()


def half_done(flash, journal):
    """The state of the only message, which a power cut left half written, reads as done from now on."""
    at = journal.find(OUT, 0)
    at += journal.found_len + OVERHEAD - 1
    flash.data[at] &= 0xF0


def goes_on(client):
    client.run_for(120_000)
    client.publish("t", b"good", 1)
    assert client.drain(60_000) and client.pending == client.session.journal.live == 0
    client.disconnect()


def test_a_message_whose_state_reads_as_done_after_the_mount(broker, make):
    """It was acknowledged. The journal is mounted again: nothing is pending for ever, and what comes next leaves."""
    flash = NorFlash(8, 4096)
    make(broker.port, flash).publish("t", b"acknowledged", 1)
    journal = Journal(flash)
    half_done(flash, journal)
    client = Client("127.0.0.1", "dev", journal, port=broker.port, on_error=lambda e: None)
    with broker.play(policy([])):
        goes_on(client)


def test_the_same_of_one_that_was_set_aside(broker, make):
    flash = NorFlash(8, 4096)
    client = make(broker.port, flash)
    client.publish("t/bad", b"bad", 1)
    with broker.play(policy([])):
        assert not client.drain(60_000)
        half_done(flash, client.session.journal)
        goes_on(client)
