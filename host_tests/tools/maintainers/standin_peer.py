# A client of the shape of umqtt.simple, as little as measuring it takes.

import socket
import struct


class MQTTClient:
    def __init__(self, client_id, server, port):
        self._id = client_id.encode()
        self._address = socket.getaddrinfo(server, port)[0][-1]

    def _request(self, first, body, answer):
        self.sock.write(bytes((first, len(body))) + body)
        return self.sock.read(answer)

    def connect(self):
        self.sock = socket.socket()
        self.sock.connect(self._address)
        self._request(0x10, b"\x00\x04MQTT\x04\x02\x00\x00" + struct.pack("!H", len(self._id)) + self._id, 4)

    def publish(self, topic, payload, retain, qos):
        number = b"\x00\x01" if qos else b""
        body = struct.pack("!H", len(topic)) + topic + number + payload
        self._request(0x30 | qos << 1, body, 4 if qos else 0)

    def set_callback(self, callback):
        self._callback = callback

    def subscribe(self, topic, qos):
        self._request(0x82, b"\x00\x01" + struct.pack("!H", len(topic)) + topic + bytes((qos,)), 5)

    def wait_msg(self):
        first, n = self.sock.read(2)
        body = self.sock.read(n)
        at = 2 + (body[0] << 8 | body[1])
        qos = first >> 1 & 3
        self._callback(body[2:at], body[at + (2 if qos else 0) :])
        if qos:
            self._request(0x40, body[at : at + 2], 0)

    def disconnect(self):
        self.sock.write(b"\xe0\x00")
        self.sock.close()
