"""`metrics`: lines, descriptions, labels, reset."""

from __future__ import annotations

from pathlib import Path

from ..server_harness import ServerHarness, run_with_server


def test_lines(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.client("a", 4)
        await harness.client("b", 5)
        lines = (await harness.good("metrics", "show")).out.splitlines()
        assert "counter.mqtt_connect_received = 2" in lines
        assert "counter.mqtt_connack_sent = 2" in lines
        assert "gauge.total_active_connections = 2" in lines
        assert len({line.split(" = ")[0] for line in lines}) == len(lines)
        (line,) = (await harness.good("metrics", "show", "--return_code=success")).out.splitlines()
        assert line == "counter.mqtt_connack_sent = 1"

    run_with_server(tmp_path, test)


def test_labels_and_descriptions(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.client("b", 5)
        show = ("metrics", "show", "--aggregate=false")
        lines = (await harness.good(*show)).out.splitlines()
        assert 'counter.mqtt_connect_received{mqtt_version="4"} = 0' in lines
        assert 'counter.mqtt_connack_sent{mqtt_version="5",reason_code="success"} = 1' in lines
        assert "gauge.queue_processes = 1" in lines
        out = (await harness.good(*show, "--mqtt_version=5", "--reason_code=success", "-d")).out
        assert out.startswith(
            "# CONNACK packets sent, by return or reason code.\n"
            'counter.mqtt_connack_sent{mqtt_version="5",reason_code="success"} = 1\n'
        )
        row = (await harness.good(*show, "--mqtt_version=5", "--reason_code=success", "--format=json")).table[0]
        assert row == {
            "type": "counter",
            "metric": "mqtt_connack_sent",
            "labels": '{mqtt_version="5",reason_code="success"}',
            "value": 1,
        }

    run_with_server(tmp_path, test)


def test_reset(tmp_path: Path) -> None:
    async def test(harness: ServerHarness) -> None:
        await harness.client("b", 5)
        assert (await harness.good("metrics", "reset")).out == "Done\n"
        lines = (await harness.good("metrics", "show")).out.splitlines()
        assert "counter.mqtt_connect_received = 0" in lines
        assert "gauge.total_active_connections = 1" in lines
        assert "notice metrics were reset by vmq-admin" in harness.lines

    run_with_server(tmp_path, test)
