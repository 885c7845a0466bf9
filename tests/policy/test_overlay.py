"""What a policy file promises: it is checked whole, applied whole, and changes numbers but not meaning."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from holdfast.base import REAL, replaced
from holdfast.base.limits import Limits
from holdfast.catalog import CORE, Catalog
from holdfast.catalog.failure import Failure
from holdfast.policy.backoff import Backoff
from holdfast.policy.jitter import Extra
from holdfast.policy.overlay import OverlayInvalid, apply_overlay, load_overlay
from holdfast.policy.retry import Retry

# As the design document writes it, comments included; a dot stands for a space at the end of a line.
SEED = """\
# DESIGN ONLY - NO IMPLEMENTATION
retry_policies:
  NETWORK_TIMEOUT:
    max_attempts: 5
    base_delay_ms: 100
    max_delay_ms: 5000
    backoff_multiplier: 1.5
····
  DATABASE_CONNECTION_ERROR:
    max_attempts: 3
    base_delay_ms: 1000··
    max_delay_ms: 60000
    backoff_multiplier: 2.0
····
  RATE_LIMIT_EXCEEDED:
    max_attempts: 3
    base_delay_ms: 60000
    max_delay_ms: 900000
    respect_retry_after: true
····
  VALIDATION_ERROR:
    max_attempts: 0  # No retry
    fatal: true
""".replace("·", " ")


def curve(base_s: float, cap_s: float = 300.0, factor: float = 2.0) -> Backoff:
    return Backoff.exponential(base_s, factor=factor, cap_s=cap_s, jitter=Extra(0.1))


SEED_RULES = {
    "NETWORK_TIMEOUT": Retry(attempts=5, backoff=curve(0.1, 5.0, 1.5)),
    "DATABASE_CONNECTION_ERROR": Retry(attempts=3, backoff=curve(1.0, 60.0)),
    "RATE_LIMIT_EXCEEDED": Retry(attempts=3, backoff=curve(60.0, 900.0), honour_retry_after=True),
    "VALIDATION_ERROR": False,
}

Write = Callable[..., Path]


@pytest.fixture
def write(tmp_path: Path) -> Write:
    def to_file(text: str | bytes, name: str = "policies.yaml") -> Path:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        return path

    return to_file


def never_twice(failure: Failure) -> bool:
    return not failure.details.get("again")


def records() -> Catalog:
    errors = Catalog("records", extends=(CORE,))
    errors.fault("VALIDATION_ERROR", status=400, says="Request validation failed", retry=Retry(attempts=4))
    slow = Retry(backoff=Backoff.constant(7.0), honour_retry_after=False, within_s=50.0, when=never_twice)
    errors.fault("SLOT_TAKEN", status=409, says="The slot is taken.", retry=slow)
    return errors


def rule(write: Write, fields: str, code: str = "CONNECTION_RESET") -> Retry | bool:
    return load_overlay(write(f"retry_policies: {{{code}: {{{fields}}}}}"), records())[code]


def problems(path: Path) -> dict[str, str]:
    """Key to reason and remedy, of a file that is refused."""
    with pytest.raises(OverlayInvalid) as refused:
        load_overlay(path, records())
    assert all(line.startswith(f"{path}: ") for line in str(refused.value).splitlines())
    assert all(problem.reason and problem.remedy for problem in refused.value.problems)
    assert all(str(problem) in str(refused.value) for problem in refused.value.problems)
    return {problem.key: f"{problem.reason}; {problem.remedy}" for problem in refused.value.problems}


# -- what is read ----------------------------------------------------------------------------------------------------


def test_the_retry_policies_of_the_design_document_load_as_written(write: Write):
    assert load_overlay(write(SEED), records()) == SEED_RULES


def test_toml_says_the_same_as_yaml(write: Write):
    text = """
        [retry_policies.NETWORK_TIMEOUT]
        max_attempts = 5
        base_delay_ms = 100
        max_delay_ms = 5000
        backoff_multiplier = 1.5

        [retry_policies]
        DATABASE_CONNECTION_ERROR = {max_attempts = 3, base_delay_ms = 1000, max_delay_ms = 60000}
        RATE_LIMIT_EXCEEDED = {max_attempts = 3, base_delay_ms = 60000, max_delay_ms = 900000}
        VALIDATION_ERROR = {max_attempts = 0, fatal = true}
    """
    assert load_overlay(write(text, "policies.TOML"), records()) == SEED_RULES


def test_reading_changes_nothing_and_applying_wins_over_the_declared_rule(write: Write):
    errors, path = records(), write(SEED)
    load_overlay(str(path), errors)
    assert errors["VALIDATION_ERROR"]().retryable
    apply_overlay(str(path), errors)
    assert not errors["VALIDATION_ERROR"]().retryable
    assert errors["NETWORK_TIMEOUT"].rule == SEED_RULES["NETWORK_TIMEOUT"]
    assert CORE["NETWORK_TIMEOUT"].rule is True


@pytest.mark.parametrize(
    "fields", ["max_attempts: 0", "max_attempts: 1", "fatal: true", "fatal: true, max_attempts: 1"]
)
def test_no_attempts_and_fatal_alike_mean_never(write: Write, fields: str):
    assert rule(write, fields) is False


def test_a_rule_makes_a_code_retryable_that_was_declared_not_to_be(write: Write):
    assert rule(write, "max_attempts: 2", "NOT_FOUND") == Retry(attempts=2, backoff=curve(1.0))


@pytest.mark.parametrize(
    ("fields", "backoff"),
    [
        ("base_delay_ms: 0", curve(0.0)),
        ("max_delay_ms: 500", curve(1.0, 0.5)),
        ("base_delay_ms: 0.5, jitter: 0", Backoff.exponential(0.0005)),
        ("jitter: 0.25", Backoff.exponential(1.0, jitter=Extra(0.25))),
        ("delays_ms: [1000, 4000], jitter: 0", Backoff.listed(1.0, 4.0)),
        ("delays_ms: [100]", Backoff.listed(0.1, jitter=Extra(0.1))),
    ],
)
def test_delays_that_are_not_named_take_the_defaults_of_a_policy_file(write: Write, fields: str, backoff: Backoff):
    assert rule(write, fields) == Retry(backoff=backoff)


def test_what_the_file_does_not_name_stays_as_declared(write: Write):
    declared = records()["SLOT_TAKEN"].retry
    assert isinstance(declared, Retry)
    assert rule(write, "max_attempts: 9", "SLOT_TAKEN") == replace(declared, attempts=9)
    assert rule(write, "respect_retry_after: true", "SLOT_TAKEN") == replace(declared, honour_retry_after=True)
    assert rule(write, "base_delay_ms: 10", "SLOT_TAKEN") == replace(declared, backoff=curve(0.01))


def test_one_rule_can_stand_for_several_codes(write: Write):
    text = "retry_policies:\n  CONNECTION_RESET: &short {max_attempts: 2}\n  DNS_FAILED: *short\n"
    rules = load_overlay(write(text), records())
    assert rules["CONNECTION_RESET"] == rules["DNS_FAILED"]


@pytest.mark.parametrize(("text", "name"), [("retry_policies: {}", "a.yml"), ("[retry_policies]", "a.toml")])
def test_a_file_without_rules_changes_nothing(write: Write, text: str, name: str):
    assert load_overlay(write(text, name), records()) == {}


# -- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "key", "says"),
    [
        ("max_attempts: -1", ".max_attempts", "-1 is negative; use a whole number from 0 to 100"),
        ("max_attempts: 101", ".max_attempts", "101 is out of range"),
        ("max_attempts: 3.0", ".max_attempts", "3.0 is not a whole number"),
        ("max_attempts: true", ".max_attempts", "true is not a whole number"),
        ("max_attempts: '3'", ".max_attempts", "'3' is not a whole number"),
        ("max_attempts: null", ".max_attempts", "nothing is not a whole number"),
        ("max_attempts: [3]", ".max_attempts", "a list is not a whole number"),
        (f"max_attempts: 0x{'f' * 9_000}", ".max_attempts", "more than 18 digits"),
        ("base_delay_ms: -0.5", ".base_delay_ms", "-0.5 is negative; use a number of milliseconds from 0 to 604800000"),
        ("base_delay_ms: 604800001", ".base_delay_ms", "out of range"),
        ("base_delay_ms: true", ".base_delay_ms", "not a number"),
        ("base_delay_ms: .nan", ".base_delay_ms", "out of range"),
        ("max_delay_ms: .inf", ".max_delay_ms", "out of range"),
        ("max_delay_ms: 2024-01-01", ".max_delay_ms", "not a number"),
        ("base_delay_ms: 10, max_delay_ms: 9", ".base_delay_ms", "10 is above max_delay_ms (9); raise max_delay_ms"),
        ("base_delay_ms: 300001", ".base_delay_ms", "300001 is above max_delay_ms (300000, its default)"),
        ("backoff_multiplier: 0.9", ".backoff_multiplier", "use a number from 1 to 100"),
        ("backoff_multiplier: 101", ".backoff_multiplier", "out of range"),
        ("backoff_multiplier: {}", ".backoff_multiplier", "an empty table is not a number"),
        ("jitter: 1.01", ".jitter", "use a number from 0 to 1"),
        ("respect_retry_after: 1", ".respect_retry_after", "1 is neither true nor false; use true or false"),
        ("fatal: 'yes'", ".fatal", "'yes' is neither true nor false"),
        ("fatal: true, max_attempts: 2", ".fatal", "contradicts max_attempts of 2; remove one of them"),
        ("delays_ms: []", ".delays_ms", "an empty list is not a list of 1 to 100 delays"),
        ("delays_ms: 5", ".delays_ms", "5 is not a list"),
        ("delays_ms: [1, -2]", ".delays_ms", "delay 2: -2 is negative"),
        ("delays_ms: [1], max_delay_ms: 5", ".delays_ms", "contradicts max_delay_ms"),
        ("attempts: 3", ".attempts", "is not a field of a rule; the fields are max_attempts"),
        ("", "", "an empty table is not a rule; give it at least one of max_attempts"),
    ],
)
def test_a_value_that_cannot_be_meant_is_refused_with_its_key_and_a_remedy(
    write: Write, fields: str, key: str, says: str
):
    found = problems(write(f"retry_policies: {{RATE_LIMIT_EXCEEDED: {{{fields}}}}}"))
    assert list(found) == [f"retry_policies.RATE_LIMIT_EXCEEDED{key}"]
    assert says in found[f"retry_policies.RATE_LIMIT_EXCEEDED{key}"]


def test_the_message_names_the_file_the_key_the_reason_and_the_remedy_in_one_line(write: Write):
    path = write("retry_policies: {RATE_LIMIT_EXCEEDED: {base_delay_ms: -5}}")
    with pytest.raises(OverlayInvalid) as refused:
        load_overlay(path, records())
    assert str(refused.value) == (
        f"{path}: retry_policies.RATE_LIMIT_EXCEEDED.base_delay_ms: -5 is negative; "
        "use a number of milliseconds from 0 to 604800000"
    )
    assert refused.value.path == str(path)


def test_all_problems_are_listed_and_nothing_is_applied(write: Write):
    errors = records()
    path = write(
        "alerts: {}\n"
        "retry_policies:\n"
        "  NETWORK_TIMEOUT: {max_attempts: 2}\n"
        "  NETWORK_TIMEOUTS: {max_attempts: -1}\n"
        "  XYZ_QQ: {fatal: true}\n"
        "  CONNECTION_RESET: {max_attempts: 999, base_delay_ms: '1', colour: red}\n"
        "  DNS_FAILED:\n"
    )
    with pytest.raises(OverlayInvalid):
        apply_overlay(path, errors)
    assert errors["NETWORK_TIMEOUT"].rule is True
    found = problems(path)
    assert list(found) == [
        "alerts",
        "retry_policies.NETWORK_TIMEOUTS",
        "retry_policies.NETWORK_TIMEOUTS.max_attempts",
        "retry_policies.XYZ_QQ",
        "retry_policies.CONNECTION_RESET.max_attempts",
        "retry_policies.CONNECTION_RESET.base_delay_ms",
        "retry_policies.CONNECTION_RESET.colour",
        "retry_policies.DNS_FAILED",
    ]
    assert "records has no such code; did you mean NETWORK_TIMEOUT?" in found["retry_policies.NETWORK_TIMEOUTS"]
    assert "declare it in the catalog" in found["retry_policies.XYZ_QQ"]


@pytest.mark.parametrize(
    ("text", "key", "says"),
    [
        ("", "", "holds nothing, not a table"),
        ("# only a comment\n", "", "holds nothing"),
        ("- NETWORK_TIMEOUT\n", "", "holds a list"),
        ("retry_policies:\n", "retry_policies", "nothing is not a table"),
        ("retry_policies: [1]\n", "retry_policies", "a list is not a table"),
        ("{}", "retry_policies", "is missing"),
        ("retry_policies: {NETWORK_TIMEOUT: 3}", "retry_policies.NETWORK_TIMEOUT", "3 is not a rule"),
        ("retry_policies: {NO: {fatal: true}}", "retry_policies.NO", "no such code"),
        ("retry_policies: {1: {fatal: true}}", "retry_policies.1", "no such code"),
    ],
)
def test_a_document_of_another_shape_is_refused(write: Write, text: str, key: str, says: str):
    found = problems(write(text))
    assert list(found) == [key]
    assert says in found[key]


TWICE = "retry_policies:\n  DNS_FAILED: {fatal: true}\n  DNS_FAILED: {fatal: false}\n"
MERGED = "retry_policies:\n  DNS_FAILED: &a {fatal: true}\n  CONNECTION_RESET:\n    <<: *a\n"


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "retry_policies:\n  X: {fatal: true\n", "is not YAML: .* line 3"),
        ("a.yaml", "retry_policies:\n\tX: 1\n", "is not YAML: .* line 2"),
        ("a.yaml", "a: 1\nb: \x00\n", "is not YAML: .* line 2"),
        ("a.yaml", TWICE, "'DNS_FAILED' stands twice .at line 3"),
        ("a.yaml", MERGED, "key must be plain text .at line 4"),
        ("a.yaml", "? [a, b]\n: 1\n", "key must be plain text .at line 1"),
        ("a.yaml", "a: 1\n---\nb: 2\n", "is not YAML"),
        ("a.yaml", "a: !!python/object/apply:os.getcwd []\n", "is not YAML: .* line 1"),
        ("a.yaml", "a: 2024-02-30\n", "is not YAML"),
        ("a.yaml", "a: !!bool maybe\n", "is not YAML"),
        ("a.yaml", "!!map abc\n", "is not YAML"),
        ("a.yaml", f"a: {'9' * 5_000}\n", "is not YAML"),
        ("a.yaml", "[" * 20_000, "nested too deeply"),
        ("a.toml", f"a = {'[' * 20_000}", "nested too deeply"),
        ("a.toml", "[retry_policies]\nX = \n", "is not TOML: .* line 2"),
        ("a.toml", "[a]\nb = 1\nb = 2\n", "is not TOML: .* line 3"),
        ("a.toml", f"a = {'9' * 5_000}\n", "is not TOML"),
        ("a.toml", b"a = 1\nb = '\xff'\n", "line 2 is not UTF-8; save the file as UTF-8"),
        ("a.yml", b"\xff\xfea\x00", "line 1 is not UTF-8"),
        ("a.json", "{}", "neither TOML nor YAML; name it .toml, .yaml or .yml"),
    ],
)
def test_a_file_that_cannot_be_parsed_is_refused_with_its_line(write: Write, name: str, text: str | bytes, says: str):
    path = write(text, name)
    with pytest.raises(OverlayInvalid, match=says) as refused:
        load_overlay(path, records())
    assert str(refused.value).startswith(f"{path}: ")


def test_a_byte_order_mark_and_windows_lines_are_no_problem(write: Write):
    text = "\ufeff[retry_policies]\r\nDNS_FAILED = {fatal = true}\r\n"
    assert load_overlay(write(text, "a.toml"), records()) == {"DNS_FAILED": False}
    text = "\ufeffretry_policies:\r\n  DNS_FAILED: {fatal: true}\r\n"
    assert load_overlay(write(text, "a.yaml"), records()) == {"DNS_FAILED": False}


def test_a_bomb_of_aliases_is_refused_without_being_spelled_out(write: Write):
    lines = ["a0: &a0 [x, x]"] + [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 60)]
    found = problems(write("\n".join([*lines, "retry_policies: {DNS_FAILED: {max_attempts: *a59}}"])))
    assert "a list is not a whole number" in found["retry_policies.DNS_FAILED.max_attempts"]
    assert len(found) == 61


def test_a_file_that_is_not_there_is_refused(tmp_path: Path):
    with pytest.raises(OverlayInvalid, match=r"missing.yaml: cannot be read \(No such file.*\); check its path"):
        load_overlay(tmp_path / "missing.yaml", records())


def test_a_path_that_no_file_can_have_is_refused(tmp_path: Path):
    for name in ("nul\0.yaml", "x" * 5_000 + ".yaml"):
        with pytest.raises(OverlayInvalid, match="cannot be read"):
            load_overlay(f"{tmp_path}/{name}", records())


def test_a_directory_is_refused(tmp_path: Path):
    (tmp_path / "policies.toml").mkdir()
    with pytest.raises(OverlayInvalid, match="is not a file; name the policy file itself"):
        load_overlay(tmp_path / "policies.toml", records())


def test_a_file_above_the_limit_is_refused(write: Write):
    path = write("retry_policies: {}\n" + "#" * 100)
    with (
        replaced(replace(REAL, limits=Limits(policy_file_bytes_max=100))),
        pytest.raises(OverlayInvalid, match=r"is larger than 100 bytes; .*policy_file_bytes_max"),
    ):
        load_overlay(path, records())


def test_the_limits_in_force_bound_the_values(write: Write):
    path = write("retry_policies: {DNS_FAILED: {max_attempts: 6, base_delay_ms: 2001}}")
    with replaced(replace(REAL, limits=Limits(attempts_max=5, delay_s_max=2.0))):
        assert len(problems(path)) == 2


def test_without_pyyaml_the_message_says_what_to_install(write: Write, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sys.modules, "yaml", None)
    with pytest.raises(OverlayInvalid, match=r'needs PyYAML .*; pip install "holdfast\[yaml\]" or write TOML'):
        load_overlay(write(SEED), records())
    assert load_overlay(write("[retry_policies]", "a.toml"), records()) == {}


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(), st.sampled_from(["a.yaml", "a.toml"]))
def test_no_text_whatever_breaks_the_reader(write: Write, text: str, name: str):
    with pytest.raises(OverlayInvalid):
        load_overlay(write(text.encode("utf-8", "replace"), name), records())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    attempts=st.integers(2, 100),
    base_ms=st.integers(0, 300_000),
    multiplier=st.floats(1.0, 100.0),
    share=st.floats(0.0, 1.0),
)
def test_every_rule_within_the_bounds_is_read_as_written(
    write: Write, attempts: int, base_ms: int, multiplier: float, share: float
):
    text = (
        f"[retry_policies.DNS_FAILED]\nmax_attempts = {attempts}\nbase_delay_ms = {base_ms}\n"
        f"max_delay_ms = 300000\nbackoff_multiplier = {multiplier!r}\njitter = {share!r}\n"
    )
    read = load_overlay(write(text, "a.toml"), records())["DNS_FAILED"]
    assert isinstance(read, Retry)
    assert (read.attempts, read.backoff.base_s, read.backoff.factor) == (attempts, base_ms / 1_000, multiplier)
    assert read.backoff.jitter == (Extra(share) if share else None)
