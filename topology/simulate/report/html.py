"""Elements of a page. Text becomes markup only here, and is escaped when it does."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape as quoted

from openclust.shell.log import escape


class Html(str):
    """Markup that is finished: all else that is put into an element is text."""

    __slots__ = ()


Content = str | Iterable["Content"]

EMPTY = Html("")


def html(content: Content) -> Html:
    """Text escaped, also what steers terminals and editors; markup as it is; sequences one after another."""
    if isinstance(content, Html):
        return content
    if isinstance(content, str):
        return Html(quoted(escape(content)))
    return Html("".join(html(each) for each in content))


def element(name: str, *content: Content, **attributes: str | float | None) -> Html:
    """`class_` becomes `class`, and every other underscore a hyphen; attributes of None are left out."""
    told = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{html(_value(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Html(f"<{name}{told}>{html(content)}</{name}>")


def section(anchor: str, title: str, *content: Content) -> Html:
    return element("section", element("h2", title), *content, id=anchor)


def nothing(text: str) -> Html:
    """In the place of what is not there."""
    return element("p", text, class_="none")


def table(headers: Sequence[str], rows: Sequence[Sequence[Content]], *, words: int = 1, caption: str = "") -> Html:
    """The first `words` columns hold words, the others numbers. It scrolls by itself where it is too wide."""
    kinds = ["word" if number < words else "number" for number in range(len(headers))]
    head = element(
        "tr", *(element("th", each, scope="col", class_=kind) for each, kind in zip(headers, kinds, strict=True))
    )
    body = [
        element("tr", *(element("td", each, class_=kind) for each, kind in zip(row, kinds, strict=True)))
        for row in rows
    ]
    told = element("caption", caption) if caption else EMPTY
    whole = element("table", told, element("thead", head), element("tbody", *body))
    return element("div", whole, class_="wide", tabindex=0, role="region", aria_label=caption or headers[0])


def details(title: str, *content: Content) -> Html:
    return element("details", element("summary", title), *content)


def _value(value: str | float) -> str:
    if isinstance(value, str):
        return value
    text = f"{value:.1f}"
    return text.removesuffix(".0")
