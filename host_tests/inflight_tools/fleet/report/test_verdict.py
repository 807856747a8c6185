"""The sentence at the top: true, whatever happened."""

import pytest

from host_tests.inflight_tools.fleet.report import made_facts
from inflight_tools.fleet.report.verdict import verdict


def facts(accepted=3450, lost=0, late=0, doubled=0, **fleet):
    made = made_facts.empty()
    made["devices"] = [made_facts.device("attic", accepted, delivered=accepted - lost - late, lost=lost, late=late)]
    made_facts.add_up(made)["fleet"].update(doubled=doubled, **fleet)
    return made


SENTENCES = (
    (facts(), "good", "Nothing was lost: 3,450 messages accepted, 3,450 delivered, none stands twice."),
    (facts(1), "good", "Nothing was lost: 1 message accepted, 1 delivered, none stands twice."),
    (facts(lost=3), "bad", "3 messages were lost: 3,450 messages accepted, 3,447 delivered."),
    (facts(lost=1), "bad", "1 message was lost: 3,450 messages accepted, 3,449 delivered."),
    (facts(late=10), "waiting",
     "Nothing is lost so far: 3,450 messages accepted, 3,440 delivered, 10 still on the way."),
    (facts(doubled=1), "bad",
     "Nothing was lost, but 1 row stands twice: 3,450 messages accepted, 3,450 delivered."),
    (facts(lost=3, late=2, doubled=2), "bad",
     "3 messages were lost: 3,450 messages accepted, 3,445 delivered, and 2 rows stand twice."),
    (facts(delivered=3449), "bad",
     "The figures contradict each other: 3,450 messages accepted, 3,449 delivered, 0 lost, 0 on the way."),
    (facts(0), "waiting", "Devices were heard of, but no message with a number has come yet."),
    (made_facts.empty(), "empty", "No message has arrived yet."),
)  # fmt: skip


@pytest.mark.parametrize(("made", "kind", "sentence"), SENTENCES)
def test_sentence(made, kind, sentence):
    judged = verdict(made)
    assert (judged.kind, judged.sentence) == (kind, sentence)


def test_all_is_well_without_notes():
    assert verdict(facts()).notes == []


def test_late_is_not_lost_and_is_told_beside_it():
    notes = "\n".join(verdict(facts(lost=3, late=2)).notes).replace("\u00a0", " ")
    assert "Lost: missing, though a younger message of the same device came more than 1 h ago." in notes
    assert "2 messages late: missing, but for less than 1 h." in notes


@pytest.mark.parametrize(
    ("changed", "note"),
    (
        ({"conflicts": 2}, "2 messages came under a number that another one has already"),
        ({"dead_letters": 1}, "1 message could not be used"),
        ({"before": 500}, "500 numbers below the first that came"),
        ({"outbox_full": 7}, "7 messages found a journal full"),
    ),
)
def test_what_the_sentence_would_hide_is_said(changed, note):
    (said,) = verdict(facts(**changed)).notes
    assert said.startswith(note)


def test_a_new_journal_is_a_limit_of_the_proof():
    made = facts()
    made["devices"][0]["epochs"] = 2
    (said,) = verdict(made).notes
    assert said == "New journals on 1 device: what an old one still held cannot be counted."


def test_nothing_but_dead_letters_is_no_success():
    made = made_facts.empty()
    made["fleet"]["dead_letters"] = 4
    judged = verdict(made)
    assert judged.kind == "bad"
    assert judged.sentence == "No device is known: 4 messages came, and none could be used."
