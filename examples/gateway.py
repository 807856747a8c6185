# A Linux box as gateway: devices in the local network send UDP datagrams "<name> <value>"; the gateway keeps each one
# in a file until the broker has it. Runs on CPython and on the unix port of MicroPython.
#
#   echo -n "cellar 12.5" | nc -u -w0 gateway 5005
#
# UDP itself may lose a datagram before it arrives here. What was printed is in the journal; when that is full, the
# oldest messages are dropped for it.

import select
import socket

from inflight import Client, FileFlash, Journal

LISTEN = ("0.0.0.0", 5005)

inputs = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
inputs.bind(socket.getaddrinfo(*LISTEN)[0][-1])
poll = select.poll()
poll.register(inputs, select.POLLIN)

flash = FileFlash("gateway.journal", blocks=256)  # 1 MiB
client = Client("broker.example", "gateway-1", Journal(flash), when_full="oldest")
while True:
    client.run_for(10)
    while poll.poll(0):
        datagram = inputs.recv(512)
        try:
            name, value = datagram.decode().split()
            client.publish("house/" + name, value, 1)
            print("kept", name, value)
        except ValueError as e:  # anybody can send anything: no UTF-8, not two words, no topic name
            print("not kept:", datagram, e)
