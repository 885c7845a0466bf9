"""`python -m bench [SUITE …] [--quick] [--json FILE]`: measure, print one table per suite, keep the figures."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.measure import machine
from bench.steal import StealMeter
from bench.table import Row, as_json, rendered

SUITES = ("guard", "jobs", "edge", "delivery", "conversion", "credentials", "reports", "records", "commerce", "console")
"""Each is a module of this package with a `TITLE`, the `PACKAGES` it measures and `run(quick) -> list[Row]`."""
RESULTS = Path(__file__).parent / "results"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the suites that were asked for, or all of them."""
    chosen = _options().parse_args(arguments)
    report = {}
    for name in chosen.suites or SUITES:
        try:
            suite = import_module(f"bench.{name}")
        except ModuleNotFoundError as missing:
            print(f"{missing}; install with: pip install -r bench/requirements.txt -e '.[all]'", file=sys.stderr)
            return 2
        steal = StealMeter()
        rows: list[Row] = suite.run(quick=chosen.quick)
        stolen = steal.share
        print(rendered(suite.TITLE, rows))
        print(f"{stolen:.0%} of the machine's time went to others on its host\n")
        report[name] = {
            "title": suite.TITLE,
            "quick": chosen.quick,
            "machine": machine(suite.PACKAGES),
            "stolen": round(stolen, 3),
            "rows": [as_json(row) for row in rows],
        }
        _write(RESULTS / f"{name}.json", report[name])
    if chosen.json:
        _write(chosen.json, report)
    return 0


def _options() -> argparse.ArgumentParser:
    options = argparse.ArgumentParser(prog="python -m bench", description=main.__doc__)
    options.add_argument("suites", nargs="*", type=_known, metavar="SUITE", help=", ".join(SUITES))
    options.add_argument("--quick", action="store_true", help="a rough look in a few seconds")
    options.add_argument("--json", type=Path, metavar="FILE", help="also write all figures of this run to FILE")
    return options


def _known(name: str) -> str:
    if name not in SUITES:
        raise argparse.ArgumentTypeError(f"there is no suite {name!r}; suites: {', '.join(SUITES)}")
    return name


def _write(path: Path, figures: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(figures, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    sys.exit(main())
