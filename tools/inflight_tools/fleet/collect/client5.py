"""Paho's client at level 5, with properties as they are on the wire.

Paho's own decoder refuses strings that MQTT allows, those with U+FEFF, and ends the connection. The broker would send
the message again on each new one, so any sender could stop a collector for good. It also builds a table of all
properties for each message. So a PUBLISH is decoded here. In the other packets only people read the strings: there
U+FEFF becomes U+FFFD."""

import contextlib
import time

import paho.mqtt.client as paho
from paho.mqtt.enums import MessageType, MQTTErrorCode
from paho.mqtt.exception import MalformedPacket
from paho.mqtt.packettypes import PacketTypes
from paho.mqtt.properties import Properties

from inflight_tools.client import BoundedClient

from .property_block import varint

FOR_EVER = 0xFFFFFFFF  # a Session Expiry Interval
_TOO_LARGE = b"\xe0\x01\x95"  # DISCONNECT: Packet too large
_QOS_1 = 1  # what is subscribed; a broker that delivers with more breaks the protocol
_REFUSED, _READABLE = "\ufeff".encode(), "\ufffd".encode()  # of the same length, so all lengths in a packet stay right


def split(packet, qos):
    """(topic, Message ID or 0, block of properties without its length, payload) of the bytes behind the fixed header of
    a PUBLISH. A block that is longer than the packet takes all of it. Raises ValueError."""
    packet = memoryview(packet)
    topic_end = 2 + int.from_bytes(packet[:2], "big")
    behind = topic_end + (2 if qos else 0)
    if behind > len(packet):
        raise ValueError("a PUBLISH that ends within its topic or Message ID")
    try:
        size, start = varint(packet, behind)
    except (ValueError, IndexError):
        size, start = len(packet), behind
    mid = int.from_bytes(packet[topic_end:behind], "big")
    return bytes(packet[2:topic_end]), mid, bytes(packet[start : start + size]), bytes(packet[start + size :])


class Client5(BoundedClient):
    """Continues its session, which the broker is asked to keep for ever, as Paho's does without clean_session. Packets
    with more than `longest` bytes behind their fixed header are not to be sent; one ends the connection. `properties`
    of its messages: bytes, the block without its length. answered: the broker has sent a CONNACK."""

    answered = False
    may_cut = False

    def __init__(self, *words, **options):
        super().__init__(*words, protocol=paho.MQTTv5, **options)

    def connect(self, host, port, keepalive):  # type: ignore[override]  # the rest of Paho's is decided here
        properties = Properties(PacketTypes.CONNECT)
        properties.SessionExpiryInterval = FOR_EVER
        properties.MaximumPacketSize = self.longest + 2  # a fixed header has two bytes at least
        return super().connect(host, port, keepalive, clean_start=False, properties=properties)

    def _packet_handle(self):
        if self._in_packet["command"] & 0xF0 != MessageType.PUBLISH:
            self._in_packet["packet"] = self._in_packet["packet"].replace(_REFUSED, _READABLE)
        return super()._packet_handle()

    def _refuse(self, length):
        with contextlib.suppress(OSError):
            self._sock_send(_TOO_LARGE)
        super()._refuse(length)

    def _handle_connack(self):
        self.answered = True
        try:
            return super()._handle_connack()
        except MalformedPacket as e:
            self._easy_log(paho.MQTT_LOG_ERR, "a CONNACK that is not of MQTT 5: %s", e)
            return MQTTErrorCode.MQTT_ERR_PROTOCOL

    def _handle_publish(self):
        first = self._in_packet["command"]
        qos = first >> 1 & 3
        if qos > _QOS_1:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        try:
            topic, mid, block, payload = split(self._in_packet["packet"], qos)
        except ValueError:
            return MQTTErrorCode.MQTT_ERR_PROTOCOL
        message = paho.MQTTMessage(mid, topic)
        message.dup, message.qos, message.retain = bool(first & 8), qos, bool(first & 1)
        message.properties, message.payload, message.timestamp = block, payload, time.monotonic()
        self._handle_on_message(message)
        return MQTTErrorCode.MQTT_ERR_SUCCESS
