# A pin that ends the deep sleep, of a board that has none: MicroPython for RP2 boards sleeps until the time is over.


def check(number):
    raise ValueError("MicroPython cannot wake this board by a pin: leave it out")


def woke():
    return False


def level(number):
    return check(number)


def arm(number, level):
    check(number)
