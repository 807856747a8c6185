"""What the set-up of a device parses of strangers: an answer that the protocol allows, or none.

data: a byte; its lowest two bits: 0: bytes from the serial port, for Improv; 1: a DNS query; 2: an HTTP request, which
comes in pieces as long as the other bits say; 3: the data of Improv's Wi-Fi settings. Then the bytes."""

import setup_serial as improv
from outcome import Outcome, demand
from setup_http import BadRequest, Request
from setup_server import answer

ADDRESS = b"\xc0\xa8\4\1"
_LONGEST = 9 + 255 + 1  # bytes of an Improv packet
_HEAD = 3_072  # bytes of a request before its body


def _improv(data, outcome):
    receiver = improv.Receiver()
    last = 0  # where the bytes of the next command may begin
    for at, byte in enumerate(data):
        found = receiver.receive(byte)
        demand(len(receiver.packet) < _LONGEST, "it keeps %d bytes", len(receiver.packet))
        if found is None:
            continue
        command, body = found
        outcome.note(at, command, body)
        demand(not receiver.inside, "a command is inside a packet")
        if command == improv.INVALID:
            demand(not body, "a damaged packet has data")
            continue
        packet = b"IMPROV\1\3" + bytes((len(body) + 2, command, len(body))) + body
        packet += bytes((sum(packet) & 255,))
        demand(data[last : at + 1].endswith(packet), "%r is in none of %r", packet, data[last : at + 1])
        last = at + 1


def _dns(query, outcome):
    told = answer(query, ADDRESS)
    outcome.note(told)
    if told is None:
        return
    demand(12 < len(query) <= 512 and not query[2] & 0xF8, "%r has an answer", query)
    demand(told[:2] == query[:2] and told[2] & 0x80 and not told[3], "%r is no response", told)
    demand(told[4:6] == b"\0\1" and told[6] == 0 and told[7] < 2 and not any(told[8:12]), "%r counts wrong", told)
    record = b"\xc0\x0c\0\1\0\1\0\0\0\0\0\4" + ADDRESS if told[7] else b""
    question = told[12 : len(told) - len(record)]
    demand(query[12:].startswith(question) and told[12 + len(question) :] == record, "%r answers %r", told, query)
    i = 0
    while question[i]:  # a name whose labels end where it ends
        demand(question[i] < 64, "a compressed name in %r", question)
        i += 1 + question[i]
    demand(i < 255 and len(question) == i + 5, "%r is no question", question)
    demand((told[7] == 1) == (question[-4:] == b"\0\1\0\1"), "%r has %d records", question, told[7])


def _http(data, size, outcome):
    request = Request()
    at = 0
    body = None
    try:
        while body is None and at < len(data):
            body = request.receive(data[at : at + size])
            at += size
            demand(len(request._head) <= _HEAD, "it keeps %d bytes", len(request._head))
    except BadRequest as e:
        demand(400 <= e.status < 500, "status %r", e.status)
        outcome.note(e.status)
        return
    if body is None:
        return
    end = data.find(b"\r\n\r\n")
    demand(0 <= end <= _HEAD and data[end + 4 : at] == body, "the body of %r begins with %r", data, body)
    demand(request.path[:1] == "/" and "?" not in request.path, "path %r", request.path)
    demand(0 <= request.length <= 1_048_576, "a body of %r bytes", request.length)
    outcome.note(request.length, request.method.encode(), request.path.encode(), len(request.headers))


def _wifi(data, outcome):
    try:
        ssid, key = improv.wifi_settings(data)
    except ValueError:
        return
    text = key.encode() if key else b""
    name = ssid.encode()
    demand(name and bytes((len(name),)) + name + bytes((len(text),)) + text == data, "%r is %r, %r", data, ssid, key)
    outcome.note(name, text)


def run(data):
    first = data[0] if data else 0
    data = data[1:]
    outcome = Outcome()
    kind = first & 3
    outcome.note(kind)
    if kind == 0:
        _improv(data, outcome)
    elif kind == 1:
        _dns(data, outcome)
    elif kind == 2:
        _http(data, 1 + (first >> 2), outcome)
    else:
        _wifi(data, outcome)
    return outcome.number
