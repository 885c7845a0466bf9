"""Numbers every external call and commit of an invocation, and dies before or after one of them."""

from __future__ import annotations

from typing import Any

from .scene import Scene


class Died(BaseException):
    """The process is gone: nothing of the invocation goes on."""


class Recorder:
    """Stands before the ports of a scene. Each call has two boundaries: before it and after it."""

    PORTS = (
        ("runs", ("get", "patch", "create")),
        ("definitions", ("prompt", "schema")),
        ("artifacts", ("keep", "keep_chart", "find", "fetch", "chart_at")),
        ("model", ("generate",)),
    )

    def __init__(self, scene: Scene) -> None:
        self.names: list[str] = []
        self.die_at: int | None = None
        for port, verbs in self.PORTS:
            for verb in verbs:
                target = getattr(scene, port)
                setattr(target, verb, self._wrapped(f"{port}.{verb}", getattr(target, verb)))
        # Below the port too: a write is retried there, and each try is a call of its own.
        storage = scene.artifacts._artifacts
        storage.put = self._wrapped("storage.put", storage.put)

    def _wrapped(self, name: str, work: Any) -> Any:
        def call(*args: Any, **kwargs: Any) -> Any:
            self._boundary(f"before {name}")
            answer = work(*args, **kwargs)
            self._boundary(f"after {name}")
            return answer

        return call

    def _boundary(self, name: str) -> None:
        self.names.append(name)
        if self.die_at is not None and len(self.names) - 1 == self.die_at:
            raise Died(name)
