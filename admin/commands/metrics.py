"""`metrics`: all counters and gauges."""

from __future__ import annotations

from ..context import Context
from ..grammar import NO_EFFECT, Call, Command, Flag, boolean
from ..metric_names import described
from ..metrics import Metric
from ..result import DONE, Cell, Part, Table

_FILTERS = ("mqtt_version", "reason_code", "return_code")


async def _show(context: Context, call: Call) -> list[Part]:
    wanted = {label: value for label in _FILTERS if (value := call.flag(label, None)) is not None}
    rows = [row for row in context.metrics.rows() if wanted.items() <= dict(row.labels).items()]
    series: dict[tuple[str, str, str], int] = {}
    for row in rows:
        labels = "" if call.flag("aggregate", True) else _written(row)
        key = (row.type, row.name, labels)
        series[key] = series.get(key, 0) + row.value
    columns: tuple[str, ...] = ("type", "metric", "labels", "value")
    cells: list[tuple[Cell, ...]] = [(*key, value) for key, value in series.items()]
    line = "{type}.{metric}{labels} = {value}"
    if call.has("with-descriptions"):
        columns = (*columns, "description")
        cells = [(*row, described(str(row[1]))[1]) for row in cells]
        line = "# {description}\n" + line
    return [Table(columns, cells, line)]


def _written(row: Metric) -> str:
    if not row.labels:
        return ""
    return "{" + ",".join(f'{name}="{value}"' for name, value in row.labels) + "}"


async def _reset(context: Context, call: Call) -> list[Part]:
    context.metrics.reset()
    context.server.log("notice", "metrics were reset by vmq-admin")
    return [DONE]


COMMANDS = (
    Command(
        "metrics show",
        "Show every metric: TYPE.NAME = VALUE.",
        _show,
        flags=(
            Flag("with-descriptions", "also the meaning of each metric", "d"),
            Flag("aggregate", "false: a line for each combination of labels; default true", "a", "BOOL", True, boolean),
            Flag("mqtt_version", "only series with this label (4 or 5)", value="VERSION"),
            Flag("reason_code", "only series with this label", value="NAME"),
            Flag("return_code", "only series with this label", value="NAME"),
            Flag("group", NO_EFFECT, value="NAME"),
        ),
    ),
    Command(
        "metrics reset",
        "Set all counters but system_... to zero. $SYS and the event log keep the totals since the start.",
        _reset,
    ),
)
