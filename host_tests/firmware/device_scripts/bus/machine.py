# Hardware for the unix board: pins, and buses without a chip on I2C.


class Pin:
    IN = 0
    OUT = 3
    PULL_UP = 1

    def __init__(self, number, *how, value=None):
        self.level = 1

    def value(self, level=None):
        if level is None:
            return self.level
        self.level = level


class SoftI2C:
    def __init__(self, scl, sda):
        pass

    def scan(self):
        return []


class ADC:
    def __init__(self, pin):
        pass

    def read_uv(self):
        return 1_980_000
