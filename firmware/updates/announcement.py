# The announcement of a release: a JSON object, and the signature of its bytes. Loaded for each, and unloaded.
#
# The signature is RSA-3072, PKCS#1 v1.5 (RFC 8017, 8.2.2), over the SHA-256 of the object: the whole block is computed
# and compared, nothing of it is parsed.

import hashlib
import json
import sys
from binascii import a2b_base64

from inflight.compat import const

SIGNATURE = const(384)  # bytes
JOURNAL = const(2)  # the version of the journal's format: a release that fails leaves the journal to the one before
_EXPONENT = const(65537)
_PREFIX = b"\x30\x31\x30\x0d\x06\x09\x60\x86\x48\x01\x65\x03\x04\x02\x01\x05\x00\x04\x20"  # SHA-256, RFC 8017, 9.2


class Refused(Exception):
    """Why, in words. signed: if not, anybody may have sent it, and nothing that it says is known."""

    signed = True


class NotSigned(Refused):
    """Not signed by a key of this device."""

    signed = False


def named(announced):
    """(number of the release, its digest), as these bytes say, which are not verified; None for what they do not
    say."""
    try:
        said = json.loads(announced[:-SIGNATURE])
        number = said["release"]
        return number if isinstance(number, int) and 0 < number < 1 << 32 else None, said.get("sha256")
    except Exception:  # of memory, too: anybody may have sent them
        return None, None


def is_signed(body, signature, modulus):
    """True if `signature` (bytes) is that of the bytes `body` by the private key of `modulus` (bytes)."""
    if len(signature) != SIGNATURE or len(modulus) != SIGNATURE:
        return False
    n = int.from_bytes(modulus, "big")
    number = int.from_bytes(signature, "big")
    if number >= n:
        return False
    digest = hashlib.sha256(body).digest()
    filling = b"\xff" * (SIGNATURE - 3 - len(_PREFIX) - len(digest))
    return pow(number, _EXPONENT, n).to_bytes(SIGNATURE, "big") == b"\0\1" + filling + b"\0" + _PREFIX + digest


def check(announced, keys, board, newest):
    """Returns the object of the bytes `announced`, a dict: a release, or that a release is `withdrawn`. keys: moduli in
    base64; board: its name; newest: a release has to have a higher number. Raises NotSigned, Refused."""
    body, signature = announced[:-SIGNATURE], announced[-SIGNATURE:]
    for key in keys:
        try:
            if is_signed(body, signature, a2b_base64(key)):
                break
        except (ValueError, MemoryError):
            pass  # not base64: the other key counts nevertheless; no memory, for what anybody may have sent
    else:
        raise NotSigned("not signed by a key of this device")
    release = json.loads(body)
    if "withdrawn" not in release:
        _check_fits(release, board)
    if release["release"] <= newest:
        raise Refused("release %d is not newer than %d" % (release["release"], newest))
    return release


def imports(mine, mpy):
    """True if a MicroPython with sys.implementation._mpy `mine` imports modules of the form `mpy`, as a release says
    it: bits 0 to 7 are the version of .mpy files; with machine code 8 and 9 are its version, and 10 to 13 the
    processor."""
    processor = mpy >> 10 & 15
    if not processor:
        return mpy == mine & 0xFF
    own = mine >> 10 & 15  # 4 to 8 are ARM Cortex-M, which take what is for earlier ones
    return not (mpy ^ mine) & 0x3FF and (processor == own or 4 <= processor < own <= 8)


def _check_fits(release, board):
    if release["board"] != board:
        raise Refused("it is for the board %s, this is %s" % (release["board"], board))
    implementation = sys.implementation
    oldest, newest = release["micropython"]  # the first is included, the second is not
    version = list(implementation.version[:2])
    if implementation.name != "micropython" or not oldest <= version < newest:
        running = (implementation.name, version[0], version[1])
        raise Refused("it is for MicroPython from %s to before %s, this is %s %d.%d" % ((oldest, newest) + running))
    if not imports(getattr(implementation, "_mpy", 0), release["mpy"]):
        raise Refused("its modules are compiled for another version of MicroPython, or another processor")
    if release["journal"] != JOURNAL:
        raise Refused("its journal has another format")
