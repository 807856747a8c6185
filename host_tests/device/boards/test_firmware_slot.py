"""How firmware gets into the other partition of an ESP32: whatever interrupts the fetch, it goes on."""

import hashlib
import sys
from binascii import hexlify

import codes
from esp32_partitions import FIRST, SECOND, SECTOR, Chip, PowerCut, firmware
from harness import eq, raises
from ports import install

RUNTIMES = "cpython micropython-x86"

sys.path.insert(0, codes.__file__.rsplit("/", 2)[0] + "/esp32")
PART = 2 * SECTOR
SIZE = 3 * SECTOR + 700
NEW = firmware(2, SIZE)


def module_of(chip):
    install(machine=chip.machine, esp32=chip.inside)
    sys.modules.pop("firmware_slot", None)
    import firmware_slot

    return firmware_slot


def slot_of(chip, content=NEW):
    digests = [hashlib.sha256(content[at : at + PART]).digest() for at in range(0, len(content), PART)]
    parts = [str(hexlify(digest[:16]), "ascii") for digest in digests]
    return module_of(chip).Slot(SECOND, len(content), hashlib.sha256(content).digest(), PART, parts)


def fetch(found, content=NEW):
    """Fetches all of it, in chunks. Returns how many bytes were asked for."""
    asked = 0
    while not found.complete:
        found.step()
        offset, size = found.wanted
        size = min(size, 416)
        asked += size
        eq(found.take(offset, memoryview(content)[offset : offset + size]), True)
    return asked


def check(chip, content=NEW):
    eq(bytes(chip.content[SECOND][: len(content)]), content)


def used(content=7):
    """A chip whose other partition has an older firmware, which leaves no sector blank."""
    chip = Chip()
    chip.content[SECOND][:] = firmware(content, 4 * SECTOR)
    module_of(chip).erase(SECOND)
    return chip


def test_chunks_that_come_twice_or_out_of_order_change_nothing():
    chip = used()
    found = slot_of(chip)
    eq(found.take(0, NEW[:100]), False)  # not asked for
    found.step()
    eq(found.take(100, NEW[100:200]), False)
    eq(found.take(0, NEW[:100]), True)
    eq(found.take(0, NEW[:100]), False)
    eq(found.take(100, NEW[100:] + b"more"), False)
    eq(found.take(100, NEW[100 : PART + 1]), False)
    found.close()
    fetch(found)
    check(chip)


def test_false_bytes_cost_no_more_at_the_end_than_at_the_beginning():
    """A sector of the part before, and the part."""
    for at in range(0, SIZE, 1000):
        chip = used()
        found = slot_of(chip)
        wrong = NEW[:at] + bytes([NEW[at] ^ 1]) + NEW[at + 1 :]
        asked = 0
        while not found.complete:
            found.step()
            offset, size = found.wanted
            size = min(size, 416)
            eq(found.take(offset, (wrong if asked <= at else NEW)[offset : offset + size]), True)
            asked += size
        assert SIZE < asked <= SIZE + PART + SECTOR, (at, asked)
        check(chip)


def test_a_fetch_goes_on_after_a_power_cut_at_any_operation():
    """At most two sectors are fetched again."""
    k = 0
    while True:
        chip = used()
        chip.operations, chip.cut_at = 0, k
        found = slot_of(chip)
        try:
            fetch(found)
            break
        except PowerCut:
            pass
        again = slot_of(chip)
        again.step()
        assert found.wanted[0] - again.wanted[0] < 2 * SECTOR
        assert fetch(slot_of(chip)) <= SIZE - again.wanted[0]
        check(chip)
        k += 1
    assert k > SIZE // 416


def test_firmware_with_blank_sectors():
    content = NEW[:SECTOR] + b"\xff" * SECTOR + NEW[2 * SECTOR :]
    chip = used()
    chip.operations, chip.cut_at = 0, 30
    raises(PowerCut, fetch, slot_of(chip, content), content)
    fetch(slot_of(chip, content), content)
    check(chip, content)


def test_damaged_bytes_are_fetched_once_more_and_then_refused():
    wrong = NEW[:-1] + b"x"
    chip = used()
    found = slot_of(chip)
    raises(sys.modules["firmware_slot"].Damaged, fetch, found, wrong)
    assert fetch(slot_of(chip)) <= SIZE - SECTOR  # of the part before it the last sector
    check(chip)
    eq(fetch(slot_of(chip)), SIZE - 3 * SECTOR)  # it is there, but for the last sector


def test_where_firmware_goes():
    chip = Chip()
    release = {"chip": 0, "size": SIZE}
    eq(module_of(chip).target(release), SECOND)
    chip.content[SECOND][:100] = firmware(2, 100)
    chip.running = SECOND
    eq(module_of(chip).target(release), FIRST)
    for fields, wanted in (({"chip": 9}, "for another chip"), ({"size": 5 * SECTOR}, "too large: firmware of 20 KB")):
        error = raises(ValueError, module_of(chip).target, dict(release, **fields))
        assert wanted in str(error), error
    assert "--ota" in str(raises(ValueError, module_of(Chip(parts=1)).target, release))
