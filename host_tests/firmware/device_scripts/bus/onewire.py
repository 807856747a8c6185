# A 1-Wire bus for the unix board.


class OneWire:
    def __init__(self, pin):
        pass

    def crc8(self, data):
        return 0
