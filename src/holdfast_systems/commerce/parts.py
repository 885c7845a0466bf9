"""What a service is to the code that assembles it: the context it is given, and what it puts there.

Always true: a service reaches the others over HTTP, also where they stand in the same process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from holdfast.catalog import Catalog
from holdfast.http.asgi import Application
from holdfast.http.health import Check
from holdfast.http.system import Ground, nothing
from holdfast.worker import Handlers
from holdfast_systems.commerce.settings import PREFIX, SettingInvalid, Settings
from holdfast_systems.commerce.tokens import Tokens


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One service."""

    name: str
    app: Application
    handlers: Handlers | None = None
    checks: Mapping[str, Check] = field(default_factory=dict)
    standins: Mapping[str, Application] = field(default_factory=dict)
    says: Sequence[str] = ()
    start: Callable[[], None] = nothing
    """Called once before the first request; must not call this process over HTTP, which does not serve yet."""
    closing: Callable[[], None] = nothing
    """Called when the server is about to stop: requests that would stay open end now."""
    stop: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a service is given."""

    ground: Ground
    settings: Settings
    tokens: Tokens
    catalog: Catalog
    here: frozenset[str]
    """The parts of this process."""

    @property
    def root(self) -> str:
        """Where the site stands that this process serves."""
        return self.ground.address.removesuffix("/commerce")

    def address_of(self, part: str) -> str:
        """Where a service stands, without a slash at the end.

        Raises:
            SettingInvalid: it is in another process, and no setting says where.
        """
        name = f"{part.replace('-', '_')}_url"
        configured: str = getattr(self.settings, name)
        if configured:
            return configured.rstrip("/")
        if part in self.here:
            return f"{self.ground.address}/{part}"
        raise SettingInvalid(f"{PREFIX}{name.upper()}: set it to the address of the {part}, which is not served here")

    def known_address(self, part: str) -> str:
        """Where a service stands; empty where nobody has said."""
        try:
            return self.address_of(part)
        except SettingInvalid:
            return ""

    def standin(self, name: str) -> str:
        """Where an outside service is: as the setting says, or its stand-in; empty where there is neither."""
        configured: str = getattr(self.settings, f"{name}_url")
        if configured:
            return configured.rstrip("/")
        return f"{self.root}/standins/{name}" if self.ground.standins else ""
