"""What `make figures-pico-w` takes for the events of a wake; the figures themselves need the emulated board."""

import pytest

pytest.importorskip("rp2040py", reason="rp2040py is not installed: run `make setup`")

from rp2040py.external.cyw43 import net
from rp2040py.external.cyw43.nat import GATEWAY_IP, GATEWAY_MAC, GUEST_IP

from tools.emulators.pico_w.waking import ACKNOWLEDGED, ASLEEP, READINGS, Wake

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
BOARD_MAC = bytes(6)
CONNACK, SUBACK, PUBACK = b"\x20\2\0\0", b"\x90\3\0\1\2", b"\x40\2\0\2"
LIKE_PUBACK = b"\x90\4\x40\2\0\1"  # in the body of a SUBACK


class Clock:
    nanos = 5e9


def tcp(payload, to_board=True):
    source, target = (GATEWAY_IP, GUEST_IP) if to_board else (GUEST_IP, GATEWAY_IP)
    segment = net.pack_tcp(source, target, 1883, 50_000, 1, 1, net.TCP_ACK, 4096, payload)
    packet = net.pack_ipv4(source, target, net.IP_PROTO_TCP, segment)
    macs = (BOARD_MAC, GATEWAY_MAC) if to_board else (GATEWAY_MAC, BOARD_MAC)
    return net.pack_ethernet(*macs, net.ETHERTYPE_IPV4, packet)


REQUEST = net.pack_arp(net.ARP_OP_REQUEST, BOARD_MAC, GUEST_IP, bytes(6), GATEWAY_IP)
ARP = net.pack_ethernet(b"\xff" * 6, BOARD_MAC, net.ETHERTYPE_ARP, REQUEST)


def test_the_events_of_a_wake():
    """Readings are complete with the last program before the radio is used, acknowledged by the first PUBACK to the
    board."""
    clock = Clock()
    wake = Wake(clock)
    events = [(800, wake.programmed), (801.5, wake.programmed), (1500, wake.frame, ARP), (1510, wake.programmed)]
    others = tcp(CONNACK), tcp(SUBACK), tcp(LIKE_PUBACK), tcp(b""), tcp(PUBACK, to_board=False)
    events += [(1550, wake.frame, frame) for frame in others]
    events += [(1600, wake.frame, tcp(SUBACK + PUBACK)), (1700, wake.frame, tcp(PUBACK))]
    for ms, happen, *what in [*events, (2000, wake.slept), (2010, wake.slept)]:
        clock.nanos = 5e9 + ms * 1e6
        happen(*what)
    assert wake.ms == {READINGS: 801.5, ACKNOWLEDGED: 1600, ASLEEP: 2000}
