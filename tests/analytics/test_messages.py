"""Messages and their copies, from rows of events."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from .test_silver import event_table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("spark"), pytest.mark.timeout(300)]

FIRST, SECOND = "n1/000001/000000000001", "n1/000001/000000000002"


def rows_of(spark: SparkSession) -> DataFrame:
    from strogoff.analytics.messages import by_message

    publisher: dict[str, Any] = {"client": "p", "conn": 7}
    steps = [
        {"type": "pub.recv", "mid": FIRST, **publisher, "topic": "t", "qos": 1, "bytes": 64},
        {"type": "pub.route", "mid": FIRST, "targets": ["a", "b"]},
        {"type": "pub.route", "mid": FIRST, "targets": ["c"], "node": "n2"},
        {"type": "q.enq", "mid": FIRST, "client": "a"},
        {"type": "q.durable", "mid": FIRST, "client": "a"},
        {"type": "q.drop", "mid": FIRST, "client": "b", "reason": "queue_full"},
        {"type": "q.drop", "mid": FIRST, "client": "b", "reason": "no_member"},
        {"type": "pub.ack", "mid": FIRST, **publisher, "code": 0, "right": "lease"},
        {"type": "dlv.send", "mid": FIRST, "client": "a", "conn": 9, "qos": 1},
        {"type": "dlv.send", "mid": FIRST, "client": "a", "conn": 10, "qos": 1, "dup": True, "node": "n2"},
        {"type": "dlv.ack", "mid": FIRST, "client": "a", "conn": 10, "code": 0, "node": "n2"},
        {"type": "will.fire", "mid": SECOND, "client": "w", "topic": "gone"},
        {"type": "q.enq", "mid": SECOND, "client": "a", "node": "n2"},
        {"type": "q.expire", "mid": SECOND, "client": "a"},
        {"type": "conn.close", "client": "p", "reason": "disconnect"},
    ]
    return by_message(event_table(spark, [{**step, "seq": at, "hlc": at} for at, step in enumerate(steps, 1)]))


def test_a_message_has_its_begin_and_its_end(spark: SparkSession) -> None:
    from strogoff.analytics.messages import messages

    first, second = messages(rows_of(spark)).orderBy("mid").collect()
    assert first.asDict() == {
        "mid": FIRST,
        "run_id": "r",
        "node": "n1",
        "client": "p",
        "conn": 7,
        "topic": "t",
        "qos": 1,
        "bytes": 64,
        "received": 1,
        "acked": 8,
        "code": 0,
        "right": "lease",
        "routed": 2,
        "targets": 3,
        "copies": 1,
        "dropped": 2,
    }
    assert (second["received"], second["client"], second["copies"], second["dropped"]) == (None, None, 1, 1)


def test_a_copy_has_the_first_stamp_of_each_step(spark: SparkSession) -> None:
    from strogoff.analytics.messages import STEPS, pairs

    found = {(row["mid"], row["client"]): row for row in pairs(rows_of(spark)).collect()}
    times = {key: {step: row[step] for step in STEPS if row[step]} for key, row in found.items()}
    assert times == {
        (FIRST, "a"): {"enqueued": 4, "durable": 5, "sent": 9, "acknowledged": 11},
        (FIRST, "b"): {"dropped": 6},
        (SECOND, "a"): {"enqueued": 13, "expired": 14},
    }
    assert [(found[key]["node"], found[key]["sends"]) for key in sorted(found)] == [("n1", 2), ("n1", 0), ("n2", 0)]
    assert found[FIRST, "a"]["code"] == 0
    assert found[FIRST, "b"]["reason"] == "queue_full"


def test_both_tables_need_one_shuffle(spark: SparkSession, capsys: pytest.CaptureFixture[str]) -> None:
    from strogoff.analytics.messages import messages, pairs

    for made in (messages, pairs):
        made(rows_of(spark)).explain()
        assert capsys.readouterr().out.count("Exchange") == 1


def test_a_table_that_is_none_of_events_is_refused(spark: SparkSession) -> None:
    from strogoff.analytics.messages import by_message
    from strogoff.analytics.reading import SchemaError

    with pytest.raises(SchemaError, match="events: no column type"):
        by_message(spark.createDataFrame([("m",)], "mid string"))
