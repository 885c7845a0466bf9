"""Ten thousand requests that are almost genuine: none is accepted, and none breaks the engine."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from holdfast.base import Secret
from holdfast.store import Store
from holdfast_systems.credentials.engine import Engine
from holdfast_systems.credentials.main import build
from holdfast_systems.credentials.settings import PLATFORM, Settings

from .dice import Dice
from .live import SECRET, created, evidence, ground, settings_file, signature, vouch

COUNT = 10_000
WHOLE_WAY = 20
"""One in so many goes through all of HTTP too: what the engine says is what is answered."""
SIGNED = 500
PATH = "/v1/platforms/gotong_royong/webhook"


def mutated(dice: Dice, body: bytes, header: bytes) -> tuple[bytes, bytes]:
    """Change the body, the signature, or both, and nothing else."""
    target = dice.choice(("body", "header", "both"))
    return (
        _changed(dice, body) if target != "header" else body,
        _changed(dice, header) if target != "body" else header,
    )


def _changed(dice: Dice, text: bytes) -> bytes:
    while True:
        made = _mutation(dice, text, dice.randrange(len(text)))
        if made != text:
            return made


def _mutation(dice: Dice, text: bytes, place: int) -> bytes:
    match dice.randrange(7):
        case 0:
            return text[:place] + bytes([text[place] ^ 1 << dice.randrange(8)]) + text[place + 1 :]
        case 1:
            return text[:place] + text[place + 1 :]
        case 2:
            return text[:place] + bytes([dice.randrange(256)]) + text[place:]
        case 3:
            return text[:place]
        case 4:
            return text + text[place:]
        case 5:
            return dice.randbytes(1 + dice.randrange(199))
        case _:
            return text[place:] + text[:place]


async def status_of(app, body: bytes, header: bytes) -> tuple[int, str]:
    said = []
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": PATH, "raw_path": PATH.encode(), "root_path": "", "query_string": b"", "client": ("127.0.0.1", 1),
        "server": ("127.0.0.1", 1), "headers": [(b"content-length", b"%d" % len(body)), (b"x-gr-signature", header)],
    }  # fmt: skip

    async def receive():
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message) -> None:
        said.append(message)

    await app(scope, receive, send)
    return said[0]["status"], json.loads(said[1]["body"]).get("code", "")


VALUES = (None, True, 0, -1.5, 10**30, "", "x", "\0", "\u00e9" * 300, [], [1], {}, {"a": {}}, "por_evidence", "evt_1")


def _rewritten(dice: Dice, value: object) -> object:
    """The value with something in it replaced, left out or put in."""
    if isinstance(value, dict) and value and dice.random() < 0.8:
        name = dice.choice(list(value))
        if dice.random() < 0.2:
            return {key: one for key, one in value.items() if key != name}
        return {**value, name: _rewritten(dice, value[name])}
    return dice.choice(VALUES)


@pytest.mark.parametrize("engine", ["sqlite", "postgresql"])
def test_whatever_a_platform_signs_is_taken_or_refused_and_never_breaks_the_engine(
    engine: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    url = f"sqlite:///{tmp_path / 'signed.db'}" if engine == "sqlite" else request.getfixturevalue("emptied_dsn")
    store = Store.open(url)
    store.migrate()
    unlimited = settings_file(tmp_path, "[platforms.gotong_royong]\nlimit = 1_000_000\n")
    environment = {"HOLDFAST_CREDENTIALS_PARTS": "engine", **unlimited}
    app = build(ground(store, tmp_path, "http://127.0.0.1:9", environment)).parts["engine"]
    dice = Dice(7)
    genuine = [created("evt_1", "c1"), evidence("evt_2", "c1"), vouch("evt_3", "bob", "light")]

    async def all_of_them() -> Counter[int]:
        told: Counter[int] = Counter()
        for number in range(SIGNED):
            document = _rewritten(dice, {**dice.choice(genuine), "event_id": f"evt_{number}"})
            body = json.dumps(document).encode()
            status, _ = await status_of(app, body, signature(body)["X-GR-Signature"].encode())
            told[status] += 1
        return told

    told = asyncio.run(all_of_them())
    store.close()
    assert set(told) <= {200, 202, 400}
    assert told[400] > SIGNED / 2


def test_no_mutation_of_signature_or_body_is_accepted_or_answered_with_500(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'mutations.db'}")
    store.migrate()
    app = build(ground(store, tmp_path, "http://127.0.0.1:9", {"HOLDFAST_CREDENTIALS_PARTS": "engine"})).parts["engine"]
    engine = Engine(store, Settings(), {PLATFORM: [Secret(SECRET)]})
    dice = Dice(7)
    body = json.dumps(created("evt_genuine")).encode()
    header = signature(body)["X-GR-Signature"].encode()

    async def answered(changed_body: bytes, changed_header: bytes) -> tuple[int, str]:
        answer = await engine.receive(PLATFORM, [(b"x-gr-signature", changed_header)], changed_body)
        return answer.status, json.loads(answer.body).get("code", "")

    async def all_of_them() -> Counter[tuple[int, str]]:
        told: Counter[tuple[int, str]] = Counter()
        for number in range(COUNT):
            changed_body, changed_header = mutated(dice, body, header)
            # Capitals and blanks around it are the same signature.
            if changed_body == body and changed_header.strip(b" \t").lower() == header:
                continue
            said = await answered(changed_body, changed_header)
            if number % WHOLE_WAY == 0:
                assert await status_of(app, changed_body, changed_header) == said
            told[said] += 1
        told[await status_of(app, body, header)] += 1  # the genuine one still is
        return told

    told = asyncio.run(all_of_them())
    store.close()
    assert told.pop((200, "")) == 1
    assert set(told) == {(401, "UNAUTHORIZED"), (401, "INVALID_SIGNATURE_FORMAT")}
    assert sum(told.values()) > COUNT * 0.99
