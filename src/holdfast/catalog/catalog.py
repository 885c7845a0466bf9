"""A catalog: a system's faults. Codes are a contract: never reused, never silently changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import fields, replace
from typing import Any

from holdfast.base.arguments import ArgumentInvalid, instance, is_a, shown, suggestion
from holdfast.catalog.fault import Blame, Fault, FaultInvalid, RetryRule, Severity, announce, blame_of

FAILED_FROM = 400
_FIELDS = frozenset(part.name for part in fields(Fault))
_FIXED = ("code", "status", "catalog", "overlay")


class CodeTaken(FaultInvalid):
    """A code was declared a second time with another meaning."""


class CodeUnknown(KeyError):
    """A catalog was asked for a code that it has not."""

    def __str__(self) -> str:
        return str(self.args[0])  # a KeyError would show it in quotes


class Catalog:
    """The faults of one system, and of the catalogs it extends.

    ```python
    errors = Catalog("shop", docs="https://docs.example.com/errors/")
    BANK_SILENT = errors.fault("BANK_SILENT", status=503, retry=True, says="The bank did not answer in time.")
    ```
    """

    def __init__(self, name: str, *, docs: str = "", extends: tuple[Catalog, ...] = ()) -> None:
        """
        Args:
            name: of the system, in messages and exports.
            docs: where the pages of its codes are; error bodies point there.
            extends: catalogs whose faults are taken over, usually `(CORE,)`: only needed to look them up here, to
                refine their words, or to change their rules by a policy file.
        """
        instance("name", name, str, 'write Catalog("shop")')
        if is_a(extends, Catalog):
            raise ArgumentInvalid("extends: write a tuple, extends=(CORE,)")
        self.name = name
        self.docs = docs
        self._faults: dict[str, Fault] = {}
        self._overlay: dict[str, RetryRule | bool] = {}
        for parent in extends:
            for fault in parent:
                address = self._inherited_address(parent, fault)
                self._adopt(replace(fault, overlay=self._overlay, documentation_url=address, catalog=name))
        self._inherited = frozenset(self._faults)

    def fault(
        self,
        code: str,
        *,
        status: int,
        says: str,
        says_retrying: str = "",
        technical: str = "",
        retry: RetryRule | bool = False,
        blame: Blame | None = None,
        causes: tuple[str, ...] = (),
        remedy: str = "",
        examples: tuple[Mapping[str, Any], ...] = (),
        related: tuple[str, ...] = (),
        severity: Severity = Severity.NONE,
        documentation_url: str = "",
        replayed: bool | None = None,
        breaker: bool | None = None,
    ) -> Fault:
        """Declare a fault; the same declaration again is the same fault.

        Raises:
            FaultInvalid: the code, the status or the text cannot be right.
            CodeTaken: the code is declared already and means something else.
        """
        if not is_a(status, int):
            raise FaultInvalid(f"{code}: status: {shown(status)} is not a number; write status=409")
        if status < FAILED_FROM and blame is not Blame.NO_OP:
            raise FaultInvalid(
                f"{code}: {status} is the status of a success; write one from {FAILED_FROM} on, or blame=Blame.NO_OP "
                "where nothing failed"
            )
        return self._adopt(
            Fault(
                code=code,
                status=status,
                says=says,
                says_retrying=says_retrying,
                technical=technical,
                retry=retry,
                blame=blame_of(status) if blame is None else blame,
                causes=causes,
                remedy=remedy,
                examples=examples,
                related=related,
                severity=severity,
                documentation_url=documentation_url or self._address(code),
                replayed=replayed,
                breaker=breaker,
                overlay=self._overlay,
                catalog=self.name,
            )
        )

    def refine(self, code: str, /, **changes: Any) -> Fault:
        """An inherited fault in this system's own words; the code keeps its status.

        Raises:
            FaultInvalid: the code is not inherited, or the change would alter its status.
        """
        for name in changes.keys() - _FIELDS:
            raise FaultInvalid(f"{code}: a fault has no {name}; {suggestion(name, sorted(_FIELDS))}")
        if code not in self._inherited or not changes.keys().isdisjoint(_FIXED):
            raise FaultInvalid(f"{self.name}: {code} is not inherited, or the change alters one of {', '.join(_FIXED)}")
        if "says" in changes or changes.get("retry") is False:
            changes.setdefault("says_retrying", "")  # the inherited one belongs to the words that were replaced
        self._faults[code] = replace(self._faults[code], **changes)
        announce(self._faults[code])
        return self._faults[code]

    def overlay(self, rules: Mapping[str, RetryRule | bool]) -> None:
        """Let these rules win over the declared ones; all of them or, on an unknown code, none.

        Raises:
            KeyError: a rule names a code this catalog has not.
        """
        for code, rule in rules.items():
            self[code]
            if not isinstance(rule, bool) and not hasattr(rule, "allows"):
                raise FaultInvalid(f"{code}: {shown(rule)} is neither True, False nor a Retry(attempts=…)")
        self._overlay.update(rules)

    def _adopt(self, fault: Fault) -> Fault:
        known = self._faults.setdefault(fault.code, fault)
        if known != fault:
            parts = ", ".join(known.differences(fault))
            raise CodeTaken(f"{self.name}: {fault.code} is declared already with another meaning (differs in: {parts})")
        announce(known)
        return known

    def _inherited_address(self, parent: Catalog, fault: Fault) -> str:
        """An address of its own stays; one that the parent derived is derived anew where this catalog has docs."""
        known = self._faults.get(fault.code)
        if known is not None:
            return known.documentation_url  # two parents may document the same fault in two places
        derived = fault.documentation_url == parent._address(fault.code)
        return (self._address(fault.code) if derived else "") or fault.documentation_url

    def _address(self, code: str) -> str:
        return f"{self.docs.rstrip('/')}/{code}" if self.docs else ""

    def __getitem__(self, code: str) -> Fault:
        try:
            return self._faults[code]
        except KeyError:
            raise CodeUnknown(f"{self.name} has no {shown(code)}; {suggestion(code, self._faults)}") from None

    def get(self, code: str) -> Fault | None:
        """The fault of a code; None when this catalog has none."""
        return self._faults.get(code)

    def inherits(self, code: str) -> bool:
        """Whether the code was taken over from another catalog rather than declared here."""
        return code in self._inherited

    def __contains__(self, code: object) -> bool:
        return code in self._faults

    def __iter__(self) -> Iterator[Fault]:
        return iter(self._faults.values())

    def __len__(self) -> int:
        return len(self._faults)

    def __repr__(self) -> str:
        return f"<Catalog {self.name}: {len(self)} faults>"
