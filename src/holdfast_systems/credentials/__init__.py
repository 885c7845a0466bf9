"""Credentials: a platform that sends webhooks until they arrive, and an engine that takes each of them once."""

__all__: list[str] = []
