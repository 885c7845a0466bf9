"""The edge: what Holdfast says over HTTP."""

from holdfast.http.site import site

__all__ = ["site"]
