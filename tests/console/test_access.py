"""Access: nobody reads or does anything without it, and a form of another site does nothing."""

from __future__ import annotations

import pytest

from holdfast.base import Secret
from holdfast.console import console
from holdfast.http.sessions import COOKIE, SESSION_S
from holdfast.http.wrong_tokens import TRIES_MAX
from holdfast.operate.audit_log import AuditFilter, entries
from holdfast.store import Store
from holdfast.testing import instant
from holdfast.worker import Jobs, Queues

from .asking import ORIGIN, Asker, asker
from .standing import ROOT, TOKEN

PATHS = (
    "/", "/jobs", "/jobs/1", "/deliveries", "/dead", "/dead/revive", "/dead/progress/1", "/faults", "/faults/NOT_FOUND",
    "/breakers", "/limits", "/alerts", "/audit", "/live?of=/jobs", "/table/latency", "/nowhere",
)  # fmt: skip


@pytest.fixture
def store(tmp_path):
    """Who may come in does not depend on the engine."""
    opened = Store.open(f"sqlite:///{tmp_path / 'access.db'}")
    opened.migrate()
    yield opened
    opened.close()


@pytest.fixture
def outside(store: Store) -> Asker:
    return asker(store)


@pytest.mark.parametrize("path", PATHS)
def test_without_access_nothing_is_shown(outside: Asker, store: Store, path: str) -> None:
    Jobs(store).enqueue("secret-kind", queue="secret-queue")
    answer = outside.get(path)
    assert answer.status == 401
    assert "secret-" not in answer.text
    assert 'name="token"' in answer.text, "a person is asked for the token"


@pytest.mark.parametrize("path", ["/queues/pause", "/dead/discard", "/leave", "/breakers/recover"])
def test_without_access_nothing_is_done(outside: Asker, store: Store, path: str) -> None:
    assert outside.post(path, {"reason": "because"}).status == 401
    assert Queues(store).status() == []


def test_a_program_without_access_reads_a_problem(outside: Asker) -> None:
    answer = outside.get("/jobs", accept="application/json")
    assert (answer.status, answer.headers["www-authenticate"]) == (401, "Bearer")
    assert answer.headers["content-type"] == "application/problem+json"


def test_the_token_as_bearer_lets_in_and_acts_without_a_form_of_ours(outside: Asker, store: Store) -> None:
    bearer = {"authorization": f"Bearer {TOKEN}"}
    assert outside.get("/jobs", **bearer).status == 200
    assert outside.post("/queues/pause", {"name": "mail", "reason": "r"}, **bearer, origin="").status == 303
    assert Queues(store).status()[0].paused
    [row] = store.atomic(lambda tx: entries(tx, AuditFilter(kind="api")), write=False)
    assert (row.actor, row.actor_kind, row.address, row.verb) == ("operator", "api", "127.0.0.1", "pause")


@pytest.mark.parametrize("header", ["Bearer wrong", "Basic " + TOKEN, "Bearer", TOKEN])
def test_anything_else_in_the_header_does_not(outside: Asker, header: str) -> None:
    assert outside.get("/jobs", authorization=header).status == 401


def test_the_token_in_the_form_begins_a_session(outside: Asker) -> None:
    answer = outside.post("/enter", {"token": TOKEN})
    assert (answer.status, answer.headers["location"]) == (303, f"{ROOT}/")
    parts = answer.headers["set-cookie"].split("; ")
    assert {"HttpOnly", "SameSite=Strict", "Path=/", f"Max-Age={SESSION_S}"} <= set(parts)
    assert TOKEN not in answer.headers["set-cookie"]
    outside.cookie = answer.cookie
    assert outside.get("/jobs").status == 200


def test_behind_https_the_cookie_is_secure(store: Store) -> None:
    made = console(store, Secret(TOKEN), [], address="https://ops.example/console")
    answer = Asker(made).post("/enter", {"token": TOKEN}, origin="https://ops.example")
    assert "Secure" in answer.headers["set-cookie"]


def test_too_many_wrong_tokens_are_refused_by_address_and_the_right_one_is_let_in(outside: Asker) -> None:
    with instant() as time:
        for _ in range(TRIES_MAX):
            assert outside.post("/enter", {"token": "guess"}).status == 401
        answer = outside.post("/enter", {"token": "guess"})
        assert answer.status == 429
        assert int(answer.headers["retry-after"]) >= 1
        assert outside.get("/jobs", authorization="Bearer guess").status == 429, "it is the same count"
        assert outside.post("/enter", {"token": TOKEN}).status == 303, "guesses do not lock the operator out"
        outside.client = ("192.0.2.7", 5)
        assert outside.post("/enter", {"token": "guess"}).status == 401, "others have their own count"
        outside.client = ("127.0.0.1", 5)
        time.advance(61)
        assert outside.post("/enter", {"token": "guess"}).status == 401


def test_an_ipv6_network_is_one_address(outside: Asker) -> None:
    with instant():
        for number in range(TRIES_MAX):
            outside.client = (f"2001:db8:1:2::{number:x}", 5)
            assert outside.post("/enter", {"token": "guess"}).status == 401
        outside.client = ("2001:db8:1:2:ffff::1", 5)
        assert outside.post("/enter", {"token": "guess"}).status == 429
        outside.client = ("2001:db8:1:3::1", 5)
        assert outside.post("/enter", {"token": "guess"}).status == 401


def test_wrong_tokens_are_in_the_log_and_in_the_audit_and_cannot_fill_either(
    outside: Asker, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    outside.client = ("192.0.2.9", 5)
    for _ in range(TRIES_MAX + 30):
        outside.post("/enter", {"token": "my-secret-guess"})
    outside.console.close()
    rows = store.atomic(lambda tx: entries(tx, AuditFilter(verb="enter")), write=False)
    assert [(row.state, row.result, row.address) for row in rows] == [
        ("refused", "RATE_LIMIT_EXCEEDED", "192.0.2.9"),
        ("refused", "UNAUTHORIZED", "192.0.2.9"),
    ]
    lines = [one.getMessage() for one in caplog.records if one.name == "holdfast.http"]
    assert lines == [
        "a wrong operator's token came from 192.0.2.9",
        "too many wrong operator's tokens came from 192.0.2.9",
    ]
    assert "my-secret-guess" not in str(rows) + caplog.text


def test_a_session_ends(outside: Asker) -> None:
    with instant() as time:
        outside.enter()
        time.advance(SESSION_S - 1)
        assert outside.get("/jobs").status == 200
        time.advance(2)
        assert outside.get("/jobs").status == 401


CHANGES = (
    lambda cookie: cookie[:-1] + ("0" if cookie[-1] != "0" else "1"),
    lambda cookie: cookie + "0",
    lambda cookie: cookie.replace(".", "", 1),
    lambda cookie: f"{COOKIE}=",
    lambda cookie: cookie[:40],
)


@pytest.mark.parametrize("change", CHANGES)
def test_a_changed_cookie_is_no_cookie(outside: Asker, change) -> None:
    cookie = outside.enter().cookie
    assert outside.get("/jobs", cookie=cookie).status == 200
    assert outside.get("/jobs", cookie=change(cookie)).status == 401


def test_another_token_ends_all_sessions(outside: Asker, store: Store) -> None:
    cookie = outside.enter().cookie
    other = Asker(console(store, Secret("another"), [], address="http://ops.test/console"), cookie)
    assert other.get("/jobs").status == 401


def test_whoever_leaves_is_out_also_with_the_old_cookie(outside: Asker) -> None:
    outside.enter()
    answer = outside.post("/leave", {"csrf": outside.get("/").csrf})
    assert answer.status == 303
    assert "Max-Age=0" in answer.headers["set-cookie"]
    assert outside.get("/jobs").status == 401


def test_a_session_that_was_left_is_over_in_every_process_and_after_a_restart(outside: Asker, store: Store) -> None:
    outside.enter()
    kept = outside.cookie
    elsewhere = Asker(console(store, Secret(TOKEN), [], address="http://ops.test/console"), kept)
    assert elsewhere.get("/jobs").status == 200
    outside.post("/leave", {"csrf": outside.get("/").csrf})
    assert elsewhere.get("/jobs").status == 401


def test_the_link_works_once(outside: Asker) -> None:
    path = outside.console.link.partition(ROOT)[2]
    first = outside.get(path)
    assert first.status == 303
    assert outside.get("/jobs", cookie=first.cookie).status == 200
    again = outside.get(path)
    assert (again.status, again.cookie) == (401, "")


@pytest.mark.parametrize(
    ("client", "forwarded", "status"),
    [
        ("127.0.0.1", "", 303),
        ("::1", "", 303),
        ("::ffff:127.0.0.1", "", 303),
        ("192.0.2.7", "", 403),
        ("127.0.0.1", "192.0.2.7", 403),
        ("", "", 403),
    ],
)
def test_the_link_works_only_on_this_machine(outside: Asker, client: str, forwarded: str, status: int) -> None:
    outside.client = (client, 1)
    path = outside.console.link.partition(ROOT)[2]
    assert outside.get(path, x_forwarded_for=forwarded).status == status
    outside.client = ("127.0.0.1", 1)
    assert outside.get(path).status == (401 if status == 303 else 303), "a refusal does not use it up"


def test_a_console_shows_its_link_to_nobody_by_accident(outside: Asker) -> None:
    assert "enter" not in repr(outside.console)


def test_an_empty_token_is_refused(store: Store) -> None:
    with pytest.raises(ValueError, match="token"):
        console(store, Secret(""), [], address="http://127.0.0.1/console")


def test_the_header_of_a_proxy_counts_only_where_it_is_configured(store: Store, outside: Asker) -> None:
    assert outside.get("/jobs", x_user="ann").status == 401
    trusting = asker(store, trusted_proxy_header="X-User")
    assert trusting.get("/jobs", x_user="ann").status == 200
    assert trusting.get("/jobs", x_user="").status == 401
    csrf = trusting.get("/", x_user="ann").csrf
    assert trusting.post("/queues/pause", {"name": "mail", "reason": "r", "csrf": csrf}, x_user="ben").status == 403
    assert trusting.post("/queues/pause", {"name": "mail", "reason": "r", "csrf": csrf}, x_user="ann").status == 303
    assert "ann" in trusting.get("/audit", x_user="ann").text


@pytest.mark.parametrize(
    ("csrf", "origin", "status"),
    [
        (None, ORIGIN, 303),
        ("", ORIGIN, 403),
        ("0" * 64, ORIGIN, 403),
        (None, "http://evil.test", 403),
        (None, "null", 403),
        (None, "", 403),
    ],
)
def test_a_form_needs_the_word_of_its_session_and_our_origin(
    outside: Asker, store: Store, csrf: str | None, origin: str, status: int
) -> None:
    outside.enter()
    form = {"reason": "r", "csrf": outside.get("/").csrf if csrf is None else csrf}
    assert outside.post("/queues/pause", {"name": "mail", **form}, origin=origin).status == status
    assert bool(Queues(store).status()) is (status == 303)


def test_a_session_cannot_use_the_word_of_another(store: Store, outside: Asker) -> None:
    csrf = outside.enter().get("/").csrf
    other = Asker(outside.console).enter()
    assert other.post("/queues/pause", {"name": "mail", "reason": "r", "csrf": csrf}).status == 403


def test_the_token_is_not_taken_from_another_site(outside: Asker) -> None:
    assert outside.post("/enter", {"token": TOKEN}, origin="http://evil.test").status == 403


@pytest.mark.parametrize("path", ["/", "/jobs", "/nowhere", "/static/console.css", "/static/console.js"])
def test_every_reply_is_guarded(outside: Asker, path: str) -> None:
    outside.enter()
    headers = outside.get(path).headers
    policy = headers["content-security-policy"]
    assert "script-src 'self'" in policy
    assert "style-src 'self'" in policy
    assert "unsafe" not in policy
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["x-frame-options"] == "DENY"


@pytest.mark.parametrize("path", ["/", "/jobs", "/dead", "/faults/NETWORK_TIMEOUT", "/alerts", "/limits"])
def test_no_page_holds_script_or_style(outside: Asker, path: str) -> None:
    text = outside.enter().get(path).text
    assert "<style" not in text
    assert " style=" not in text
    assert " onclick=" not in text
    assert text.count("<script") == 1
    assert f'<script src="{ROOT}/static/console.js" defer=""></script>' in text
