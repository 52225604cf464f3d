"""Text from strangers, shown as text wherever it goes."""

from __future__ import annotations

import os
import shlex
from pathlib import Path


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


def command_line(*words: str | Path) -> str:
    r"""Return a command that does what it says when it is copied into a shell, whatever the paths.

    A path that begins with a dash is no option, and what cannot be shown is told by its bytes.

    >>> print(command_line("ls", "-l", Path("a b"), Path("-c"), Path("\x1b'd")))
    ls -l 'a b' ./-c $'\x1b\x27d'
    """
    return " ".join(map(_shell_word, words))


def _shell_word(word: str | Path) -> str:
    text = str(word)
    if isinstance(word, Path) and text.startswith("-"):
        text = f"./{text}"
    if text.isprintable():
        return shlex.quote(text)
    shown = (c if c.isprintable() and c not in "\\'" else _bytes_told(c) for c in text)
    return f"$'{''.join(shown)}'"


def _bytes_told(character: str) -> str:
    return "".join(f"\\x{byte:02x}" for byte in os.fsencode(character))
