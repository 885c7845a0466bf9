"""The engine's pages: who has earned what, for people."""

from holdfast_systems.credentials.pages.app import EnginePages, is_page

__all__ = ["EnginePages", "is_page"]
