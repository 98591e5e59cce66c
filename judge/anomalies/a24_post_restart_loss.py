"""A24 post-restart-loss: a node could not read records that were safe on its disk.

The message store of a boot has reported damage (`damaged`). Sessions with such records are refused, or go on without
them, until an operator repairs the store. A queue that merely has fewer messages after a restart than before is A1
`gone`, when its client comes back.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..findings import Finding, Subject
from ..rows import row_id
from ..world import World

ID = "A24"


def judge(world: World) -> Iterator[Finding]:
    """Returns a finding for each boot that met damage, with its first row."""
    for (node, boot), row in world.damaged.items():
        text = f"damaged records at {node}, boot {boot}: {row.get('detail') or 'no details'}"
        subject = Subject(node=node, detail=f"boot {boot}")
        yield Finding(ID, "damaged", "error", subject, row["hlc"], text, (row_id(row),))
