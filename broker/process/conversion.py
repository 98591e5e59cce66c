"""Converts the message database of an older data directory at the start, before the node serves anybody."""

from __future__ import annotations

import asyncio
import time

from ...storage.directory import FORMAT, DataDirectory
from ...storage.engine import Batch
from ...storage.leveldb import LevelDBEngine
from ..reporting.journal import Journal
from ..slot_conversion import STEPS, SlotConversion

REPORT_S = 5.0
"""Seconds between two lines about the progress."""


async def convert(directory: DataDirectory, engine: LevelDBEngine, log: Journal) -> None:
    """Convert the message database if the directory has an older format, and delete what an earlier start left over.

    The format changes when all new rows are on the disk: the writes are fsynced, whatever the durability. Raises
    `StorageError`, such as `DiskFull`, or `RecordError`; then the next start continues.
    """
    conversion = SlotConversion(engine, directory.boot, lambda text: log("error", text))
    durability = engine.durability
    engine.durability = "sync"
    try:
        if directory.format < FORMAT:
            await _convert(directory, engine, conversion, log)
        if conversion.old_rows_remain:
            for batch in conversion.clean():
                await _write(engine, batch)
    finally:
        engine.durability = durability


async def _convert(directory: DataDirectory, engine: LevelDBEngine, conversion: SlotConversion, log: Journal) -> None:
    log(
        "notice",
        f"message database: conversion from format {directory.format} to {FORMAT} begins; the node serves no client "
        f"before its end; a node that is stopped meanwhile continues at its next start",
    )
    begun = reported = time.monotonic()
    for batch in conversion.convert():
        await _write(engine, batch)
        if time.monotonic() - reported >= REPORT_S:
            reported = time.monotonic()
            log("notice", f"message database: {100 * conversion.steps // STEPS} % converted; {_read(conversion)}")
            log.flush()
    directory.set_format()
    log(
        "notice",
        f"message database: converted to format {FORMAT} in {time.monotonic() - begun:.1f} s; {_read(conversion)}; "
        f"former versions cannot read the data directory any more",
    )


def _read(conversion: SlotConversion) -> str:
    return f"this start read {conversion.entries} queue entries and copied {conversion.payloads} shared payloads"


async def _write(engine: LevelDBEngine, batch: Batch) -> None:
    """Write a batch, or only let other tasks run if it is empty."""
    if not batch:
        await asyncio.sleep(0)
        return
    written: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def done(error: Exception | None) -> None:
        if written.done():
            return  # cancelled by the stop of the process
        if error is None:
            written.set_result(None)
        else:
            written.set_exception(error)

    engine.write(batch, done)
    await written
