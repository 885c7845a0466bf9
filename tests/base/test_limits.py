"""Every bound has a name and can be set; a setting that cannot be meant is refused."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import FrozenInstanceError, fields

import pytest

from holdfast.base import LimitInvalid, Limits, World, limits, replaced


def test_an_environment_that_says_nothing_gives_the_defaults() -> None:
    assert Limits.from_environment({}) == Limits()
    assert (
        Limits.from_environment({"PATH": "/bin", "HOLDFAST_TOKEN": "x", "holdfast_limit_json_depth_max": "1"})
        == Limits()
    )


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_limit_can_be_set_by_its_name(name: str) -> None:
    chosen = Limits.from_environment({f"HOLDFAST_LIMIT_{name.upper()}": "7"})
    assert getattr(chosen, name) == 7
    assert type(getattr(chosen, name)) is type(getattr(Limits(), name))


@pytest.mark.parametrize("name", [field.name for field in fields(Limits)])
def test_every_default_is_a_positive_number(name: str) -> None:
    assert getattr(Limits(), name) > 0


@pytest.mark.parametrize("text", ["", " ", "0", "-1", "many", "nan", "inf", "-inf", "1e999", "9" * 5_000, "0x10"])
@pytest.mark.parametrize("name", ["JSON_BYTES_MAX", "DELAY_S_MAX"])
def test_a_setting_that_is_no_positive_number_is_refused_by_name(name: str, text: str) -> None:
    with pytest.raises(LimitInvalid, match=f"HOLDFAST_LIMIT_{name}: .* is not a positive"):
        Limits.from_environment({f"HOLDFAST_LIMIT_{name}": text})


def test_a_fraction_is_no_count() -> None:
    with pytest.raises(LimitInvalid, match="positive whole number"):
        Limits.from_environment({"HOLDFAST_LIMIT_ATTEMPTS_MAX": "1.5"})
    assert Limits.from_environment({"HOLDFAST_LIMIT_DELAY_S_MAX": "1.5"}).delay_s_max == 1.5


def test_a_misspelt_limit_is_refused_and_the_real_names_are_told() -> None:
    with pytest.raises(LimitInvalid, match=r"no limit named 'json_byte_max'; limits: .*json_bytes_max"):
        Limits.from_environment({"HOLDFAST_LIMIT_JSON_BYTE_MAX": "1"})


def test_limits_cannot_be_changed_in_place() -> None:
    with pytest.raises(FrozenInstanceError):
        Limits().json_bytes_max = 1  # type: ignore[misc]


def test_the_limits_in_force_are_those_of_the_world() -> None:
    with replaced(World(limits=Limits(attempts_max=5))):
        assert limits().attempts_max == 5
    assert limits().attempts_max == Limits.from_environment().attempts_max


def test_a_wrong_setting_stops_the_program_at_its_start() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import holdfast.base"],
        env={"HOLDFAST_LIMIT_JSON_DEPTH_MAX": "deep", "PYTHONPATH": ":".join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "HOLDFAST_LIMIT_JSON_DEPTH_MAX: 'deep' is not a positive whole number" in done.stderr
