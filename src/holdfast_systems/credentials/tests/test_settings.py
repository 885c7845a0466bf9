"""Settings: what they mean, and what is said about those that cannot be meant."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.base import Secret
from holdfast_systems.credentials.settings import SettingsInvalid, read_settings

from .live import settings_file

WHOLE = """
maintenance = true
trusted_proxies = ["10.0.0.0/8"]

[platforms.gotong_royong]
secrets = ["new", "old"]
networks = ["203.0.113.0/24", "2001:db8::/32"]
limit = 5
window_s = 1.5

[platforms.other]
secrets = ["theirs"]

[sender]
engine_url = "https://engine.example/v1/platforms/gotong_royong/webhook"
ops_url = "https://ops.example/alerts"
delays_s = [0.1, 1]
timeout_s = 3
allowed_targets = ["127.0.0.1:9000"]
"""


def test_without_any_the_contract_is_the_default() -> None:
    settings = read_settings({})
    assert settings.parts == ("platform", "engine")
    assert list(settings.platforms) == ["gotong_royong"]
    only = settings.platforms["gotong_royong"]
    assert (only.secrets, only.networks, only.limit.count, only.limit.per_s) == ((), (), 1_000, 60)
    assert (settings.sender.delays_s, settings.sender.timeout_s) == ((1, 2, 4, 8), 10)


def test_a_file_sets_everything(tmp_path: Path) -> None:
    settings = read_settings(settings_file(tmp_path, WHOLE))
    own = settings.platforms["gotong_royong"]
    assert own.secrets == (Secret("new"), Secret("old"))
    assert [str(one) for one in own.networks] == ["203.0.113.0/24", "2001:db8::/32"]
    assert (own.limit.count, own.limit.per_s) == (5, 1.5)
    assert settings.platforms["other"].secrets == (Secret("theirs"),)
    assert settings.maintenance
    assert [str(one) for one in settings.trusted_proxies] == ["10.0.0.0/8"]
    assert settings.sender.engine_url == "https://engine.example/v1/platforms/gotong_royong/webhook"
    assert (settings.sender.delays_s, settings.sender.timeout_s) == ((0.1, 1.0), 3.0)
    assert settings.sender.allowed_targets == {"127.0.0.1:9000"}


def test_the_environment_wins_and_its_secret_is_the_newest(tmp_path: Path) -> None:
    environment = {
        **settings_file(tmp_path, WHOLE),
        "HOLDFAST_CREDENTIALS_SECRET": "newest",
        "HOLDFAST_CREDENTIALS_ENGINE_URL": "http://127.0.0.1:9/x",
        "HOLDFAST_CREDENTIALS_PARTS": "platform",
    }
    settings = read_settings(environment)
    assert settings.platforms["gotong_royong"].secrets == (Secret("newest"), Secret("new"), Secret("old"))
    assert (settings.sender.engine_url, settings.parts) == ("http://127.0.0.1:9/x", ("platform",))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("limit = 1", "limit: is nothing that can be set here"),
        ("[platforms.x]", "platforms.x.secrets: is needed: without one nobody can send"),
        ("[platforms.x]\nsecrets = ['']", "platforms.x.secrets: is a list of texts that are not empty"),
        ('[platforms.x]\nsecrets = ["a\\u0000"]', "platforms.x.secrets: holds a NUL, or bytes that are not UTF-8"),
        (f"[platforms.x]\nsecrets = {['s'] * 17}", "platforms.x.secrets: has more than 16 entries"),
        ("[platforms.'a b']\nsecrets = ['s']", "platforms.a b: is not a name: a-z, 0-9, dash and underscore"),
        ("[platforms.x]\nsecrets = ['s']\nlimit = 0", "platforms.x.limit: is not a number above 0 and up to 1e+06"),
        ("[platforms.x]\nsecrets = ['s']\nlimit = 1.5", "platforms.x.limit: is a whole number"),
        ("[platforms.x]\nsecrets = ['s']\nnetworks = ['10.0.0.1/8']", "10.0.0.1/8 has host bits set"),
        ("trusted_proxies = ['::ffff:10.0.0.0/104']", "trusted_proxies: ::ffff:10.0.0.0/104 would never fit"),
        ("[platforms.x]\nsecrets = ['s']\nnetwork = []", "platforms.x.network: is nothing that can be set here"),
        ("platforms = 3", "platforms: is not a table"),
        ("maintenance = 1", "maintenance: is neither true nor false"),
        ("[sender]\nengine_url = 'engine'", "sender.engine_url: is not an address such as"),
        ("[sender]\ndelays_s = [-1]", "sender.delays_s: is a list of fewer than 50 numbers of seconds"),
        ("[sender]\nallowed_targets = ['localhost']", "sender.allowed_targets: 'localhost' is not an exact host"),
        ("x = ", "is not TOML"),
    ],
)
def test_a_wrong_file_is_refused_with_its_name_the_key_and_the_reason(
    tmp_path: Path, text: str, complaint: str
) -> None:
    environment = settings_file(tmp_path, text)
    with pytest.raises(SettingsInvalid) as caught:
        read_settings(environment)
    assert str(caught.value).startswith(f"{environment['HOLDFAST_CREDENTIALS_SETTINGS']}: ")
    assert complaint in str(caught.value)


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(SettingsInvalid, match="cannot be read"):
        read_settings({"HOLDFAST_CREDENTIALS_SETTINGS": str(tmp_path / "none.toml")})


@pytest.mark.parametrize(
    ("variable", "text"),
    [
        ("PARTS", "engine,gateway"),
        ("MAINTENANCE", "perhaps"),
        ("ENGINE_URL", "ftp://x"),
        ("OPS_URL", "//x"),
        ("SECRET", "\udcff"),
    ],
)
def test_a_wrong_variable_is_refused_by_name(variable: str, text: str) -> None:
    with pytest.raises(SettingsInvalid, match=f"HOLDFAST_CREDENTIALS_{variable}: "):
        read_settings({f"HOLDFAST_CREDENTIALS_{variable}": text})


def test_a_variable_that_is_empty_is_one_that_is_not_set(tmp_path: Path) -> None:
    names = ("PARTS", "MAINTENANCE", "ENGINE_URL", "OPS_URL", "SECRET", "SETTINGS")
    assert read_settings({f"HOLDFAST_CREDENTIALS_{name}": "" for name in names}) == read_settings({})


def test_the_environment_s_secret_is_not_one_too_many(tmp_path: Path) -> None:
    listed = [f"s{number}" for number in range(16)]
    environment = settings_file(tmp_path, f"[platforms.gotong_royong]\nsecrets = {listed}")
    assert (
        len(read_settings({**environment, "HOLDFAST_CREDENTIALS_SECRET": "s7"}).platforms["gotong_royong"].secrets)
        == 16
    )
    with pytest.raises(SettingsInvalid, match="HOLDFAST_CREDENTIALS_SECRET: is one more than 16"):
        read_settings({**environment, "HOLDFAST_CREDENTIALS_SECRET": "another"})
