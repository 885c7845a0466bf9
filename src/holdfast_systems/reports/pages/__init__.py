"""The page of runs, and the session with which it is used."""

from holdfast_systems.reports.pages.app import Pages
from holdfast_systems.reports.pages.session import Session

__all__ = ["Pages", "Session"]
