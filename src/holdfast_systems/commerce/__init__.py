"""Commerce: from a paid order to a metered agent run, never charging twice."""

__all__: list[str] = []
