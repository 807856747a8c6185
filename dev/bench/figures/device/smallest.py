# All that a client is there for, once: argv is the contender's module, the broker's port and the file for a journal.
# Run with ever less heap it tells how little does.

import sys

from raw import Raw, number

_MESSAGES = 30

contender = __import__(sys.argv[1])
contender.load()
client = contender.Contender(number(2), "smallest", 8, True, bytearray(512), contender.journal(sys.argv[3]))
for qos in contender.QOS:
    client.round(qos, _MESSAGES, 8)
source = Raw(number(2), "source", 1, True)
client.listen(1)
for i in range(_MESSAGES):
    source.send()
    client.hear(i + 1)
client.close()
print("true")
