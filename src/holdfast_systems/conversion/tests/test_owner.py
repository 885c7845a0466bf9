"""Each sees only their own; the cookie says whose a request is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest
from starlette.applications import Starlette
from starlette.routing import Mount

from holdfast.store import Store
from holdfast_systems.conversion import build

from .system import Running, client, ground, pdf, running, served


@pytest.fixture(scope="module")
def here(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One for all: everybody here is somebody new."""
    folder = tmp_path_factory.mktemp("owner")
    store = Store.open(f"sqlite:///{folder / 'holdfast.db'}")
    store.migrate()
    with running(store, folder / "conversion", GATEWAY="http://127.0.0.1:9") as found:
        yield found
    store.close()


ACTS: dict[str, Callable[[httpx.Client, str], httpx.Response]] = {
    "show": lambda http, job_id: http.get(f"/api/jobs/{job_id}"),
    "download": lambda http, job_id: http.get(f"/api/jobs/{job_id}/download"),
    "retry": lambda http, job_id: http.post(f"/api/jobs/{job_id}/retry"),
    "delete": lambda http, job_id: http.delete(f"/api/jobs/{job_id}"),
}


@pytest.mark.parametrize("act", ["download", "retry"])
def test_what_belongs_to_another_is_forbidden(here: Running, act: str) -> None:
    job_id = here.person().uploaded()
    reply = ACTS[act](here.person().http, job_id)
    assert (reply.status_code, reply.json()["error"]["code"]) == (403, "FORBIDDEN")
    assert reply.json()["error"]["message"] == "This file isn’t yours."


@pytest.mark.parametrize("act", ["show", "delete"])
def test_what_belongs_to_another_is_not_there_for_those_who_only_look(here: Running, act: str) -> None:
    job_id = here.person().uploaded()
    reply = ACTS[act](here.person().http, job_id)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize("act", ACTS)
@pytest.mark.parametrize("job_id", ["nothing", "0" * 36, "x" * 3_000, "%00", "%F0%9F%92%A9"])
def test_what_does_not_exist_is_not_found(here: Running, act: str, job_id: str) -> None:
    reply = ACTS[act](here.person().http, job_id)
    assert (reply.status_code, reply.json()["error"]["code"]) == (404, "NOT_FOUND")


def test_a_list_shows_ones_own_only(here: Running) -> None:
    one, other = here.person(), here.person()
    job_id = one.uploaded()
    assert [job["id"] for job in one.listing()["jobs"]] == [job_id]
    assert other.listing()["jobs"] == []


def test_a_cookie_that_was_changed_is_a_stranger(here: Running) -> None:
    me = here.person()
    job_id = me.uploaded()
    [cookie] = [value for name, value in me.http.cookies.items() if name == "holdfast_conversion"]
    forged = cookie[:-4] + ("0000" if not cookie.endswith("0000") else "1111")
    with client(here.address, cookies={"holdfast_conversion": forged}) as stranger:
        reply = stranger.get(f"/api/jobs/{job_id}/download")
    assert reply.status_code == 403
    assert "holdfast_conversion" in reply.headers["set-cookie"]


def test_the_cookie_is_for_the_server_alone_and_not_sent_from_other_sites(here: Running) -> None:
    cookie = here.stack.enter_context(client(here.address)).get("/").headers["set-cookie"]
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in cookie.split(";")}
    assert "Secure" not in cookie


def test_a_first_upload_without_a_cookie_gives_one_even_when_it_is_refused(here: Running) -> None:
    with client(here.address) as stranger:
        assert stranger.post("/api/upload", files={"file": ("a.pdf", b"no pdf")}).status_code == 400
        assert [job["error_code"] for job in stranger.get("/api/jobs").json()["jobs"]] == ["NOT_PDF"]


def test_a_long_list_comes_in_pages(here: Running) -> None:
    me = here.person()
    ids = [me.uploaded(pdf(str(number))) for number in range(5)][::-1]
    first = me.http.get("/api/jobs?count=3").json()
    rest = me.http.get(f"/api/jobs?count=3&before={first['next']}").json()
    assert [job["id"] for job in [*first["jobs"], *rest["jobs"]]] == ids
    assert rest["next"] is None


@pytest.mark.parametrize("query", ["count=0", "count=101", "count=x", "before=x", "before=%00"])
def test_a_page_that_cannot_be_meant_is_a_clear_400(here: Running, query: str) -> None:
    reply = here.person().http.get(f"/api/jobs?{query}")
    assert (reply.status_code, reply.json()["error"]["code"]) == (400, "VALIDATION_ERROR")


@pytest.mark.parametrize("mount", [True, False], ids=["path kept", "path cut"])
def test_it_stands_under_a_path_of_its_own(sqlite_store: Store, tmp_path: Path, mount: bool) -> None:
    address = "https://example.com/conversion"
    (tmp_path / "conversion").mkdir()
    system = build(ground(sqlite_store, tmp_path / "conversion", address, {"GATEWAY": "http://127.0.0.1:9"}))
    app = system.parts[""]

    async def cut(scope, receive, send):
        await app({**scope, "path": scope["path"].removeprefix("/conversion")}, receive, send)

    with served(Starlette(routes=[Mount("/conversion", app)]) if mount else cut) as reached, client(reached) as http:
        page = http.get("/conversion/")
        assert 'src="/conversion/page.js"' in page.text
        assert 'data-root="/conversion"' in page.text
        assert "Path=/conversion; " in page.headers["set-cookie"]
        assert "Secure" in page.headers["set-cookie"]
        assert http.get("/conversion/page.js").status_code == 200
        assert http.get("/conversion/api/jobs").json()["jobs"] == []
        sent = http.post("/conversion/api/upload", files={"file": ("a.pdf", pdf())})
        assert sent.status_code == 201
        assert http.get("/conversion", follow_redirects=True).status_code == 200
    system.stop()


def test_pages_allow_no_script_but_our_own(here: Running) -> None:
    page = here.person().http.get("/")
    policy = page.headers["content-security-policy"]
    assert "default-src 'none'" in policy
    assert "script-src 'self'" in policy
    assert "unsafe" not in policy
    assert " style=" not in page.text
    assert " on" not in "".join(part for part in page.text.split("<") if "=" in part and part.startswith("button"))


FOREIGN = [
    {"Origin": "https://evil.example"},
    {"Origin": "null"},
    {"Origin": "http://127.0.0.1:1"},
    {"Sec-Fetch-Site": "cross-site"},
    {"Sec-Fetch-Site": "same-site"},
]


@pytest.mark.parametrize("headers", FOREIGN, ids=str)
def test_a_page_of_another_site_changes_nothing(here: Running, headers: dict[str, str]) -> None:
    me = here.person()
    job_id = me.uploaded()
    replies = [
        me.http.post("/api/upload", files={"file": ("b.pdf", pdf("other"))}, headers=headers),
        me.http.post(f"/api/jobs/{job_id}/retry", headers=headers),
        me.http.delete(f"/api/jobs/{job_id}", headers=headers),
    ]
    assert {(reply.status_code, reply.json()["error"]["message"]) for reply in replies} == {
        (403, "The request came from another site.")
    }
    assert [job["id"] for job in me.listing()["jobs"]] == [job_id]


def test_our_own_page_may(here: Running) -> None:
    me = here.person()
    own = {"Origin": here.address, "Sec-Fetch-Site": "same-origin"}
    assert me.http.post("/api/upload", files={"file": ("b.pdf", pdf())}, headers=own).status_code == 201
