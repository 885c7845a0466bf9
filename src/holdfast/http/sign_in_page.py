"""The page that asks for the operator's token, the same for every system."""

from __future__ import annotations

from holdfast.http.markup import Markup, element

ICON = (
    "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Crect width='16' height='16' "
    "rx='4' fill='%230f766e'/%3E%3Cpath d='M5 3v10M11 3v10M5 8h6' stroke='white' stroke-width='2'/%3E%3C/svg%3E"
)


def sign_in_page(title: str, *, wanted: str, problem: str = "") -> bytes:
    """Ask for the token; its links are relative to the application's root.

    Args:
        title: what is behind the page, such as `Credential engine`.
        wanted: the path to go to afterwards.
        problem: why the last try did not succeed.
    """
    head = element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="color-scheme", content="light dark"),
        element("title", f"Sign in · {title}"),
        element("link", rel="icon", href=ICON),
        element("link", rel="stylesheet", href="sign-in.css"),
        element("script", src="sign-in.js", defer=""),
    )
    body = element(
        "body",
        element(
            "main",
            element("h1", "Sign in"),
            element("p", title, class_="title"),
            element("p", problem, class_="problem", role="alert", id="problem") if problem else "",
            token_form(wanted=wanted, invalid=bool(problem)),
            element(
                "p",
                "The token was printed when Holdfast was started. One sign-in opens the console and all systems.",
                class_="hint",
            ),
        ),
    )
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n".encode()


def token_form(*, wanted: str, action: str = "sign-in", invalid: bool = False) -> Markup:
    """The form that sends the token and the path to go to afterwards."""
    told = {"aria_invalid": "true", "aria_describedby": "problem"} if invalid else {}
    return element(
        "form",
        element("label", "Operator’s token", for_="token"),
        element(
            "input",
            id="token",
            name="token",
            type="password",
            autocomplete="current-password",
            required="",
            autofocus="",
            **told,
        ),
        element("input", type="hidden", id="next", name="next", value=wanted),
        element("button", "Sign in", type="submit"),
        method="post",
        action=action,
    )
