"""Which gateway serves a client id: the registrar alone, with a port that records its messages."""

from __future__ import annotations

import pytest

from strogoff.broker.gateway.registrar import Owner, Registrar

A, B = b"\x05\0\0\0\x01a", b"\x06\0\0\0\x01b"
"""Client keys in the slots 5 and 6."""


class Port:
    """Records the messages; `closed` has the nodes that cannot be asked."""

    def __init__(self) -> None:
        self.questions: list[tuple[str, int, dict[int, int]]] = []
        self.evicted: list[tuple[bytes, Owner]] = []
        self.closed: set[str] = set()

    def ask(self, node: str, number: int, slots: dict[int, int]) -> bool:
        if node in self.closed:
            return False
        self.questions.append((node, number, slots))
        return True

    def evict(self, client: bytes, owner: Owner) -> None:
        self.evicted.append((client, owner))


def registrar(*others: str, answered: bool = True) -> tuple[Registrar, Port]:
    """Returns the registrar n1 of the slots 5 and 6, in a view with the other nodes."""
    port = Port()
    made = Registrar("n1", port)
    made.applied({5: 1, 6: 1}, others)
    if answered:
        for node, number, _ in port.questions:
            made.answered(node, number)
    return made, port


def test_a_node_alone_knows_everything_at_once() -> None:
    made, port = registrar()
    assert made.is_free_now(A, "n1") and not made.incomplete and port.questions == []


def test_a_slot_of_another_registrar_is_not_free() -> None:
    made, _ = registrar()
    assert not made.is_free_now(b"\x07\0\0\0\x01c", "n1")


def test_nobody_is_served_before_all_nodes_of_the_view_have_answered() -> None:
    """H-37."""
    made, port = registrar("n2", "n3", answered=False)
    called: list[str] = []
    assert not made.is_free(A, "n1", lambda: called.append("a"))
    assert [(node, slots) for node, _, slots in port.questions] == [("n2", {5: 1, 6: 1}), ("n3", {5: 1, 6: 1})]
    made.answered("n2", port.questions[0][1])
    assert not made.is_free_now(A, "n1") and called == [] and made.incomplete == 2
    made.answered("n3", port.questions[1][1])
    assert made.is_free_now(A, "n1") and called == ["a"] and made.incomplete == 0


def test_a_view_without_a_node_needs_no_answer_of_it() -> None:
    made, _ = registrar("n2", answered=False)
    called: list[str] = []
    made.is_free(A, "n1", lambda: called.append("a"))
    made.applied({5: 1, 6: 1}, ())
    assert called == ["a"] and made.is_free_now(A, "n1")


def test_a_node_that_enters_as_another_leaves_is_asked_before_anybody_is_served() -> None:
    """H-37: the node that enters may have served the client id by the policy `on`, while it was cut off."""
    made, port = registrar("n2", answered=False)
    called: list[bool] = []
    made.is_free(A, "n3", lambda: called.append(made.is_free(A, "n3", lambda: called.append(True))))
    made.applied({5: 1, 6: 1}, ("n3",))
    assert True not in called and not made.is_free_now(A, "n3")
    made.answered("n3", port.questions[-1][1])
    assert called[-1] is True and made.is_free_now(A, "n3")


def test_who_waits_for_a_dead_gateway_waits_for_a_node_that_enters() -> None:
    made, _ = registrar("n2")
    made.claim(A, "n2", 7)
    called: list[bool] = []
    made.is_free(A, "n1", lambda: called.append(made.is_free_now(A, "n1")))
    made.applied({5: 1, 6: 1}, ("n3",))
    assert called == [False]


def test_who_waits_for_an_eviction_waits_for_all_answers_in_a_new_epoch() -> None:
    made, _ = registrar("n2", "n3")
    made.claim(A, "n2", 7)
    called: list[bool] = []
    made.is_free(A, "n3", lambda: called.append(made.is_free_now(A, "n3")))
    made.applied({5: 2, 6: 1}, ("n2", "n3"))
    assert called == [False]


def test_a_view_without_a_gateway_frees_its_clients() -> None:
    made, _ = registrar("n2", "n3")
    made.claim(A, "n2", 7)
    called: list[str] = []
    assert not made.is_free(A, "n3", lambda: called.append("a"))
    made.applied({5: 1, 6: 1}, ("n3",))
    assert made.owner(A) is None and called == ["a"] and len(made) == 0


def test_a_node_that_enters_is_asked_for_all_slots() -> None:
    made, port = registrar()
    made.applied({5: 1, 6: 1}, ("n2",))
    assert port.questions == [("n2", 1, {5: 1, 6: 1})] and made.incomplete == 2


def test_only_new_slots_and_new_epochs_are_asked_for() -> None:
    made, port = registrar("n2")
    made.claim(A, "n2", 7)
    made.claim(B, "n2", 8)
    made.applied({5: 1, 6: 2, 7: 2}, ("n2",))
    assert port.questions[1:] == [("n2", 2, {6: 2, 7: 2})]
    assert made.owner(A) == Owner("n2", 7) and made.owner(B) is None
    assert made.is_free_now(A, "n2") and not made.is_free_now(B, "n2")


def test_a_slot_that_goes_and_comes_is_asked_for_again() -> None:
    made, port = registrar("n2")
    made.applied({5: 1}, ("n2",))
    assert not made.is_free_now(B, "n1")
    made.applied({5: 1, 6: 3}, ("n2",))
    assert port.questions[1:] == [("n2", 2, {6: 3})]


def test_ended_connections_of_this_node_keep_their_client_ids_in_a_new_epoch() -> None:
    """H-38: nobody else reports them."""
    made, port = registrar("n2")
    made.claim(A, "n1", 7)
    made.claim(B, "n2", 8)
    made.applied({5: 2, 6: 1}, ("n2",), [(A, 7), (B, 9)])
    made.answered("n2", port.questions[-1][1])
    assert (made.owner(A), made.owner(B)) == (Owner("n1", 7), Owner("n2", 8))
    assert not made.is_free_now(A, "n2") and made.is_free_now(A, "n1")
    made.ended("n1", 7)
    assert made.is_free_now(A, "n2")


def test_an_answer_for_an_earlier_epoch_counts_for_nothing() -> None:
    made, port = registrar("n2", answered=False)
    made.applied({5: 2, 6: 1}, ("n2",))
    assert not made.reported("n2", port.questions[0][1], A, 7)
    assert made.reported("n2", port.questions[0][1], B, 8)
    made.answered("n2", port.questions[0][1])
    assert not made.is_free_now(A, "n2") and made.is_free_now(B, "n2")
    assert made.reported("n2", port.questions[1][1], A, 7)


def test_clients_that_a_gateway_reports_are_its_own() -> None:
    made, port = registrar("n2", answered=False)
    assert made.reported("n2", port.questions[0][1], A, 7)
    made.answered("n2", port.questions[0][1])
    assert made.owner(A) == Owner("n2", 7) and made.is_free_now(A, "n2") and not made.is_free_now(A, "n3")
    assert not made.reported("n2", port.questions[0][1], B, 8)


def test_of_two_gateways_with_one_client_id_the_second_loses_it() -> None:
    made, port = registrar("n2", "n3", answered=False)
    assert made.reported("n2", port.questions[0][1], A, 7) and made.reported("n3", port.questions[1][1], A, 8)
    assert port.evicted == [(A, Owner("n3", 8))] and made.owner(A) == Owner("n2", 7)
    assert made.reported("n2", port.questions[0][1], A, 7) and len(port.evicted) == 1


@pytest.mark.parametrize("numbers", [(7, 8), (8, 7)])
def test_of_two_connections_at_one_gateway_the_later_one_counts(numbers: tuple[int, int]) -> None:
    made, port = registrar("n2", answered=False)
    assert all(made.reported("n2", port.questions[0][1], A, number) for number in numbers)
    assert made.owner(A) == Owner("n2", 8) and port.evicted == []
    made.ended("n2", 7)
    assert made.owner(A) == Owner("n2", 8)


def test_an_owner_elsewhere_is_evicted_once_for_all_that_wait() -> None:
    made, port = registrar("n2", "n3")
    made.claim(A, "n2", 7)
    called: list[str] = []
    assert made.is_free_now(A, "n2")
    for name in "xy":
        assert not made.is_free(A, "n3", lambda name=name: called.append(name))  # type: ignore[misc]
    assert port.evicted == [(A, Owner("n2", 7))]
    made.ended("n2", 6)
    made.ended("n3", 7)
    assert called == []
    made.ended("n2", 7)
    assert called == ["x", "y"] and made.is_free_now(A, "n3")


def test_connections_are_served_in_the_order_in_which_they_came() -> None:
    """Also one at the gateway of the owner: else the eviction that the others wait for would miss it."""
    made, port = registrar("n2", "n3")
    made.claim(A, "n2", 7)
    called: list[str] = []
    assert not made.is_free(A, "n3", lambda: called.append("n3"))
    assert not made.is_free_now(A, "n2") and not made.is_free(A, "n2", lambda: called.append("n2"))
    made.ended("n2", 7)
    assert called == ["n3", "n2"] and len(port.evicted) == 1


def test_the_end_of_a_former_connection_frees_nothing() -> None:
    made, _ = registrar("n2")
    made.claim(A, "n2", 7)
    made.claim(A, "n2", 9)
    made.ended("n2", 7)
    assert made.owner(A) == Owner("n2", 9) and len(made) == 1


def test_a_broken_tunnel_makes_everything_of_its_node_unknown() -> None:
    """What the node says while the tunnel is broken is lost: also that a client has come, or has ended."""
    made, port = registrar("n2", "n3")
    made.claim(A, "n2", 7)
    called: list[bool] = []
    made.is_free(A, "n3", lambda: called.append(made.is_free_now(A, "n3")))
    made.broken("n2")
    assert called == [False] and made.owner(A) is None and not made.is_free_now(B, "n3")
    made.is_free(A, "n3", lambda: called.append(made.is_free(A, "n3", lambda: None)))
    made.opened("n2")
    node, number, slots = port.questions[-1]
    assert (node, slots) == ("n2", {5: 1, 6: 1})
    made.reported("n2", number, A, 7)
    made.answered("n2", number)
    assert called == [False, False] and port.evicted == [(A, Owner("n2", 7))] * 2
    made.ended("n2", 7)
    assert made.is_free_now(A, "n3")


def test_a_node_that_cannot_be_asked_is_asked_when_its_tunnel_opens() -> None:
    port = Port()
    port.closed.add("n2")
    made = Registrar("n1", port)
    made.applied({5: 1}, ("n2",))
    assert port.questions == [] and made.incomplete == 1
    port.closed.clear()
    made.opened("n2")
    assert port.questions == [("n2", 2, {5: 1})]
    made.opened("n3")
    assert len(port.questions) == 1


def test_an_answer_from_before_the_break_is_dropped() -> None:
    made, port = registrar("n2", answered=False)
    made.broken("n2")
    made.answered("n2", port.questions[0][1])
    assert made.incomplete == 2


def test_who_waits_for_a_slot_is_called_when_it_goes_elsewhere() -> None:
    made, port = registrar("n2")
    made.claim(A, "n2", 7)
    called: list[str] = []
    made.is_free(A, "n1", lambda: called.append("a"))
    made.applied({6: 1}, ("n2",))
    assert called == ["a"] and made.owner(A) is None and len(made) == 0 and len(port.evicted) == 1
