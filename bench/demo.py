"""Show what a cluster of three does when things go wrong, and what its event log tells about it.

    python -m bench.demo [--out demo] [--policies off,majority,on] [--seconds 3]

For each netsplit policy it starts three broker processes on this machine, with durable subscribers and publishers of
QoS 1 and 2. It kills one node with kill -9, stops another one for some seconds, and cuts the third one off. Then it
judges the event logs: was any acknowledged message lost, doubled or reordered, when, where and why? With the policies
`off` and `majority` none may be. With `on` the node that is cut off goes on alone, and may lose messages as
docs/netsplit.md says.

At last `strogoff analytics report` makes a page of all logs, OUT/report.html. It needs no root (`bench/relays.py`),
and takes about two minutes. Exit status 1 if a verdict is not that of the policy, or the report has another one.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from strogoff.judge.run import Report, judge
from strogoff.testing.log_audit.log_files import read_log

from .demo_story import Story

POLICIES = ("off", "majority", "on")


@dataclass
class Outcome:
    """One policy: what the judges say about its log, and what the clients and brokers say."""

    policy: str
    run_id: str
    report: Report
    wrong: list[str]
    lost_for_late: int

    def doubts(self) -> list[str]:
        """Why this is not what the policy promises. With `on` a node without a lease acknowledges, and may lose
        messages: then any verdict is right."""
        found = {each.anomaly for each in self.report.findings}
        doubts = [] if "A20" in found else ["the log shows no incident"]
        if self.policy == "on":
            return doubts + ["no node acknowledged without a lease"] * ("A21" not in found)
        if self.report.verdict != "valid":
            doubts.append(f"the verdict is {self.report.verdict}")
        return doubts + self.wrong + ["a node acknowledged without a lease"] * ("A21" in found)

    def lines(self) -> list[str]:
        """The outcome in words."""
        report = self.report
        counts = f"{report.published} messages published, {report.acked} acknowledged, {report.delivered} delivered"
        lines = [f"policy {self.policy}: {report.verdict.upper()}. {counts}"]
        kinds = Counter((each.anomaly, each.kind, each.severity) for each in report.findings)
        lines += [f"    {anomaly} {kind} ({severity}): {n}" for (anomaly, kind, severity), n in kinds.items()]
        if self.lost_for_late:
            text = "that n3 acknowledged alone did not reach their new subscriber: n3 could not know it"
            lines.append(f"    {self.lost_for_late} messages {text} (docs/netsplit.md#what-on-loses)")
        return lines + [f"    NOT AS PROMISED: {each}" for each in self.doubts()[:10]]


def tell(text: str) -> None:
    """Say what happens, with the time in UTC, as in the event log."""
    print(f"{time.strftime('%H:%M:%SZ', time.gmtime())}  {text}", flush=True)


async def outcome_of(policy: str, folder: Path, seconds: float) -> Outcome:
    """Tell the story with one policy, and judge its log."""
    story = Story(policy, folder, seconds, tell)
    await story.run()
    rows, _ = await asyncio.to_thread(read_log, story.log)
    report = await asyncio.to_thread(judge, rows, complete=False)
    runs = Counter(row["run_id"] for row in rows)  # a node's own run, up to its join, has a few rows only
    return Outcome(policy, runs.most_common(1)[0][0], report, story.wrong(), story.lost_for_the_late_reader())


def written(folder: Path, outcomes: Sequence[Outcome]) -> dict[str, str]:
    """Write report.html and report.json. Returns run -> verdict. Raises RuntimeError if there is no report."""
    runs = ", ".join(f"{each.policy} is run {each.run_id[:8]}" for each in outcomes)
    files = {option: folder / f"report.{option}" for option in ("html", "json")}
    command = [sys.executable, "-m", "strogoff", "analytics", "report", str(folder / "log")]
    command += ["--out", str(files["html"]), "--json", str(files["json"]), "--title", f"Netsplit policies: {runs}"]
    status = subprocess.run(command, stdout=subprocess.DEVNULL, check=False).returncode
    if status not in (0, 3, 4):
        raise RuntimeError(f"strogoff analytics report ended with status {status}")
    audits = [each["audit"] for each in json.loads(files["json"].read_text())["runs"]]
    return {each["run_id"]: each["verdict"] for each in audits}


def differences(outcomes: Sequence[Outcome], verdicts: Mapping[str, str]) -> list[str]:
    """Where the report has another verdict than the judges in memory."""
    return [
        f"policy {each.policy}: {each.report.verdict} in memory, {verdicts.get(each.run_id, 'missing')} in the report"
        for each in outcomes
        if verdicts.get(each.run_id) != each.report.verdict
    ]


def main() -> int:
    """Run the command line. Returns the exit status."""
    parser = argparse.ArgumentParser(
        description="three nodes under load, a kill, a pause and a netsplit, then a verdict"
    )
    parser.add_argument(
        "--out", type=Path, default=Path("demo"), help="folder of the logs; those of before are deleted"
    )
    parser.add_argument("--policies", default=",".join(POLICIES))
    parser.add_argument("--seconds", type=float, default=3.0, help="load between two faults")
    arguments = parser.parse_args()
    policies = arguments.policies.split(",")
    if unknown := set(policies) - set(POLICIES):
        parser.error(f"no policy: {', '.join(sorted(unknown))}")
    for part in ("log", "data"):
        shutil.rmtree(arguments.out / part, ignore_errors=True)
    outcomes = []
    for policy in policies:
        print(f"\nnetsplit policy {policy}")
        outcomes.append(asyncio.run(outcome_of(policy, arguments.out, arguments.seconds)))
    print()
    tell("Spark reads the event logs, and judges them for the report")
    other = differences(outcomes, written(arguments.out, outcomes))
    print()
    for each in outcomes:
        print("\n".join(each.lines()))
    print("\n".join([*other, f"\nThe report: {arguments.out / 'report.html'}"]))
    print(f"One client's life: strogoff analytics follow {arguments.out / 'log' / policies[-1]} --client late-reader")
    return 1 if other or any(each.doubts() for each in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
