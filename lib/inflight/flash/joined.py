# Larger sectors, for longer messages: a message has to fit one.


class JoinedFlash:
    """`k` neighbouring blocks of the block device `device` each as one, what is left of it at its end unused. A
    journal on it has sectors of that size, so its longest message is that much longer: with two blocks of 4 KiB 8,153
    bytes of packet. An erase takes as long as those of all its blocks. device: as Journal() takes it."""

    def __init__(self, device, k=2):
        from ..arguments import number

        number("k", k, 1, 64)
        self._device = device
        self._k = k
        self._size = device.ioctl(5, 0)
        for name in ("page", "volatile", "program", "checkpoints", "where", "repaired"):
            if hasattr(device, name):
                setattr(self, name, getattr(device, name))

    def readblocks(self, block, buf, offset=0):
        size = self._size
        self._device.readblocks(block * self._k + offset // size, buf, offset % size)

    def writeblocks(self, block, buf, offset=0):
        size = self._size
        self._device.writeblocks(block * self._k + offset // size, buf, offset % size)

    def ioctl(self, op, arg):
        if op == 4:
            return self._device.ioctl(4, 0) // self._k
        if op == 5:
            return self._size * self._k
        if op == 6:
            for i in range(arg * self._k, (arg + 1) * self._k):
                self._device.ioctl(6, i)
            return 0
        return self._device.ioctl(op, arg)
