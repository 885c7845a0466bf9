"""Loopback stand-ins for the outside services that cannot be shipped."""

__all__: list[str] = []
