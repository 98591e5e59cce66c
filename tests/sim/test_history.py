"""The history of a simulation."""

from __future__ import annotations

from random import Random

import pytest

from strogoff.cluster.identity import slot_of
from strogoff.netsplit.policy import ViewState
from strogoff.sim.engine.loop import VirtualLoop
from strogoff.sim.engine.pipe import Pipe
from strogoff.sim.history import Connection, CopyLog, History, ViewLog


def test_one_counter_for_everything() -> None:
    history = History(lambda: 1.5)
    first = history.next()
    history.fault("kill")
    assert (history.faults[0].number, history.faults[0].at_s) == (first + 1, 1.5)


def test_the_trace_is_kept_only_where_it_is_wanted() -> None:
    silent, told = History(lambda: 1.5), History(lambda: 1.5, [])
    for history in (silent, told):
        history.trace("node", "begins")
        history.problem("the sky falls")
    assert silent.lines is None and silent.problems == ["the sky falls"]
    assert told.lines == ["    1.500000  node     begins", "    1.500000  PROBLEM  the sky falls"]


def test_when_the_node_knew_of_an_end() -> None:
    """The node learned it during the run, or only at its own return."""
    loop = VirtualLoop()
    connection = Connection("c", 1, 5, True, 0, 1, 0.0)
    assert connection.noticed_at is None and not connection.arrived
    connection.pipe = pipe = Pipe(loop, Random(0), (1.0, 1.0))
    pipe.gone = lambda reason: None
    pipe.to_node.send(b"x")
    assert not connection.arrived
    pipe.to_node.end()
    loop.run_for(5)
    assert connection.noticed_at == 1.0 and connection.arrived
    connection.pipe = None
    connection.came_back_at = 7.0
    assert connection.noticed_at == 7.0


def test_the_times_without_enough_copies() -> None:
    copies = CopyLog()
    copies.note("n1", 1.0, True)
    copies.note("n1", 3.0, False)
    copies.note("n1", 5.0, True)
    assert copies.were_few("n1", 0.0) and copies.were_few("n1", 2.0) and copies.were_few("n1", 4.0)
    copies.note("n1", 6.0, False)
    assert copies.were_few("n1", 5.5) and not copies.were_few("n1", 6.0) and not copies.were_few("n2", 0.0)


def test_the_states_of_a_node_between_two_times() -> None:
    views = ViewLog()
    views.note("n1", 1.0, ViewState.MINORITY)
    views.note("n1", 2.0, ViewState.MINORITY)
    views.note("n1", 3.0, ViewState.WHOLE)
    assert views.states == {"n1": [(1.0, ViewState.MINORITY), (3.0, ViewState.WHOLE)]}
    assert views.between("n1", 2.0, 3.0) == {ViewState.MINORITY, ViewState.WHOLE}
    assert views.between("n1", 4.0, 5.0) == {ViewState.WHOLE} and views.between("n2", 0.0, 9.0) == set()
    assert views.lacked_whole_view("n1", 2.0) and not views.lacked_whole_view("n1", 3.0)


@pytest.mark.parametrize(
    ("copied", "durable", "lost"), [(False, True, [3.0, 7.0]), (False, False, [3.0]), (True, True, [7.0])]
)
def test_a_session_is_lost_with_the_disk_of_its_node_or_with_its_slot(
    copied: bool, durable: bool, lost: list[float]
) -> None:
    """With one copy, an operator moves a slot to another node while its client is away. Then that node loses its disk
    (3 nodes, seed 32001381)."""
    history = History(lambda: 9.0, copied=copied)
    history.life("n1").emptied.append(3.0)
    history.slot_losses[slot_of("", "c")] = [7.0]
    assert history.losses("n1", "c", durable) == lost
    assert history.losses("n2", "other", durable) == []
