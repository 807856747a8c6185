"""The sentence at the top of the page, and the notes below it."""

import pytest

from host_tests.tools.fleet.report import made_facts
from inflight_tools.fleet.report.verdict import verdict


def facts(accepted=3450, lost=0, doubled=0, on_way=0, on_device=0, given_up=0, **fleet):
    made = made_facts.empty()
    away = {"lost": lost, "on_way": on_way, "on_device": on_device, "given_up": given_up}
    made["devices"] = [made_facts.device("attic", accepted, delivered=accepted - sum(away.values()), **away)]
    made_facts.add_up(made)["fleet"].update(doubled=doubled, **fleet)
    return made


DEAD = made_facts.empty()
DEAD["fleet"]["dead_letters"] = 4
SENTENCES = (
    (facts(), "good", "Nothing was lost: 3,450 messages accepted, 3,450 delivered, none stored twice."),
    (facts(1), "good", "Nothing was lost: 1 message accepted, 1 delivered, none stored twice."),
    (facts(lost=3), "bad", "3 messages were lost: 3,450 messages accepted, 3,447 delivered."),
    (facts(lost=1), "bad", "1 message was lost: 3,450 messages accepted, 3,449 delivered."),
    (facts(on_way=10, on_device=2), "waiting",
     "Nothing is lost so far: 3,450 messages accepted, 3,438 delivered, 10 on the way, 2 in a journal."),
    (facts(lost=3, guessed=1), "bad", "3 messages were probably lost: 3,450 messages accepted, 3,447 delivered."),
    (facts(given_up=5, on_way=1), "bad",
     "Nothing was lost, but 5 messages given up: 3,450 messages accepted, 3,444 delivered, 1 on the way."),
    (facts(doubled=1), "bad",
     "Nothing was lost, but 1 row stored twice: 3,450 messages accepted, 3,450 delivered."),
    (facts(conflicts=30, impossible=1), "bad",
     "Nothing was lost, but 1 device with impossible numbers, 30 messages without a place: 3,450 messages accepted,"
     " 3,450 delivered."),
    (facts(lost=3, on_way=2, doubled=2), "bad",
     "3 messages were lost: 3,450 messages accepted, 3,445 delivered, 2 rows stored twice, 2 on the way."),
    (facts(silent=2, tails=1, before=9), "waiting",
     "Nothing is lost so far: 3,450 messages accepted, 3,450 delivered, 2 silent, 1 device whose end is unknown,"
     " 9 unknown numbers."),
    (facts(delivered=3449), "bad",
     "The figures contradict each other: 3,450 messages accepted, 3,449 delivered, 0 lost, 0 given up,"
     " 0 on the way, 0 in a journal."),
    (facts(0), "waiting", "Devices are known, but no message with a number has arrived yet."),
    (made_facts.empty(), "empty", "No message has arrived yet."),
    (DEAD, "bad", "No device is known: 4 messages arrived, and none could be used."),
)  # fmt: skip


@pytest.mark.parametrize(("made", "kind", "sentence"), SENTENCES)
def test_sentence(made, kind, sentence):
    judged = verdict(made)
    assert (judged.kind, judged.sentence) == (kind, sentence)


def test_tables_that_lack_rows():
    judged = verdict(facts() | {"differences": [{"table": "raw", "told": 2800, "found": 2000}]})
    words = "the table raw has 2,000 of the 2,800 rows that its batches have written"
    assert (judged.kind, judged.sentence) == ("bad", f"The tables are damaged: {words}.")
    assert "the next start of `inflight fleet tables` repairs the tables from the landing files" in judged.notes[0]


def collectors(*of, **changes):
    """Facts with collectors: (seconds since their last marker or None, doubt)."""
    made = facts(**changes)
    made["collectors"] = [
        {"by": f"collector-{n}", "seen": made["made"], "marked": ago and made["made"] - ago, "doubt": doubt}
        for n, (ago, doubt) in enumerate(of)
    ]
    return made


# Of facts: what the notes say, each how.
NOTES = [
    (facts(), []),
    (
        facts(lost=3, on_way=2, on_device=4, given_up=5),
        [
            "Lost: the device told that the broker had acknowledged the message, and since then the collectors",
            "5 messages given up by devices, as their counters tell",
            "2 messages acknowledged by the broker, and on the way to the tables.",
            "4 messages in journals of devices, when these last told.",
        ],
    ),
    (facts(lost=3, guessed=2), ["2 numbers lost or given up by age only: a later one arrived more than 1 h ago"]),
    (collectors((None, None), (7200, None), (60, None), on_way=2), ["has not shown for 2 h that it has received all"]),
    (collectors((None, "ahead"), lost=2, guessed=2), ["collector-0 proves nothing", "2 numbers lost"]),
    (collectors((None, "back"), lost=2, guessed=2), ["does another collector have", "2 numbers lost"]),
    (facts(conflicts=2), ["2 messages arrived with a number that another message has"]),
    (facts(dead_letters=1), ["1 message could not be used"]),
    (facts(silent=2), ["2 devices silent for much longer than usual: see Devices."]),
    (facts(before=500), ["500 numbers unknown: nothing shows that a collector was subscribed when the broker"]),
    (facts(tails=1), ["1 device vanished, or silent, or with a new journal: messages behind the last one"]),
    (facts(impossible=1), ["1 device told apart, and in no sum"]),
    (facts(outbox_full=7), ["7 messages refused by a full journal"]),
]


@pytest.mark.parametrize(("made", "said"), NOTES)
def test_notes(made, said):
    found = [note.replace("\u00a0", " ") for note in verdict(made).notes]
    assert len(found) == len(said) and all(words in note for words, note in zip(said, found, strict=True)), found


@pytest.mark.parametrize("made", [facts(), made_facts.empty()])
def test_landing_files_that_nobody_reads_are_an_alarm(made):
    def notes(stale):
        return verdict(made | {"unread": {"files": 7, "bytes": 900, "stale": stale}}).notes

    assert notes(0) == []
    (note,) = notes(3)
    assert note == "3 landing files not in the tables, though not new, or dated in the future: is `tables` running?"
