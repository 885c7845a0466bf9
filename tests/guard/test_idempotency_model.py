"""Idempotency keys agree with a small model, whatever order things happen in and however time jumps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import Bundle, RuleBasedStateMachine, invariant, multiple, rule, run_state_machine_as_test

from holdfast import Failure
from holdfast.base import new_id, now_us
from holdfast.guard.idempotency import Answer, InProgress, Keys, Mismatch, Replay, Started
from holdfast.store import Store
from holdfast.testing import VirtualTime, instant

LEASE_S = 10
EXPIRES_S = 40
SECOND_US = 1_000_000
KEYS = ("a", "b")
REQUESTS = ("one", "two")


@dataclass(slots=True)
class Expected:
    """What the table should say of a key."""

    request: str
    holder: Started | None
    lease_until_us: int
    expires_us: int
    first_us: int
    last_us: int
    answer: Answer | None = None

    @property
    def leased(self) -> bool:
        return self.answer is None and self.lease_until_us > now_us()

    @property
    def expired(self) -> bool:
        return self.expires_us <= now_us() and not self.leased


class KeysMachine(RuleBasedStateMachine):
    """Callers, holders and zombies; a crash is a holder that nobody uses any more."""

    holders = Bundle("holders")

    def __init__(self, store: Store, time: VirtualTime) -> None:
        super().__init__()
        self.keys = Keys(store, lease_s=LEASE_S, expires_s=EXPIRES_S)
        self.time = time
        self.tenant = new_id()
        self.model: dict[str, Expected] = {}

    @rule(target=holders, key=st.sampled_from(KEYS), request=st.sampled_from(REQUESTS))
    def begin(self, key: str, request: str) -> Any:
        begun = self.keys.begin(tenant=self.tenant, operation="make", key=key, request_hash=request)
        known = self.model.get(key)
        now = now_us()
        if known is not None and not known.expired:
            known.last_us = now
            if known.request != request:
                assert begun == Mismatch()
                return multiple()
            if known.answer is not None:
                assert begun == Replay(known.answer)
                return multiple()
            if known.leased:
                assert isinstance(begun, InProgress)
                assert 0 < begun.retry_after_s <= 1
                return multiple()
        assert isinstance(begun, Started)
        first_us = now if known is None or known.expired else known.first_us
        assert begun.first_seen_us == first_us
        until_us, expires_us = now + LEASE_S * SECOND_US, now + EXPIRES_S * SECOND_US
        self.model[key] = Expected(request, begun, until_us, expires_us, first_us, now)
        return begun

    @rule(holder=holders, body=st.binary(max_size=4), status=st.sampled_from((200, 422)))
    def finish(self, holder: Started, body: bytes, status: int) -> None:
        answer = Answer(status, body=body, resources={"id": body.hex()})
        known = self.model.get(holder.key)
        mine = known is not None and known.holder is holder
        if known is not None and mine and known.answer in (None, answer):
            self.keys.finish(holder, answer)
            if known.answer is None:
                known.answer, known.expires_us = answer, now_us() + EXPIRES_S * SECOND_US
            return
        assert self._refused(lambda: self.keys.finish(holder, answer))

    @rule(holder=holders)
    def renew(self, holder: Started) -> None:
        known = self.model.get(holder.key)
        if known is None or known.holder is not holder:
            assert self._refused(lambda: self.keys.renew(holder))
            return
        self.keys.renew(holder)
        if known.answer is None:
            known.lease_until_us = now_us() + LEASE_S * SECOND_US
            known.expires_us = max(known.expires_us, known.lease_until_us)

    @rule(holder=holders)
    def release(self, holder: Started) -> None:
        known = self.model.get(holder.key)
        mine = known is not None and known.holder is holder and known.answer is None
        assert self.keys.release(holder) is mine
        if known is not None and mine:
            known.holder, known.lease_until_us = None, now_us()

    @rule(seconds=st.sampled_from((1, LEASE_S - 1, LEASE_S, EXPIRES_S - 1, EXPIRES_S, 3 * EXPIRES_S)))
    def jump(self, seconds: int) -> None:
        self.time.advance(seconds)

    @rule()
    def prune(self) -> None:
        self.keys.prune(10_000)
        self.model = {key: known for key, known in self.model.items() if not known.expired}

    @invariant()
    def the_table_says_what_the_model_says(self) -> None:
        for key in KEYS:
            shown, known = self.keys.show(tenant=self.tenant, operation="make", key=key), self.model.get(key)
            assert (shown is None) is (known is None)
            if shown is None or known is None:
                continue
            assert shown["state"] == ("working" if known.answer is None else "done")
            assert shown["token"] == (0 if known.holder is None else known.holder.token)
            assert shown["lease_until_us"] == (known.lease_until_us if known.answer is None else None)
            assert (shown["first_seen_us"], shown["last_seen_us"]) == (known.first_us, known.last_us)
            assert (shown["request_hash"], shown["expires_us"]) == (known.request, known.expires_us)

    def _refused(self, act: Any) -> bool:
        try:
            act()
        except Failure as failure:
            return failure.code == "IDEMPOTENCY_LOST"
        return False


def test_keys_agree_with_the_model(virtual_store: Store) -> None:
    with instant() as time:
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            lambda: KeysMachine(virtual_store, time),
            settings=settings(
                max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
            ),
        )
