"""Flow runs whose steps have reports written by a language model, safe under replays and crashes."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily

if TYPE_CHECKING:
    from holdfast_systems.reports.faults import REPORTS
    from holdfast_systems.reports.main import build
    from holdfast_systems.reports.settings import Settings, read_settings

__getattr__ = lazily(
    __name__,
    globals(),
    {"REPORTS": "holdfast_systems.reports.faults", "build": "holdfast_systems.reports.main"}
    | dict.fromkeys(("Settings", "read_settings"), "holdfast_systems.reports.settings"),
)

__all__ = ["REPORTS", "Settings", "build", "read_settings"]
