# A button, or a counter of pulses: each press becomes one message.
#
# An interrupt handler must not allocate memory, so it only counts. The loop publishes one message for each press, and
# from then on the message is not lost.

from machine import Pin

import board
from connectivity import Connectivity
from inflight import Client, Journal, OutboxFull

presses = 0


def on_press(_):
    global presses
    presses += 1


button = Pin(4, Pin.IN, Pin.PULL_UP)
button.irq(on_press, Pin.IRQ_FALLING)

network = Connectivity(board.network(), "home", "secret")
client = Client("broker.example", board.device_id(), Journal(board.journal_flash()))
published = 0
while True:
    while published < presses:
        try:
            client.publish("%s/press" % board.device_id(), b"1", 2)  # in flash when publish() returns
            published += 1
        except OutboxFull:  # no broker for a long time: the presses are counted meanwhile
            break
    network.keep(client)  # joins, and joins again when it is lost
    client.run_for(50)
