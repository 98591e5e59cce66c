"""The copying phase of a departure: one message at a time, repeated until it is answered."""

from __future__ import annotations

from strogoff.broker.clustering.slot_departure import REPEAT_MS, SILENCE_MS, Copying, Departure
from strogoff.broker.clustering.slot_transfer import Attempt, Drop, Offer, Piece, SlotMessage
from strogoff.cluster.slots.table import Holder, SlotRow

ATTEMPT = Attempt(9, 40, 41, 1)
PIECES = [(b"one", False), (b"two", False), (b"", True)]


class Sending:
    def __init__(self) -> None:
        self.sent: list[SlotMessage] = []
        self.departure = Departure(ATTEMPT, SlotRow(9, 40, 41), Holder("b", "d", 1), 0.0, [])
        self.copying = Copying(self.departure, iter(PIECES), self.sent.append)

    def take(self) -> list[SlotMessage]:
        sent, self.sent[:] = list(self.sent), []
        return sent


def test_the_pieces_follow_the_offer_one_by_one() -> None:
    sending = Sending()
    copying = sending.copying
    copying.begin(0)
    assert sending.take() == [Offer(ATTEMPT)]
    copying.ready(1)
    copying.ready(2)
    assert sending.take() == [Piece(ATTEMPT, 0, b"one", False)], "a second answer to the offer says nothing new"
    copying.took(1, 3)
    assert not sending.take(), "that piece has not been sent"
    copying.took(0, 3)
    copying.took(0, 4)
    assert sending.take() == [Piece(ATTEMPT, 1, b"two", False)]
    copying.took(1, 5)
    assert sending.take() == [Piece(ATTEMPT, 2, b"", True)] and not copying.complete
    copying.took(2, 6)
    assert copying.complete and not sending.take() and sending.departure.moved_bytes == 6
    copying.took(2, 7)
    assert copying.tick(6 + 2 * SILENCE_MS) and not sending.take(), "nothing is repeated any more"


def test_a_message_without_an_answer_is_repeated_and_then_given_up() -> None:
    sending = Sending()
    sending.copying.begin(0)
    sending.copying.ready(0)
    sending.take()
    assert sending.copying.tick(REPEAT_MS - 1) and not sending.take()
    assert sending.copying.tick(REPEAT_MS) and sending.take() == [Piece(ATTEMPT, 0, b"one", False)]
    assert sending.copying.tick(2 * REPEAT_MS - 1) and not sending.take()
    assert sending.copying.tick(SILENCE_MS - 1) and sending.take()
    assert not sending.copying.tick(SILENCE_MS)


def test_an_end_is_told_to_the_target() -> None:
    sending = Sending()
    sending.copying.drop(0)
    assert sending.take() == [Drop(ATTEMPT)] and sending.departure.slot == 9
