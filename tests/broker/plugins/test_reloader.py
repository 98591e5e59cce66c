"""When a file is read again, and which content is used if it is broken."""

from __future__ import annotations

from strogoff.broker.plugins.reloader import LineError, Reloader, Stamp


def parse(text: str) -> int:
    for number, line in enumerate(text.split("\n"), 1):
        if line == "bad":
            raise LineError(number, "a bad line")
    return len(text)


FIRST = Stamp(1, 3, 7)


def test_read_when_time_size_or_inode_differ() -> None:
    reloader = Reloader(parse, -1)
    assert reloader.content == -1
    assert reloader.wants(FIRST)
    assert reloader.take("f", FIRST, "abc")
    assert reloader.content == 3
    assert not reloader.wants(FIRST)
    for other in (FIRST._replace(mtime_ns=0), FIRST._replace(size=4), FIRST._replace(inode=8)):
        assert reloader.wants(other)


def test_a_broken_file_keeps_the_content_and_is_not_read_again_until_it_changes() -> None:
    reloader = Reloader(parse, -1)
    reloader.take("f", FIRST, "abc")
    second = FIRST._replace(mtime_ns=2)
    assert not reloader.take("etc/f", second, "x\nbad")
    assert (reloader.content, reloader.problem) == (3, "etc/f:2: a bad line")
    assert not reloader.wants(second)
    assert reloader.take("etc/f", FIRST._replace(mtime_ns=3), "good")
    assert (reloader.content, reloader.problem) == (4, "")


def test_a_file_that_could_not_be_read_is_tried_again_even_if_it_looks_the_same() -> None:
    reloader = Reloader(parse, -1)
    reloader.take("f", FIRST, "abc")
    reloader.fail("f: permission denied")
    assert (reloader.content, reloader.problem) == (3, "f: permission denied")
    assert reloader.wants(FIRST)
