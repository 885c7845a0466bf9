"""A traceback as an operator reads it: what was raised, then the calls of the user's own code, the last one first."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.base.formatting import plural
from holdfast.base.tracebacks import Frame, Raised
from holdfast.console.parts import aside
from holdfast.http.markup import Markup, element, joined

_BEHIND = {
    "cause": "It was caused by",
    "context": "It was raised while this was being handled",
    "group": "One of its exceptions",
}


def traceback_view(chain: Sequence[Raised]) -> Markup:
    """Every exception with its calls; those of libraries are shown when asked for."""
    return joined(*(_raised(one) for one in chain))


def _raised(one: Raised) -> Markup:
    behind = _BEHIND.get(one.link, "")
    own = [frame for frame in reversed(one.frames) if frame.own]
    others = [frame for frame in reversed(one.frames) if not frame.own]
    if not own:
        own, others = others, []
    message = [": ", element("span", one.message, class_="message")] if one.message else []
    left_out = [element("p", f"{plural(one.left_out, 'call')} between the first and the last left out.")]
    rest = [aside(f"{plural(len(others), 'call')} of libraries", _calls(others))] if others else []
    return element(
        "div",
        *([element("p", f"{behind}:", class_="note")] if behind else []),
        element("p", element("strong", one.type), *message, class_="error"),
        _calls(own),
        *(left_out if one.left_out else []),
        *rest,
        class_="raised",
    )


def _calls(frames: Sequence[Frame]) -> Markup:
    return element("ol", *(_call(frame) for frame in frames), class_="calls")


def _call(frame: Frame) -> Markup:
    where = joined(element("code", f"{frame.file}:{frame.line}"), " in ", element("code", frame.function))
    source = [element("pre", element("code", frame.source))] if frame.source else []
    return element("li", element("p", where), *source)
