# An actuator that obeys commands: "on" and "off" switch a relay. A command arrives exactly once, also if the power
# is cut or the connection breaks. The state is a retained message: whoever subscribes later reads it at once.

from machine import Pin

import board
from connectivity import Connectivity
from inflight import Client, Journal

name = board.device_id()
relay = Pin(15, Pin.OUT, value=0)


def on_command(message):
    if message.retain:
        return  # a retained command would be obeyed again at each start
    if message.view in (b"on", b"off"):
        relay.value(int(message.view == b"on"))
        client.publish(name + "/state", message.payload, 1, True)
    # After a power cut inside this handler the command comes again with message.redelivered set. That is harmless
    # here: switching the relay on twice is the same as once.


network = Connectivity(board.network(), "home", "secret")
client = Client("broker.example", name, Journal(board.journal_flash()))
client.subscribe(name + "/set", 2, on_command)  # before connect(): no command comes before its handler
while True:
    network.keep(client)  # joins, and joins again when it is lost
    client.run_for(1_000)
