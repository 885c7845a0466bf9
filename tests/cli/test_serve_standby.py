"""`holdfast serve --no-worker` on a standby: a console that only shows."""

from __future__ import annotations

import signal
from pathlib import Path

from holdfast.store import Store
from holdfast.testing.postgres import PostgresServer
from holdfast.testing.processes import wait_until

from .serving import Running

WITHIN_S = 60.0


def test_a_standby_is_shown_and_serves_no_system(tmp_path: Path) -> None:
    with (
        PostgresServer.start(tmp_path / "primary", fsync=False) as primary,
        primary.standby(tmp_path / "standby", synchronous=False) as standby,
    ):
        leader = Store.open(primary.dsn())
        leader.migrate()
        leader.close()
        ((written,),) = primary.execute("SELECT pg_current_wal_lsn()")
        copied = f"SELECT pg_last_wal_replay_lsn() >= '{written}'"
        wait_until(lambda: standby.execute(copied) == [(True,)], within_s=WITHIN_S, what="the standby has it")
        url = f"{standby.dsn()}?target_session_attrs=any"
        with Running(tmp_path, "--no-worker", "--database", url) as served:
            assert served.ask("/health")[0].status == 200
            assert served.ask("/alpha")[0].status == 404
            code, _, complained = served.stop(signal.SIGTERM)
        assert (code, complained) == (0, "")
        assert "the database takes no writes" in "".join(served.lines)
