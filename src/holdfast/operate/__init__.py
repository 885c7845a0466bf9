"""The operator's verbs, each once: who does it, why, the change, and the audit row in the same transaction.

The commands, the console and the systems' admin routes only read what they are given and call a function here:

```python
from holdfast.operate import Actor, ActorKind, dead_letters

ann = Actor(ActorKind.API, "ann", address="10.0.0.7")
dead_letters.revive(store, job_id, actor=ann, reason="the provider is back")
```

A verb that only one system has is carried out by the same rule:

```python
carry_out(store, "set", f"quota:{account}", lambda tx: tx.run("quota.set", account=account), actor=ann)
```
"""

from holdfast.operate.actor import Actor, ActorKind, actor_of
from holdfast.operate.audit import Action, Audited, Outcome, carry_out, new_action
from holdfast.operate.faults import OPERATE

__all__ = [
    "OPERATE",
    "Action",
    "Actor",
    "ActorKind",
    "Audited",
    "Outcome",
    "actor_of",
    "carry_out",
    "new_action",
]
