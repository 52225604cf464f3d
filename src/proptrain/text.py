"""Text from strangers, shown as text wherever it goes."""

from __future__ import annotations


def visible(text: str) -> str:
    r"""Write characters that would be acted upon, instead of being shown, as escapes.

    Those are control characters, marks that turn the direction of what follows, and whatever else
    has no shape of its own.

    >>> print(visible("caf\u00e9 \x1b[31mred\x07 \u202egnp.exe"))
    café \x1b[31mred\x07 \u202egnp.exe
    """
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
