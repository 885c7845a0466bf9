"""However large an artifact is, only a few pieces of it are in memory."""

from __future__ import annotations

import subprocess
import sys

import pytest

# The growth of this process's largest size, in MB, over putting and reading what it was told to.
PROGRAM = """
import re, sys
from pathlib import Path
from holdfast.artifact import Artifacts

def largest():
    # Not from getrusage, which still remembers the size of the program that started this one.
    return int(re.search(r"VmHWM:\\s+(\\d+) kB", Path("/proc/self/status").read_text())[1]) / 1_024

artifacts = Artifacts.open(sys.argv[1])
artifacts.put("warm", bytes(12_000_000 if "://" in sys.argv[1] else 1))  # what the packages themselves need
before = largest()
artifacts.put("streamed", (bytes(1_000_000) for _ in range(int(sys.argv[2]))))
with artifacts.open_stream("streamed") as stream:
    for _ in stream:
        pass
assert stream.bytes == int(sys.argv[2]) * 1_000_000
print(largest() - before)
"""


@pytest.mark.parametrize(
    ("url", "megabytes", "growth_max"), [("folder", 20, 5), ("s3", 50, 20)], indirect=["url"], ids=["folder", "s3"]
)
def test_streaming_takes_little_memory(url: str, megabytes: int, growth_max: float) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", PROGRAM, url, str(megabytes)], capture_output=True, text=True, check=True
    )
    assert float(ended.stdout) < growth_max
