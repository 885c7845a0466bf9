"""Assembly: the system brings its own gateway along, watches it, and takes it away again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.base import bus
from holdfast.catalog import Failure
from holdfast.http.health import Check
from holdfast.store import Store
from holdfast.testing.processes import wait_until
from holdfast.watch import Exposition, start
from holdfast_systems.conversion import build
from holdfast_systems.conversion.place import Place
from holdfast_systems.conversion.settings import SettingInvalid

from .system import PATIENCE_S, Running, client, ground, pdf, running, served


def is_good(check: Check) -> bool:
    try:
        return check.probe() is True
    except Failure:
        return False  # it took longer than a check may, on a busy machine


def test_without_an_address_it_starts_a_gateway_of_its_own_and_stops_it(sqlite_store: Store, tmp_path: Path) -> None:
    with running(sqlite_store, tmp_path / "conversion") as here:
        me = here.person()
        with here.working():
            assert me.settled(me.uploaded())["status"] == "complete"
        check = here.system.checks["gateway"]
        wait_until(lambda: is_good(check), within_s=PATIENCE_S, what="the gateway says that it is well")
        with served(here.system.standins["conversion-gateway"]) as address, client(address) as door:
            assert door.put("/faults", json={"status": 415}).status_code < 300
            with here.working():
                assert me.settled(me.uploaded(pdf("other")))["error_code"] == "GW_4XX"
            assert door.delete("/faults").status_code < 300
    with pytest.raises(Exception, match=r"closed|CONNECTION"):
        check.probe()


def test_two_processes_of_one_machine_do_not_share_a_gateways_folder(tmp_path: Path) -> None:
    places = [Place("", tmp_path / "gateway", bytes_max=1_000, switchable=False) for _ in range(2)]
    try:
        addresses = {place.address() for place in places}
    finally:
        for place in places:
            place.stop()
    assert len(addresses) == 2
    assert sorted(path.name for path in (tmp_path / "gateway").iterdir()) == ["1", "2"]


def test_with_an_address_nothing_is_started(sqlite_store: Store, tmp_path: Path) -> None:
    with running(sqlite_store, tmp_path / "conversion", GATEWAY="http://127.0.0.1:9/") as here:
        assert here.system.standins == {}
        assert not (here.folder / "gateway").exists()


def test_a_setting_that_cannot_be_meant_stops_the_start(sqlite_store: Store, tmp_path: Path) -> None:
    with pytest.raises(SettingInvalid, match="RETRY_MAX_ATTEMPTS"):
        build(ground(sqlite_store, tmp_path, "http://localhost", {"RETRY_MAX_ATTEMPTS": "none"}))


def test_names_of_queues_and_kinds_begin_with_the_systems_own(sqlite_store: Store, tmp_path: Path) -> None:
    system = build(ground(sqlite_store, tmp_path, "http://localhost", {"GATEWAY": "http://127.0.0.1:9"}))
    assert system.handlers is not None
    assert {queue.name for queue in system.handlers.queues} == {"conversion", "conversion.upkeep"}
    assert all(one.kind.startswith("conversion.") for one in system.handlers.schedules)
    system.stop()


def test_the_four_metrics_are_counted(solo: Callable[..., Running], faults: Callable[..., None]) -> None:
    here = solo(RETRY_MAX_ATTEMPTS="1")
    me = here.person()
    watching = start(here.store)
    try:
        with here.working():
            faults(status=500)
            failed = me.settled(me.uploaded())
            faults()
            me.retry(failed["id"])
            me.settled(failed["id"])
            me.upload(b"no pdf")
        watching.flush()
        page = Exposition(here.store, remembered_s=0).page()[1].decode()
    finally:
        watching.stop()
    told = [line for line in page.splitlines() if not line.startswith("#") and 'queue="conversion"' in line]
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in told)}
    assert values['jobs_failed_total{error_code="GW_5XX",queue="conversion"}'] == 1
    assert values['jobs_failed_total{error_code="NOT_PDF",queue="conversion"}'] == 1
    assert values['manual_retry_total{queue="conversion"}'] == 1
    assert values['job_processing_duration_seconds_count{queue="conversion"}'] == 2
    assert values['queue_depth{queue="conversion"}'] == 0
    assert values['jobs_active{queue="conversion"}'] == 0


def test_what_happens_to_a_job_is_told_with_its_facts(
    solo: Callable[..., Running], faults: Callable[..., None]
) -> None:
    here = solo()
    me = here.person()
    faults(status=502, times=1)
    with bus.heard() as told:
        job_id = me.uploaded()  # told before anybody can claim it
        with here.working():
            job = me.settled(job_id)
    mine = [(verb, facts) for verb, facts in told if facts.get("id") == job["job_id"]]
    assert [verb for verb, _ in mine] == [
        "job.enqueued",
        "job.claimed",
        "job.retried",
        "job.claimed",
        "job.finished",
    ]
    retried = mine[2][1]
    assert (retried["code"], retried["upstream_status"], retried["attempt"]) == ("GW_5XX", 502, 1)
    assert retried["duration_us"] > 0
