"""The network behind the emulated access point. It ends at this machine's loopback: no packet leaves it."""

import asyncio
import contextlib
import struct

from rp2040py.external.cyw43 import net
from rp2040py.external.cyw43.nat import GATEWAY_IP, GATEWAY_MAC, NatBridge

from tools.peers import ntp

HOST = "10.0.0.1"  # what the board dials to reach 127.0.0.1 here
_DNS = 53


async def dial(host, port):
    if host != HOST:
        raise OSError(f"{host}:{port} is not routed")
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    end = writer.write_eof

    def write_eof():
        # The board says goodbye to a peer that has gone already: the emulator would stop with that error.
        with contextlib.suppress(OSError):
            end()

    writer.write_eof = write_eof  # type: ignore[method-assign]
    return reader, writer


def _resolve(query):
    # Whatever name is asked for is this machine.
    end = query.index(0, 12) + 5  # the name, its type and its class
    head = query[:2] + struct.pack("!HHHHH", 0x8180, 1, 1, 0, 0)
    return head + query[12:end] + struct.pack("!HHHIH", 0xC00C, 1, 1, 60, 4) + GATEWAY_IP


class _Services:
    """Stands in for the emulator's UDP relay, which would send to the real internet: `services` answer here, all else
    is swallowed."""

    def __init__(self, services, send):
        self._services, self._send = services, send

    def maybe_handle(self, frame):
        ip = net.parse_ipv4(frame.payload)
        udp = net.parse_udp(ip.payload) if ip else None
        answer = self._services.get(udp.dst_port) if udp else None
        if answer:
            datagram = net.pack_udp(ip.dst_ip, ip.src_ip, udp.dst_port, udp.src_port, answer(udp.payload))
            packet = net.pack_ipv4(ip.dst_ip, ip.src_ip, net.IP_PROTO_UDP, datagram)
            self._send(net.pack_ethernet(frame.src_mac, GATEWAY_MAC, net.ETHERTYPE_IPV4, packet))
        return True


class Gateway(NatBridge):
    """What the emulated Wi-Fi chip hands its frames to. `silent`: it loses all of them, as a dead link does.
    on_frame(frame) is told of each that it does not lose, in both directions. services: {UDP port: what makes the
    answer of a query}."""

    def __init__(self, rp2040, send):
        def deliver(frame):
            if self.on_frame:
                self.on_frame(frame)
            send(frame)

        super().__init__(rp2040, deliver)
        self.silent = False
        self.on_frame = None
        self.services = {_DNS: _resolve, ntp.PORT: ntp.answer}
        self._udp = _Services(self.services, deliver)  # type: ignore[assignment]
        self._tcp._connect_fn = dial

    def handle_outbound_ethernet_frame(self, frame):
        if not self.silent:
            if self.on_frame:
                self.on_frame(frame)
            super().handle_outbound_ethernet_frame(frame)

    @property
    def in_use(self):
        """True while a connection is open."""
        return bool(self._tcp._flows)
