"""The tables of docs/cluster.md agree with the code."""

from pathlib import Path

import pytest

from strogoff.broker.clustering.adapter import CLUSTER_SPACES
from strogoff.cluster.links.ports import Lane
from strogoff.cluster.ports import Datagram
from tests.harness.scripts import load_script

ROOT = Path(__file__).resolve().parents[2]


script = load_script("docs/cluster_page.py")


def test_the_page_is_up_to_date() -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    assert script.renewed(page) == page, "python docs/cluster_page.py"
    assert script.main(["--check"]) == 0


def test_everything_on_the_wire_is_explained() -> None:
    assert set(script.DATAGRAMS) == set(Datagram)
    assert set(script.LANES) == set(Lane)
    assert set(script.NAMESPACES) == set(CLUSTER_SPACES)


@pytest.mark.parametrize("name", list(script.PARTS))
def test_a_table_has_rows_and_every_row_its_columns(name: str) -> None:
    lines = script.PARTS[name]().split("\n")
    assert len(lines) > 2
    if lines[0].startswith("|"):
        assert len({line.count(" | ") for line in lines}) == 1


def test_a_page_without_marks_is_refused() -> None:
    with pytest.raises(ValueError, match="has no part between"):
        script.renewed("# A page")


def test_the_links_of_the_page_resolve() -> None:
    page = script.PAGE.read_text(encoding="utf-8")
    for target in (each.split(")")[0] for each in page.split("](")[1:]):
        assert (script.PAGE.parent / target).exists(), target
