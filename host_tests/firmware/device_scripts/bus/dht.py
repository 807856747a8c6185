# A DHT22 for the unix board, at 21.4 degrees and 40.2 percent.


class DHT22:
    def __init__(self, pin):
        self.buf = bytes(5)

    def measure(self):
        self.buf = b"\x01\x92\x00\xd6\x69"
