"""The connectors: tools of agents, called with their secrets and under their limits."""

__all__: list[str] = []
