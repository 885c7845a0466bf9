"""Holdfast inside web frameworks that have conventions of their own: Django."""

__all__: list[str] = []
