"""The buckets of a histogram are those that Prometheus' own client has."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Histogram

from strogoff.storage.durations import BOUNDS_S, Durations


@given(st.lists(st.one_of(st.floats(0, 20), st.sampled_from(BOUNDS_S))))
def test_the_same_buckets_as_those_of_the_library(times: list[float]) -> None:
    durations = Durations()
    other = Histogram("took", "", buckets=BOUNDS_S, registry=CollectorRegistry())
    for each in times:
        durations.add(each)
        other.observe(each)
    (family,) = other.collect()
    buckets = [sample.value for sample in family.samples if sample.name.endswith("_bucket")]
    assert durations.cumulated == buckets
    assert durations.total_s == next(sample.value for sample in family.samples if sample.name.endswith("_sum"))


def test_a_bound_belongs_to_its_bucket() -> None:
    durations = Durations((1.0, 2.0))
    for each in (1.0, 1.5, 2.0, 2.1):
        durations.add(each)
    assert durations.cumulated == [1, 3, 4]


def test_what_took_no_time_is_in_all_buckets() -> None:
    durations = Durations((1.0, 2.0))
    durations.add(1.5)
    durations.at_once += 2
    assert durations.cumulated == [2, 3, 3]
    assert durations.total_s == 1.5
