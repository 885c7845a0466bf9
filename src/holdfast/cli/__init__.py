"""The operator's hand: the `holdfast` command. It has no interface for Python programs."""

__all__: list[str] = []
