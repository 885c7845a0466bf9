"""The settings of an edge, checked when it is made: a wrong one is refused there, not at the first request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from holdfast.base.arguments import ArgumentInvalid, instance, refused, suggestion
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.classify import Classifier
from holdfast.catalog.fault import Fault
from holdfast.http.access import AccessRule
from holdfast.http.body import BodyRule
from holdfast.http.faults import EDGE_FAULTS
from holdfast.http.health import Health
from holdfast.http.idempotent import Idempotency
from holdfast.http.limits import RateLimits

_KINDS: dict[str, tuple[type, str]] = {
    "classifier": (Classifier, "give a Classifier(…)"),
    "limits": (RateLimits, "write RateLimits(RateRule(name=…, rate=RateLimit.per_minute(60), by=by_client))"),
    "access": (AccessRule, "write Access(ApiKeys(store))"),
    "idempotency": (Idempotency, "write Idempotency(keys=Keys(store), …)"),
    "health": (Health, "write Health(checks={…})"),
}


def check_settings(given: Mapping[str, Any]) -> None:
    """Refuse what an edge cannot work with.

    Raises:
        ArgumentInvalid: names the setting and the remedy.
    """
    if not callable(given["app"]):
        raise refused("app", given["app"], "give the ASGI application itself")
    instance("catalog", given["catalog"], Catalog, 'give a catalog: errors = Catalog("shop", extends=(CORE,))')
    for name, (kind, remedy) in _KINDS.items():
        if given[name] is not None:
            instance(name, given[name], kind, remedy)
    body = given["body"]
    if body is not None and not isinstance(body, BodyRule) and not callable(body):
        raise refused("body", body, "write BodyRule(bytes_max=…), a function of the scope that chooses one, or None")
    if given["on_failure"] is not None and not callable(given["on_failure"]):
        raise refused("on_failure", given["on_failure"], "give a function that takes the Failure")
    check_remap(given["remap"], given["catalog"])
    idempotency = given["idempotency"]
    if idempotency is not None and idempotency.access is not None and idempotency.access is not given["access"]:
        raise refused(
            "access",
            given["access"],
            "idempotency knows callers by its access=; give the same Access to the edge as access=",
        )


def check_remap(remap: Any, catalog: Catalog) -> None:
    """Refuse a remap of codes that nothing here is answered with, or to something that is not a fault.

    Raises:
        ArgumentInvalid: names the code and the nearest one.
    """
    if remap is None:
        return
    instance("remap", remap, Mapping, 'write {"VALIDATION_ERROR": INVALID_PAYLOAD}')
    for code, fault in remap.items():
        if code not in EDGE_FAULTS and code not in catalog:
            known = [known.code for known in (*EDGE_FAULTS, *catalog)]
            raise ArgumentInvalid(f"remap: nothing here is answered with {code!r}; {suggestion(code, known)}")
        instance(f"remap[{code!r}]", fault, Fault, "give the fault that stands for it, not its code")
