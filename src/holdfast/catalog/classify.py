"""How foreign errors become failures: by type, by name, by HTTP status, by SQLSTATE.

A type is looked up once and then remembered: the caller's table over the whole line of base classes, nearest
first, then what a link has made of this very error, then what Holdfast knows. What nobody knows is UNKNOWN, and that
is retried with care.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from holdfast.base import Private, limits
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.core import UNKNOWN
from holdfast.catalog.database import DATABASE_READINGS
from holdfast.catalog.failure import STAMP, Failure, again, occurred
from holdfast.catalog.fault import Fault
from holdfast.catalog.network import NETWORK_READINGS, REPLY_READINGS, Wrapper
from holdfast.catalog.status import DEFAULT_STATUSES, STATUS_CARRIERS, StatusTable

Reader = Callable[[BaseException], Fault | Failure | None]
"""Looks at one error; None leaves it to the next reading."""
Reading = Fault | Failure | Wrapper | Reader
"""What an error type is: a fault, a failure to copy, the error inside it, or for a reader to say."""
Readings = Mapping[type[BaseException] | str, Reading]
"""Readings by class, or by the class's name with its package."""

UNKNOWN_CODE = UNKNOWN.code
TYPES_REMEMBERED_MAX = 1_024
"""A program that makes exception classes as it runs must not fill the memory with them."""


class Classifier:
    """Reads any error as a failure of the catalog.

    ```python
    bank = Classifier(
        {BankClosed: BANK_SILENT, "bank_sdk.Declined": CARD_DECLINED},
        remap=dict.fromkeys(NETWORK_CODES, BANK_SILENT),
        catalog=errors,
    )
    ```

    Args:
        types: a class, or its name with its package, and how it is read. Names import nothing.
        statuses: the link's table for errors that carry an HTTP status.
        remap: a code, and the fault that stands for it on this link, whichever table it came from.
        catalog: where it has a fault of the same code, that one is used, with its words and its rule.
    """

    def __init__(
        self,
        types: Readings | None = None,
        *,
        statuses: StatusTable = DEFAULT_STATUSES,
        remap: Mapping[str, Fault] | None = None,
        catalog: Catalog | None = None,
    ) -> None:
        self._statuses = statuses
        self._tables: tuple[_Table, ...] = (_Table(types or {}), _carriers(statuses, None), _KNOWN)
        self._remap = dict(remap or {})
        self._catalog = catalog
        self._decided: dict[type[BaseException], Fault] = {}
        self.ordinary: dict[type[BaseException], Fault] = {}
        """Types that alone decide on a known fault, declared to be retried as the operation's own rule says."""
        self._learned: dict[type[BaseException], tuple[Reading, ...]] = {}

    def on_link(self, upstream: Catalog | None) -> Classifier:
        """This classifier as a link uses it: what cannot be decoded is the upstream's reply.

        Args:
            upstream: the upstream's own catalog; codes in its error bodies that it declares are those faults.
        """
        from copy import copy

        twin = copy(self)
        twin._tables = (self._tables[0], _carriers(self._statuses, upstream), _ON_LINK, _KNOWN)
        twin._decided, twin.ordinary, twin._learned = {}, {}, {}
        return twin

    def classify(self, error: BaseException, *, stamped_after: int = 0) -> Failure:
        """The failure that this error is, with the error as its `__cause__`; a failure is returned as it is.

        Args:
            stamped_after: what a link has made of this error counts only if its stamp has a higher number.
        """
        fault = self._decided.get(type(error))
        if fault is None or getattr(error, STAMP, None) is not None:
            return self._look(error, stamped_after)
        failure = occurred(fault, {}, None)
        failure.__cause__ = error
        return failure

    def ours(self, fault: Fault) -> Fault:
        """The fault that stands for this one here: by the remap, then in the catalog's words."""
        fault = self._remap.get(fault.code, fault)
        return fault if self._catalog is None else self._catalog.get(fault.code) or fault

    def _look(self, error: BaseException, stamped_after: int) -> Failure:
        if isinstance(error, Failure):
            return error
        try:
            found = self._first(error, limits().cause_depth_max, stamped_after)
        except Exception as broken:  # noqa: BLE001 - a broken reader must not hide the error it was to read
            found = Failure(UNKNOWN, details={"classifier": Private(f"{type(broken).__name__}: {broken}")})
        if found is None or isinstance(found, Fault):
            failure = Failure(self.ours(found or UNKNOWN))
        else:
            failure = found
            failure.fault = self.ours(found.fault)
        if failure.__cause__ is None:
            failure.__cause__ = error
        return failure

    def _readings(self, kind: type[BaseException]) -> tuple[Reading, ...]:
        """All readings of a type up to the first that always answers."""
        known = self._learned.get(kind)
        return self._learn(kind) if known is None else known

    def _learn(self, kind: type[BaseException]) -> tuple[Reading, ...]:
        found: list[Reading] = []
        for reading in (reading for table in self._tables for reading in table.readings(kind)):
            found.append(reading)
            if isinstance(reading, Fault | Failure):
                break
        if len(self._learned) >= TYPES_REMEMBERED_MAX:
            self._learned.clear()
            self._decided.clear()
            self.ordinary.clear()
        first = found[0] if found else UNKNOWN
        if isinstance(first, Fault):
            # The type alone decides: from now on one look-up is enough.
            fault = self._decided[kind] = self.ours(first)
            if fault.retry is True and fault.code != UNKNOWN_CODE:
                self.ordinary[kind] = fault
        self._learned[kind] = readings = tuple(found)
        return readings

    def _first(self, error: BaseException, depth: int, stamped_after: int) -> Fault | Failure | None:
        """What the first reading that knows this error makes of it."""
        stamp: Any = getattr(error, STAMP, None)
        made = getattr(stamp, "failure", None)
        if made is not None and stamp.number > stamped_after and not self._tables[0].knows(type(error)):
            return again(made)
        for reading in self._readings(type(error)):
            if isinstance(reading, Fault):
                return reading
            if isinstance(reading, Failure):
                return again(reading)
            if isinstance(reading, Wrapper):
                found = self._within(error, reading, depth, stamped_after)
            else:
                found = reading(error)
            if found is not None:
                return found
        return None

    def _within(self, error: BaseException, wrapper: Wrapper, depth: int, after: int) -> Fault | Failure | None:
        inner = wrapper.inner(error)
        if isinstance(inner, Failure):
            return again(inner)
        if inner is None or depth <= 1:
            return wrapper.otherwise
        found = self._first(inner, depth - 1, after)
        # Something unknown inside says less than the wrapper itself.
        return wrapper.otherwise if found is None else found


class _Table:
    """Readings by class and by name, found along the line of base classes."""

    def __init__(self, readings: Readings) -> None:
        self._types: dict[type, Reading] = {}
        self._names: dict[str, Reading] = {}
        self._shorter: dict[str, Reading] = {}
        for key, reading in readings.items():
            if not isinstance(key, str):
                self._types[key] = reading
                continue
            package, _, name = key.rpartition(".")
            if not package:
                raise ValueError(f"{key!r} names no class; write it with its package, as in 'httpx.ConnectTimeout'")
            self._names[key] = reading
            for parent in _with_parents(package):
                self._shorter.setdefault(f"{parent}.{name}", reading)

    def readings(self, kind: type) -> Iterator[Reading]:
        """All that is known of this class and its bases, nearest first."""
        for base in kind.__mro__:
            reading = self._types.get(base)
            if reading is None:
                reading = self._named(base)
            if reading is not None:
                yield reading

    def knows(self, kind: type) -> bool:
        """Whether anything is known of this class or a base of it."""
        return next(self.readings(kind), None) is not None

    def _named(self, kind: type) -> Reading | None:
        # A package may define a class deeper, or higher, than where it offers it: both sides look upwards.
        for package in _with_parents(kind.__module__):
            reading = self._names.get(f"{package}.{kind.__qualname__}")
            if reading is not None:
                return reading
        return self._shorter.get(f"{kind.__module__}.{kind.__qualname__}")


def _with_parents(package: str) -> Iterator[str]:
    while package:
        yield package
        package = package.rpartition(".")[0]


def _carriers(statuses: StatusTable, upstream: Catalog | None) -> _Table:
    """The readings of errors that carry an HTTP status."""

    def read(error: BaseException) -> Fault | Failure | None:
        from holdfast.catalog.answered import read_status  # loaded by the first such error

        return read_status(error, statuses, upstream)

    return _Table(dict.fromkeys(STATUS_CARRIERS, read))


_KNOWN = _Table({**NETWORK_READINGS, **DATABASE_READINGS})
_ON_LINK = _Table(REPLY_READINGS)

DEFAULT_CLASSIFIER = Classifier()
"""Knows what Holdfast knows, and nothing more."""
LINK_CLASSIFIER = DEFAULT_CLASSIFIER.on_link(None)
"""The same on a link."""
