"""MQTT 3.1 and 3.1.1 from the server's side, written from the standard a second time and without the client's code: the
wire format, a server without sockets, and an oracle. Every test and tool that needs a broker of ours, or judges what
became of messages, uses these. `wire` and `oracle` run on MicroPython as well."""
