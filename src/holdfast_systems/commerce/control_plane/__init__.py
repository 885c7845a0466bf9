"""The control plane: plans, instances, wallets and the ledger."""

__all__: list[str] = []
