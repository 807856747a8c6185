"""The collector is killed at random times under load: every message that the broker acknowledged is in a file."""

import random
import time

import pytest

from host_tests.thorough import THOROUGH
from host_tests.tools.fleet.collect.collecting import at, load, until

KILLS = 11 if THOROUGH else 4


@pytest.mark.parametrize("seed", [1])
def test_killed_repeatedly(broker, collect, landing, seed):
    chance = random.Random(seed)
    options = *at(broker), "--size", 0.05
    collect(*options).connected().kill()  # its session stays
    under_load = 0
    with load(broker) as numbers:
        for n in range(KILLS):
            program = collect(*options)
            if n % 4:
                program.connected()
                before = len(landing.read())
                time.sleep(chance.uniform(0, 0.4))  # a random time, not a synchronisation
                under_load += len(landing.read()) > before
            else:  # during its start and recovery
                time.sleep(chance.uniform(0, 0.4))
            program.kill()
    program = collect(*options).connected()
    landing.until_all(numbers)
    assert program.end() == 0
    landing.read()
    assert landing.hidden(".spool") == []
    landing.unchanged()
    assert set(landing.texts()) == set(numbers)
    assert under_load >= KILLS // 4
    until(lambda: len(landing.files) > KILLS, "many files")
