"""Killed at any instant, under load: all that the broker took stands in landing files."""

import random
import time

import pytest

from host_tests.inflight_tools.fleet.collect.collecting import load, until

KILLS = 11


@pytest.mark.parametrize("seed", [1])
def test_killed_time_and_again(broker, collect, landing, seed):
    chance = random.Random(seed)
    options = "--broker", f"127.0.0.1:{broker.port}", "--size", 0.05
    collect(*options).connected().kill()  # whose session is there from now on
    under_load = 0
    with load(broker) as numbers:
        for n in range(KILLS):
            program = collect(*options)
            if n % 4:
                program.connected()
                before = len(landing.read())
                time.sleep(chance.uniform(0, 0.4))  # the instant, whatever it falls on
                under_load += len(landing.read()) > before
            else:  # while it starts, and tidies up after the one before
                time.sleep(chance.uniform(0, 0.4))
            program.kill()
    program = collect(*options).connected()
    landing.until_all(numbers)
    assert program.end() == 0
    landing.read()
    assert landing.hidden(".spool") == []
    landing.unchanged()
    assert set(landing.texts()) == set(numbers)
    assert under_load >= 3
    until(lambda: len(landing.files) > KILLS, "many files")
