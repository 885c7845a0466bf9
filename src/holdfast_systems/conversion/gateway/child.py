"""The process that converts, one PDF at a time, within limits that the kernel keeps.

It reads one JSON line for each conversion and answers with one. It ends when its input ends, also in the middle of a
conversion: when the gateway is gone, nothing goes on converting for it.
"""

from __future__ import annotations

import os
import resource
import sys
import threading
from pathlib import Path
from queue import SimpleQueue
from typing import Any

from holdfast.base import decode, encode
from holdfast.catalog import DEFAULT_CLASSIFIER, Failure
from holdfast_systems.conversion.gateway.faults import CONVERSION_TOO_HEAVY
from holdfast_systems.conversion.gateway.mappings import convert
from holdfast_systems.conversion.gateway.markup import Writer
from holdfast_systems.conversion.gateway.pdf import Document

FILES_MAX = 64
ORDER_BYTES_MAX = 65_536
READY = "ready"


def main() -> None:
    """Convert until there is nothing more to read."""
    orders: SimpleQueue[dict[str, Any]] = SimpleQueue()
    limit_memory(int(sys.argv[1]))
    threading.Thread(target=_listen, args=(orders,), daemon=True).start()
    _say({READY: True})
    while True:
        _say(_carried_out(orders.get()))


def limit_memory(memory_bytes: int) -> None:
    """Let this process grow by at most this many bytes, leave no core behind and open few files."""
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES_MAX, FILES_MAX))
    whole = _memory_pages(0) * resource.getpagesize() + memory_bytes
    resource.setrlimit(resource.RLIMIT_AS, (whole, whole))


def limit_cpu(seconds: int) -> None:
    """Let the kernel end this process when it has used this many more seconds of CPU time, rounded up to a full one."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    last = int(used.ru_utime + used.ru_stime) + seconds + 1
    resource.setrlimit(resource.RLIMIT_CPU, (last, resource.RLIM_INFINITY))


def _carried_out(order: dict[str, Any]) -> dict[str, Any]:
    limit_cpu(order["cpu_s"])
    try:
        told = _convert(order)
    except Failure as failure:
        told = {"code": failure.code, "details": dict(failure.details)}
    except OSError as error:
        told = {"code": DEFAULT_CLASSIFIER.classify(error).code, "details": {}}
    except MemoryError:
        told = {"code": CONVERSION_TOO_HEAVY.code, "details": {"reason": "memory"}, "spent": True}
    return {**told, "kept_bytes": _memory_pages(1) * resource.getpagesize()}


def _convert(order: dict[str, Any]) -> dict[str, Any]:
    document = Document(Path(order["source"]), pages_max=order["pages_max"], page_chars_max=order["page_chars_max"])
    try:
        with Path(order["result"]).open("wb") as file:
            out = Writer(file, bytes_max=order["xml_bytes_max"])
            convert(document, order["mapping"], out)
            return {"bytes": out.written, "pages": document.page_count}
    finally:
        document.close()


def _listen(orders: SimpleQueue[dict[str, Any]]) -> None:
    held = b""
    # Not by way of sys.stdin: a thread that waits inside it keeps the interpreter from ending in order.
    while read := os.read(0, ORDER_BYTES_MAX):
        *lines, held = (held + read).split(b"\n")
        for line in lines:
            orders.put(decode(line))
    os._exit(0)


def _say(told: dict[str, Any]) -> None:
    sys.stdout.write(f"{encode(told)}\n")
    sys.stdout.flush()


def _memory_pages(column: int) -> int:
    """Of this process: 0 is its address space, 1 what of it is in memory; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[column])
    except OSError:
        return 0


if __name__ == "__main__":
    main()
