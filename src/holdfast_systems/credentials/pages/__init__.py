"""The pages of both halves: who has earned what, and what was sent where."""

from holdfast_systems.credentials.pages.engine import EnginePages, is_page
from holdfast_systems.credentials.pages.platform import PlatformPages
from holdfast_systems.credentials.pages.platform import is_page as is_platform_page

__all__ = ["EnginePages", "PlatformPages", "is_page", "is_platform_page"]
