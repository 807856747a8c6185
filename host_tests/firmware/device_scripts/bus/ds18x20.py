# One DS18B20 for the unix board, at 21 degrees.


class DS18X20:
    def __init__(self, wire):
        pass

    def scan(self):
        return [b"\x28\x01\x02\x03\x04\x05\x06\x07"]

    def convert_temp(self):
        pass

    def read_scratch(self, rom):
        return b"\x50\x01\x00\x00\x7f\xff\x10\x10\x00"
