"""What an upstream answered: a value that outlives its connection."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.base import CodecError, Json, Private, decode
from holdfast.catalog import Failure, Remote, retry_after_s
from holdfast.catalog.core import INVALID_RESPONSE

EXCERPT_BYTES_MAX = 200
"""Maximum number of bytes of an unreadable body that are kept for the log."""


class Headers(Mapping[str, str]):
    """Header fields by name, in any case; a field that was sent more than once is joined by commas."""

    __slots__ = ("_values",)

    def __init__(self, pairs: Iterable[tuple[str, str]] = ()) -> None:
        self._values: dict[str, tuple[str, ...]] = {}
        for name, value in pairs:
            lower = name.lower()
            self._values[lower] = (*self._values.get(lower, ()), value)

    def all(self, name: str) -> tuple[str, ...]:
        """Every value of the field, in the order in which they came; for fields such as Set-Cookie."""
        return self._values.get(name.lower(), ())

    def __getitem__(self, name: str) -> str:
        return ", ".join(self._values[name.lower()])

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        return f"<Headers {', '.join(self)}>"  # values may be secrets


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """One whole answer, whatever its status."""

    status: int
    headers: Headers = field(default_factory=Headers)
    body: bytes = field(default=b"", repr=False)
    """Decompressed, when the upstream had compressed it."""
    url: str = field(default="", repr=False)
    """Where it came from; after redirects, the last address. It may hold a token, so it is not shown."""

    @property
    def ok(self) -> bool:
        """Whether the status is one of the 2xx."""
        return 200 <= self.status < 300

    @property
    def content_type(self) -> str:
        """The media type in lower case, without parameters; empty when there is none."""
        return self.headers.get("content-type", "").partition(";")[0].strip().lower()

    @property
    def retry_after_s(self) -> float | None:
        """How long the upstream asks us to wait; None when it says nothing readable."""
        return retry_after_s(self.headers.get("retry-after"))

    def json(self) -> Json:
        """The body read as JSON, under the bounds of `base.decode` and never larger than what was received.

        Raises:
            Failure: INVALID_RESPONSE, because it is cut off, not UTF-8, too deep, has a key twice, or is not JSON.
        """
        try:
            # Its size was bounded when it was received; the general limit of JSON may be smaller.
            return decode(self.body.removeprefix(BOM_UTF8), bytes_max=max(len(self.body), 1))
        except CodecError as broken:
            excerpt = self.body[:EXCERPT_BYTES_MAX].decode("utf-8", "replace")
            raise self._unreadable(broken.reason, received=Private(excerpt)) from broken

    def text(self) -> str:
        """The body as UTF-8.

        Raises:
            Failure: INVALID_RESPONSE, because it is not UTF-8.
        """
        try:
            return self.body.decode()
        except UnicodeDecodeError as broken:
            raise self._unreadable("not_utf8") from broken

    def _unreadable(self, reason: str, **facts: object) -> Failure:
        return Failure(INVALID_RESPONSE, details={"reason": reason, **facts}, remote=Remote(self.status))
