"""Arguments that cannot be meant, refused where they are given: with their name, their value and the remedy."""

from __future__ import annotations

from collections.abc import Iterable
from enum import StrEnum
from math import isfinite
from typing import Any, TypeVar

SHOWN_CHARS_MAX = 80
KNOWN_MAX = 20

E = TypeVar("E", bound=StrEnum)


class ArgumentInvalid(ValueError, TypeError):
    """An argument has a value or a type that cannot be meant."""


def refused(name: str, value: object, remedy: str) -> ArgumentInvalid:
    """The exception for an argument: `timeout_s=-1: give seconds above 0`."""
    return ArgumentInvalid(f"{name}={shown(value)}: {remedy}")


def numeric(name: str, value: object, *, whole: bool = False, raises: type[ArgumentInvalid] = ArgumentInvalid) -> None:
    """Refuse what is not a number at all; its range is for the caller to look at.

    Raises:
        ArgumentInvalid: or what is given as `raises`; it names the argument and what to write.
    """
    if isinstance(value, int if whole else int | float) and not isinstance(value, bool):
        return
    seconds = getattr(value, "total_seconds", None)
    remedy = f"write {seconds():g}" if callable(seconds) else "write a whole number" if whole else "write a number"
    raise raises(f"{name}: {shown(value)} is not {'a whole number' if whole else 'a number'}; {remedy}")


def function(
    name: str,
    value: object,
    remedy: str,
    *,
    optional: bool = True,
    raises: type[ArgumentInvalid] = ArgumentInvalid,
) -> None:
    """Refuse what cannot be called.

    Raises:
        ArgumentInvalid: or what is given as `raises`; it names the argument and what to write.
    """
    if not (callable(value) or (optional and value is None)):
        raise raises(f"{name}: {shown(value)} is not a function; {remedy}")


def number(
    name: str,
    value: object,
    *,
    above: float | None = None,
    least: float | None = None,
    most: float | None = None,
    whole: bool = False,
    otherwise: str = "",
) -> None:
    """Refuse what is not a finite number within these bounds.

    Args:
        otherwise: what else may be given, for the message, such as `None for no limit`.

    Raises:
        ArgumentInvalid: names the argument and what it may be.
    """
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and isfinite(value)
    if (
        is_number
        and isinstance(value, int if whole else int | float)
        and (above is None or value > above)
        and (least is None or value >= least)
        and (most is None or value <= most)
    ):
        return
    bounds = [
        *([f"above {above:g}"] if above is not None else []),
        *([f"of at least {least:g}"] if least is not None else []),
        *([f"of at most {most:g}"] if most is not None else []),
    ]
    kind = "a whole number" if whole else "a number of seconds" if name.endswith("_s") else "a number"
    wanted = " ".join([kind, " and ".join(bounds)]) if bounds else kind
    raise refused(name, value, f"give {wanted}" + (f", or {otherwise}" if otherwise else ""))


def instance(name: str, value: object, kind: type | tuple[type, ...], remedy: str) -> None:
    """Refuse what is not of this type.

    Raises:
        ArgumentInvalid: names the argument, what was given and the remedy.
    """
    if not isinstance(value, kind):
        raise refused(name, value, remedy)


def one_of(name: str, value: Any, kinds: type[E]) -> E:
    """The member of the enumeration that the value names.

    Raises:
        ArgumentInvalid: lists the names, and the nearest one.
    """
    try:
        return kinds(value)
    except ValueError:
        raise refused(name, value, suggestion(value, [kind.value for kind in kinds])) from None


def is_a(value: object, kind: type | tuple[type, ...]) -> bool:
    """Whether the value is of this type, where its annotation says so and the caller may not have read it."""
    return isinstance(value, kind) and not (isinstance(value, bool) and kind is not bool)


def suggestion(given: object, known: Iterable[str]) -> str:
    """`did you mean SOLD_OUT?`, or what there is to choose from."""
    from difflib import get_close_matches  # only a mistake pays for loading it

    names = list(known)
    # Written differently, it is the same word all the same: SOLDOUT, sold-out.
    spelt = {_letters(name): name for name in names}
    same = spelt.get(_letters(str(given)))
    near = [same] if same is not None else get_close_matches(str(given)[:100], names, n=1)
    if near:
        return f"did you mean {near[0]}?"
    listed = ", ".join(names[:KNOWN_MAX]) + (", …" if len(names) > KNOWN_MAX else "")
    return f"choose one of {listed}" if names else "there is none"


def shown(value: object) -> str:
    """The value as a message may quote it; objects by their type alone, because they may hold anything."""
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if not isinstance(value, str | int | float | bool | None):
        return f"<{type(value).__name__}>"
    text = repr(value)
    return text if len(text) <= SHOWN_CHARS_MAX else f"{text[: SHOWN_CHARS_MAX - 1]}…"


def _letters(text: str) -> str:
    return "".join(sign for sign in text.casefold() if sign.isalnum())
