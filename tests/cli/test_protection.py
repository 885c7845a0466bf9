"""What a server does and says to keep others out: where it listens, its files, its token, its stored secrets."""

from __future__ import annotations

import os
import re
import signal
import stat
from pathlib import Path

import pytest

from holdfast.catalog import Failure
from holdfast.cli.state import operators_token
from holdfast.delivery import Deliveries
from holdfast.store import Store
from holdfast.worker import Jobs

from .serving import Running, run

KEY = "a key of more than thirty-two characters"


def warnings(served: Running) -> list[str]:
    return [line for line in served.lines if line.startswith("Warning: ")]


def test_on_loopback_metrics_and_stand_ins_are_open_and_nothing_is_warned_of_but_plain_secrets(tmp_path: Path) -> None:
    with Running(tmp_path) as served:
        assert served.ask("/metrics")[0].status == 200
        assert any("/standins/" in line for line in served.lines)
        assert warnings(served) == ["Warning: HOLDFAST_SECRET_KEY is not set: webhook secrets are stored as they are"]


def test_elsewhere_it_warns_says_where_it_listens_and_keeps_metrics_and_stand_ins_closed(tmp_path: Path) -> None:
    with Running(tmp_path, HOLDFAST_HOST="0.0.0.0", HOLDFAST_SECRET_KEY=KEY) as served:
        (warning,) = warnings(served)
        assert f"it listens on 0.0.0.0:{served.port} (every address of this machine)" in warning
        assert "not encrypted" in warning
        assert served.ask("/metrics")[0].status == 401
        assert not any("/standins/" in line for line in served.lines)


def test_what_is_asked_for_is_open_elsewhere_too(tmp_path: Path) -> None:
    with Running(tmp_path, "--host", "0.0.0.0", "--public-metrics", "--standins") as served:
        assert served.ask("/metrics")[0].status == 200
        assert any("/standins/" in line for line in served.lines)


def test_behind_a_proxy_metrics_are_closed_unless_asked_for(tmp_path: Path) -> None:
    with Running(tmp_path, HOLDFAST_ADDRESS="http://127.0.0.1:1/ops") as served:
        assert not any("/standins/" in line for line in served.lines)
        # The printed address is the proxy's; the port is in the file system of the kernel alone.
        assert "it listens" not in "".join(warnings(served))


def test_the_token_is_printed_only_when_it_was_made(tmp_path: Path) -> None:
    told: list[str] = []
    for _ in range(2):
        with Running(tmp_path, "beta") as served:
            told.append("\n".join(served.lines))
            served.stop(signal.SIGTERM)
    token = (tmp_path / "holdfast-data" / "operator-token").read_text().strip()
    assert [token in one for one in told] == [True, False]


@pytest.mark.parametrize("token", ["short", "x" * 15])
def test_a_short_token_is_refused_at_start(tmp_path: Path, token: str) -> None:
    ended = run(tmp_path, "serve", "beta", "--port", "0", HOLDFAST_TOKEN=token)
    assert ended.returncode != 0
    assert "TOKEN_TOO_SHORT" in ended.stderr
    assert token not in ended.stderr.replace("too_short", "")
    with pytest.raises(Failure, match="TOKEN_TOO_SHORT"):
        operators_token(tmp_path, {"HOLDFAST_TOKEN": token})


def test_everything_in_the_data_folder_is_for_its_owner_alone(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        with Running(tmp_path, "alpha") as served:
            paths = [served.folder / "holdfast-data", *(served.folder / "holdfast-data").rglob("*")]
            modes = {
                path.name: stat.S_IMODE(path.stat().st_mode)
                for path in paths
                if path.name != "life.txt"  # the test's own
            }
    finally:
        os.umask(before)
    assert {"holdfast-data", "holdfast.db", "holdfast.db-wal", "operator-token", "alpha"} <= set(modes)
    assert {name: mode for name, mode in modes.items() if mode & 0o077} == {}


def test_a_data_folder_that_others_can_open_is_told(tmp_path: Path) -> None:
    (tmp_path / "holdfast-data").mkdir(mode=0o755)
    with Running(tmp_path, "beta", HOLDFAST_SECRET_KEY=KEY) as served:
        assert warnings(served) == ["Warning: other users of this machine may open holdfast-data; chmod 700 closes it"]


def test_with_a_key_the_start_encrypts_what_was_stored_before(tmp_path: Path) -> None:
    store = Store.open(f"sqlite:///{tmp_path / 'holdfast-data' / 'holdfast.db'}")
    store.migrate()
    secret = Deliveries(store, Jobs(store)).endpoints.add("https://shop.example/").secrets[0].secret.reveal()
    with Running(tmp_path, "beta", HOLDFAST_SECRET_KEY=KEY) as served:
        assert warnings(served) == []
    with store.database.transaction(write=False) as execute:
        assert secret not in str(execute("SELECT * FROM holdfast_webhook_secret", {}).fetchall())
    ended = run(tmp_path, "serve", "beta", "--port", "0")
    assert ended.returncode != 0
    assert "SECRET_UNREADABLE" in ended.stderr
    store.close()


def test_a_key_that_is_too_short_is_refused_at_start(tmp_path: Path) -> None:
    ended = run(tmp_path, "serve", "beta", "--port", "0", HOLDFAST_SECRET_KEY="short")
    assert ended.returncode != 0
    assert re.search(r"SECRET_KEY_INVALID.*32 characters", ended.stderr)
