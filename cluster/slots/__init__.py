"""Slots: which node owns each share of the client ids, and which nodes have a copy of it. Pure, without I/O."""
