"""The operator's page: what happens, why, and the verbs to do something about it."""

from typing import TYPE_CHECKING

from holdfast.base.lazy import lazily

if TYPE_CHECKING:
    from holdfast.console.assembly import Console, console

__getattr__ = lazily(__name__, globals(), dict.fromkeys(("Console", "console"), "holdfast.console.assembly"))

__all__ = ["Console", "console"]
