"""What the client costs: measured on the 32-bit MicroPython, beside other clients and the bare socket."""
