"""An independent implementation of MQTT 3.1 and 3.1.1 for tests, written from the standard without the client's code:
the wire format, a server without sockets, and an oracle that checks deliveries. `wire` and `oracle` run on MicroPython
as well."""
