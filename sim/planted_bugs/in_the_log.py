"""Which planted bugs show in the event log, and why the others do not.

`SHOWN`: bug -> anomalies, of which the judges find at least one in the run that shows the bug. `HIDDEN`: bug -> why its
effect is not in the log, or no judge looks for it.
"""

from __future__ import annotations

from typing import Final

SHOWN: Final[dict[str, str]] = {
    "ack-before-commit": "A2",
    "answers-before-commit": "A2",
    "publish-before-stored": "A5",
    "ids-from-one": "A5",
    "newest-first": "A6",
    "inbound-lost": "A1",
    "routed-too-early": "A1",
    "subscriptions-lost": "A1",
    "will-lost": "A14",
    "will-forgotten-first": "A14",
    "old-connection-kept": "A10",
    "guard-off": "A1, A19",
    "acknowledged-before-applied": "A1",
    "nobody-waits": "A2",
    "take-after-a-gap": "A1",
    "clean-sessions-kept": "A1",
    "will-twice": "A14",
    "disk-means-safe": "A5",
    "claimed-past-a-gap": "A22",
    "retained-by-arrival": "A22",
    "new-leader-sets-the-time": "A1",
}
LEASES: Final = "nodes write when they have a lease, and only true time shows that a lease was wrong"
WAITS: Final = "a message without an acknowledgement may wait for good reasons, so no judge looks for it"
SLOTS: Final = "rows about slots have no epochs and no holders by view"
HIDDEN: Final[dict[str, str]] = {
    "sync-without-fsync": "a loss of power may have taken rows, so no finding is sure",
    "released-not-stored": "rows of PUBREL name no message: nobody can tell when its packet id was free",
    "pubrel-before-stored": "rows of PUBREL name no message: nobody can tell when its packet id was free",
    "will-after-disconnect": "`conn.close` does not say whether DISCONNECT keeps the will",
    "window-ignored": "no judge counts what is in flight",
    "message-expiry-restarts": "no row has the expiry of a message",
    "unsent-counts-as-sent": "no row has the expiry of a message",
    "wall-clock": "no row has the expiry of a message",
    "nothing-cleaned-up": "the log does not have what is on the disk",
    "bodies-kept": "the log does not have what is on the disk",
    "view-without-boot": "no row says which start of a node is in a view",
    "watermark-in-memory": "no judge looks for a message that enters one queue twice",
    "given-to-a-second": "no judge counts what all members of a group got",
    "session-expiry-restarts": "no judge compares the end of a session with its expiry",
    "will-delay-restarts": "no judge compares the time of a will with its delay",
    "learner-counted": LEASES,
    "direct-join": LEASES,
    "new-leader-does-not-wait": LEASES,
    "lease-unconfirmed": LEASES,
    "ping-from-a-side": WAITS,
    "dropped-not-parked": WAITS,
    "one-shared-window": WAITS,
    "drained-at-heal": "what a node without a lease accepted is not judged for order",
    "slot-holders-by-node": SLOTS,
    "slot-epochs-kept": SLOTS,
}
