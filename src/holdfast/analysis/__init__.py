"""Reasoning about policies before they run. So far: drawing them."""

from holdfast.analysis.diagrams import DECISION_ORDER, Step, breaker_states, decision_order, schedule

__all__ = ["DECISION_ORDER", "Step", "breaker_states", "decision_order", "schedule"]
