"""What `make figures-pico-w` takes for the events of a wake; the wakes themselves need the emulated board."""

import pytest

pytest.importorskip("rp2040py", reason="rp2040py is not installed: run `make setup`")

from rp2040py.external.cyw43 import net
from rp2040py.external.cyw43.nat import GATEWAY_IP, GATEWAY_MAC, GUEST_IP

from tools.emulators.pico_w.waking import ACKNOWLEDGED, ASLEEP, READINGS, Wake

pytestmark = pytest.mark.long("INFLIGHT_TOOLS")
BOARD_MAC = bytes(6)
CONNACK, SUBACK, PUBACK = b"\x20\2\0\0", b"\x90\3\0\1\2", b"\x40\2\0\2"


class Clock:
    nanos = 5e9

    def at(self, ms):
        self.nanos = 5e9 + ms * 1e6


def tcp(payload, to_board=True):
    source, target = (GATEWAY_IP, GUEST_IP) if to_board else (GUEST_IP, GATEWAY_IP)
    segment = net.pack_tcp(source, target, 1883, 50_000, 1, 1, net.TCP_ACK, 4096, payload)
    packet = net.pack_ipv4(source, target, net.IP_PROTO_TCP, segment)
    macs = (BOARD_MAC, GATEWAY_MAC) if to_board else (GATEWAY_MAC, BOARD_MAC)
    return net.pack_ethernet(*macs, net.ETHERTYPE_IPV4, packet)


def arp():
    packet = net.pack_arp(net.ARP_OP_REQUEST, BOARD_MAC, GUEST_IP, bytes(6), GATEWAY_IP)
    return net.pack_ethernet(b"\xff" * 6, BOARD_MAC, net.ETHERTYPE_ARP, packet)


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def wake(clock):
    return Wake(clock)


def test_readings_are_complete_with_the_last_program_before_the_radio_is_used(clock, wake):
    for ms in (800, 801.5):
        clock.at(ms)
        wake.programmed()
    clock.at(1500)
    wake.frame(arp())
    clock.at(1800)
    wake.programmed()
    assert wake.ms == {READINGS: 801.5}


def test_the_first_puback_to_the_board_acknowledges_them(clock, wake):
    clock.at(1500)
    for frame in (arp(), tcp(CONNACK), tcp(SUBACK), tcp(b""), tcp(PUBACK, to_board=False)):
        wake.frame(frame)
    assert ACKNOWLEDGED not in wake.ms
    clock.at(1600)
    wake.frame(tcp(SUBACK + PUBACK))
    clock.at(1700)
    wake.frame(tcp(PUBACK))
    assert wake.ms[ACKNOWLEDGED] == 1600


def test_a_packet_whose_body_looks_like_one_is_none(clock, wake):
    wake.frame(tcp(b"\x90\4\x40\2\0\1"))
    assert ACKNOWLEDGED not in wake.ms


def test_it_sleeps_once(clock, wake):
    for ms in (2000, 2010):
        clock.at(ms)
        wake.slept()
    assert wake.ms == {ASLEEP: 2000}
