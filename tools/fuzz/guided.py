"""A worker guided by coverage: `python -m tools.fuzz.guided TARGET libFuzzer's options, FOLDER [SEEDS]`. Mutates inputs
by libFuzzer and by the grammar; inputs with new coverage are stored in FOLDER. An exception ends it, with the input in
a file."""

import random
import sys

import atheris

from tools.fuzz import grammar, target


def _mutator(make):
    def mutate(data, most, seed):
        rng = random.Random(seed)
        how = rng.random()
        if how < 0.6:
            return atheris.Mutate(data, most)
        fresh = make(rng)
        cut = rng.randrange(len(data) + 1) if how < 0.8 else 0
        return (data[:cut] + fresh[min(cut, 1) :])[:most]

    return mutate


def main():
    name, *options = sys.argv[1:]
    # Only the code under test, not the checks.
    with atheris.instrument_imports(include=["inflight", "config", "commands", "node", "telemetry"]):
        run = target(name).run
        import inflight.journal.journal  # noqa: F401  When it is first needed it would be too late
    from account import quick_crc  # late, too: it imports what is instrumented

    quick_crc()
    words = [sys.argv[0], *options, "-print_final_stats=1"]
    atheris.Setup(words, lambda data: run(data) and None, custom_mutator=_mutator(getattr(grammar, name)))
    atheris.Fuzz()


if __name__ == "__main__":
    main()
