"""Futures in coroutines."""

from __future__ import annotations

import asyncio

from ._warpbell import Future


async def result_of(future: Future) -> int:
    """Waits for the end on a thread of the event loop's, which goes on meanwhile."""
    if future.done():
        return future.result()
    return await asyncio.get_running_loop().run_in_executor(None, future.result)
