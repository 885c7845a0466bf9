"""The provisioner: takes paid orders from the shop and has the control plane provision each line."""

__all__: list[str] = []
