"""PDF → XML with a queue that people can watch: upload, convert, retry, download."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily

if TYPE_CHECKING:
    from holdfast_systems.conversion.faults import CONVERSION_FAULTS
    from holdfast_systems.conversion.main import build
    from holdfast_systems.conversion.settings import Settings, read_settings

# The gateway's processes need none of it: loaded when first used.
__getattr__ = lazily(
    __name__,
    globals(),
    {"CONVERSION_FAULTS": "holdfast_systems.conversion.faults", "build": "holdfast_systems.conversion.main"}
    | dict.fromkeys(("Settings", "read_settings"), "holdfast_systems.conversion.settings"),
)

__all__ = ["CONVERSION_FAULTS", "Settings", "build", "read_settings"]
