# What the chips of Sensirion send: words of 16 bits, each with a checksum.

from errno import EIO


def words(data):
    """The words in `data`. Raises OSError if a checksum is wrong."""
    found = []
    for i in range(0, len(data), 3):
        if _crc(data[i : i + 2]) != data[i + 2]:
            raise OSError(EIO, "wrong checksum: check the wires, shorter ones disturb less")
        found.append(data[i] << 8 | data[i + 1])
    return found


def temperature(word):
    """Degrees Celsius."""
    return word * 175 / 65535 - 45


def _crc(data):
    # CRC-8 with the polynomial 0x31, from 0xFF on.
    crc = 0xFF
    for c in data:
        crc ^= c
        for _ in range(8):
            crc = crc << 1 ^ (0x131 if crc & 0x80 else 0)
    return crc
