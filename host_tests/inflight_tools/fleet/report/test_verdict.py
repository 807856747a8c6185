"""The sentence at the top of the page, and the notes below it."""

import pytest

from host_tests.inflight_tools.fleet.report import made_facts
from inflight_tools.fleet.report.verdict import verdict


def facts(accepted=3450, lost=0, late=0, doubled=0, **fleet):
    made = made_facts.empty()
    made["devices"] = [made_facts.device("attic", accepted, delivered=accepted - lost - late, lost=lost, late=late)]
    made_facts.add_up(made)["fleet"].update(doubled=doubled, **fleet)
    return made


SENTENCES = (
    (facts(), "good", "Nothing was lost: 3,450 messages accepted, 3,450 delivered, none stored twice."),
    (facts(1), "good", "Nothing was lost: 1 message accepted, 1 delivered, none stored twice."),
    (facts(lost=3), "bad", "3 messages were lost: 3,450 messages accepted, 3,447 delivered."),
    (facts(lost=1), "bad", "1 message was lost: 3,450 messages accepted, 3,449 delivered."),
    (facts(late=10), "waiting",
     "Nothing is lost so far: 3,450 messages accepted, 3,440 delivered, 10 late."),
    (facts(doubled=1), "bad",
     "Nothing was lost, but 1 row is stored twice: 3,450 messages accepted, 3,450 delivered."),
    (facts(lost=3, late=2, doubled=2), "bad",
     "3 messages were lost: 3,450 messages accepted, 3,445 delivered, and 2 rows are stored twice."),
    (facts(delivered=3449), "bad",
     "The figures contradict each other: 3,450 messages accepted, 3,449 delivered, 0 lost, 0 late."),
    (facts(0), "waiting", "Devices are known, but no message with a number has arrived yet."),
    (made_facts.empty(), "empty", "No message has arrived yet."),
)  # fmt: skip


@pytest.mark.parametrize(("made", "kind", "sentence"), SENTENCES)
def test_sentence(made, kind, sentence):
    judged = verdict(made)
    assert (judged.kind, judged.sentence) == (kind, sentence)


def test_no_notes_without_problems():
    assert verdict(facts()).notes == []


def test_lost_and_late_have_notes_of_their_own():
    notes = "\n".join(verdict(facts(lost=3, late=2)).notes).replace("\u00a0", " ")
    assert "Lost: missing, though a later message of the same device arrived more than 1 h ago." in notes
    assert "2 messages late: missing, but for less than 1 h." in notes


@pytest.mark.parametrize(
    ("changed", "start"),
    (
        ({"conflicts": 2}, "2 messages arrived with a number that another message has"),
        ({"dead_letters": 1}, "1 message could not be used"),
        ({"before": 500}, "500 numbers below the first one that arrived"),
        ({"outbox_full": 7}, "7 messages refused by a full journal"),
    ),
)
def test_notes(changed, start):
    (note,) = verdict(facts(**changed)).notes
    assert note.startswith(start)


def test_a_new_journal_is_a_limit_of_the_proof():
    made = facts()
    made["devices"][0]["epochs"] = 2
    (note,) = verdict(made).notes
    assert note == "New journals on 1 device: messages left in an old one cannot be counted."


def test_only_dead_letters_are_bad():
    made = made_facts.empty()
    made["fleet"]["dead_letters"] = 4
    judged = verdict(made)
    assert judged.kind == "bad"
    assert judged.sentence == "No device is known: 4 messages arrived, and none could be used."


@pytest.mark.parametrize("made", [facts(), made_facts.empty()])
def test_landing_files_that_nobody_reads_are_an_alarm(made):
    def notes(stale):
        return verdict(made | {"unread": {"files": 7, "bytes": 900, "stale": stale}}).notes

    assert notes(0) == []
    assert notes(3) == [
        "3 landing files not in the tables, though not new, or dated in the future: is `tables` running?"
    ]
