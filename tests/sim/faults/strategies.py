"""Faults of every kind, made by hypothesis."""

from __future__ import annotations

from hypothesis import strategies as st

from strogoff.sim.faults.kinds import (
    BackupRestored,
    ClockJump,
    Cut,
    Delay,
    DiskFull,
    DiskLost,
    DiskStall,
    FastRestart,
    Fault,
    Freeze,
    Kill,
    Loss,
    OneWay,
    PairCut,
    Pause,
    PowerLoss,
)

NODES = st.from_regex(r"[^\s|;#]{1,12}", fullmatch=True).filter(lambda name: name != "for")
PAIRS = st.lists(NODES, min_size=2, max_size=2, unique=True)
SECONDS = st.floats(0, 1e9, exclude_min=True, allow_subnormal=False)


@st.composite
def cuts(draw: st.DrawFn) -> Cut:
    """Nodes in groups, none empty."""
    nodes = draw(st.lists(NODES, min_size=2, max_size=6, unique=True))
    ends = sorted(draw(st.sets(st.integers(1, len(nodes) - 1), min_size=1)))
    return Cut(tuple(tuple(nodes[a:b]) for a, b in zip([0, *ends], [*ends, len(nodes)], strict=True)))


FAULTS: st.SearchStrategy[Fault] = st.one_of(
    cuts(),
    st.one_of(PAIRS.map(lambda pair: PairCut(*pair)), PAIRS.map(lambda pair: OneWay(*pair))),
    st.builds(lambda pair, ms: Delay(pair[0], pair[1], ms), PAIRS, st.integers(1, 1 << 40)),
    st.builds(lambda pair, share: Loss(pair[0], pair[1], share), PAIRS, st.floats(0, 1, exclude_min=True)),
    st.sampled_from(
        [Kill, PowerLoss, FastRestart, DiskStall, DiskFull, DiskLost, BackupRestored],
    ).flatmap(lambda kind: NODES.map(kind)),
    st.sampled_from([Pause, Freeze]).flatmap(lambda kind: st.builds(kind, NODES, SECONDS)),
    st.builds(ClockJump, NODES, st.integers(-(1 << 50), 1 << 50).filter(bool)),
)
