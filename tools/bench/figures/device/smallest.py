# Uses a client once: argv is the contender's module, the broker's port and the file for a journal. It is run with less
# and less heap to find the smallest one that works.

import sys

from raw import Raw, number

_MESSAGES = 30

contender = __import__(sys.argv[1])
contender.load()
name = sys.argv[3].split("/")[-1]  # a session of its own for each journal
client = contender.Contender(number(2), name, 8, True, bytearray(512), contender.journal(sys.argv[3]))
for qos in contender.QOS:
    client.round(qos, _MESSAGES, 8)
source = Raw(number(2), "source", 1, True)
client.listen(1)
for i in range(2 * _MESSAGES):
    if i == _MESSAGES and sys.argv[1][:4] == "ours":  # with all that messages need the next connection needs more
        client.close()
        client.client.connect()
    source.send()
    client.receive(i + 1)
client.close()
print("true")
