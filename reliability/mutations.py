"""Ways to spoil a file: bits, bytes, pieces, numbers, headers; all drawn from a generator."""

from __future__ import annotations

import io
import math
import re
import struct
import zipfile
from collections.abc import Callable, Mapping
from random import Random

_NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")
_PART = re.compile(rb'"[^"\\]*"|\[[^\[\]]*\]|\{[^{}]*\}')
"""A text, or the innermost brackets with all that is in them."""
_WORDS = (
    *(b"0", b"-1", b"1", b"1000000000000", b"-9223372036854775809", b"18446744073709551616"),
    *(b"1e308", b"1e400", b"-0.0", b"0.5", b"NaN", b"Infinity", b"null", b"true", b'"7"', b'""'),
    *(b"[]", b"{}", b"[[[[[[[[[[[[]]]]]]]]]]]]", b"../../etc/passwd", b"/etc/passwd", b"\xff\xfe"),
    *(b"\x00", b"\n", b",", b'"', b"=1+1", b"9" * 5000, "\u202e".encode(), b"\xed\xa0\x80"),
    *(b"[" * 2000, b"[" * 2000 + b"]" * 2000, b'{"a":' * 2000 + b"1" + b"}" * 2000),
    *(rb'"\ud800x"', b"[1]", b'{"id": 5}'),
)
_INTEGERS = (0, 1, -1, 2**31 - 1, -(2**31), 2**40, 10**12, 2**62, 2**63 - 1, -(2**63))
_TYPES = {
    **{repr(name): n_bytes for name, n_bytes in {
        "<f8": 8, "<f4": 4, ">f4": 4, "<f2": 2, "<i8": 8, ">i4": 4, "|u1": 1, "|b1": 1, "<c16": 16,
        "|S0": 0, "|V0": 0, "<U0": 0, "|S3": 3, "<U2": 8, "|V4": 4, "<M8[s]": 8, "|O": 8,
    }.items()},
    "('<f8', (2,))": 16, "[('a', '<f8'), ('b', '|S0')]": 8, "[]": 0, "7": 0,
}  # fmt: skip
"""Types as a NumPy header has them, with the bytes of an element."""
_SIZES = (0, 1, 2, 3, 24, 72, True, -1, 2.5, 10**12, 2**63, 10**4000)
_VERSIONS = ((1, 0), (1, 0), (1, 0), (2, 0), (3, 0), (9, 0), (1, 1))
_CLAIMED = 1 << 16
"""Bytes that are put behind a header that claims them."""
Spoil = Callable[[bytes, Random], bytes]


def spoil(content: bytes, random: Random) -> bytes:
    """Return a file's content spoilt in one way, or in a few."""
    for _ in range(random.choice((1, 1, 1, 2, 5))):
        content = random.choice(WAYS)(content, random)
    return content


def spoil_files(files: Mapping[str, bytes], random: Random) -> dict[str, bytes]:
    """Return files of which one is spoilt, sometimes inside an archive; or lost, or swapped."""
    found = dict(files)
    name = random.choice(sorted(found))
    way = random.random()
    if way < 0.02 and len(found) > 1:
        del found[name]
    elif way < 0.06 and len(found) > 1:
        other = random.choice(sorted(found))
        found[name], found[other] = found[other], found[name]
    elif found[name][:2] == b"PK" and way < 0.7:
        found[name] = _spoil_member(found[name], random)
    else:
        found[name] = spoil(found[name], random)
    return found


def _spoil_member(archive: bytes, random: Random) -> bytes:
    """Spoil what is in an archive, which is itself whole."""
    with zipfile.ZipFile(io.BytesIO(archive)) as opened:
        members = {name: opened.read(name) for name in opened.namelist()}
    spoilt, target = spoil_files(members, random), io.BytesIO()
    packing = random.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED))
    with zipfile.ZipFile(target, "w") as opened:
        for name, content in spoilt.items():
            # By its name alone a member would carry the time, and no two archives would be alike.
            opened.writestr(zipfile.ZipInfo(name), content, packing)
    return target.getvalue()


def _flip_bits(content: bytes, random: Random) -> bytes:
    found = bytearray(content)
    for _ in range(random.choice((1, 1, 2, 8, 64)) if found else 0):
        found[random.randrange(len(found))] ^= 1 << random.randrange(8)
    return bytes(found)


def _cut(content: bytes, random: Random) -> bytes:
    return content[: random.randrange(len(content) + 1)]


def _piece(content: bytes, random: Random) -> tuple[int, int]:
    first = random.randrange(len(content) + 1)
    return first, min(len(content), first + random.choice((1, 4, 16, 100, 1000)))


def _remove(content: bytes, random: Random) -> bytes:
    first, last = _piece(content, random)
    return content[:first] + content[last:]


def _repeat(content: bytes, random: Random) -> bytes:
    first, last = _piece(content, random)
    return content[:last] + content[first:last] * random.choice((1, 2, 50)) + content[last:]


def _overwrite(content: bytes, random: Random) -> bytes:
    first, last = _piece(content, random)
    filling = random.choice((b"\x00", b"\xff", b"\x7f", bytes([random.randrange(256)])))
    return content[:first] + filling * (last - first) + content[last:]


def _change_number(content: bytes, random: Random) -> bytes:
    """Put another word where a number stands in text."""
    places = list(_NUMBER.finditer(content[:20_000]))
    if not places:
        return _insert(content, random)
    place = random.choice(places)
    return content[: place.start()] + random.choice(_WORDS) + content[place.end() :]


def _change_part(content: bytes, random: Random) -> bytes:
    """Put another word, or what stands elsewhere, where a text or brackets stand in text."""
    places = list(_PART.finditer(content[:20_000]))
    if not places:
        return _insert(content, random)
    place, other = random.choice(places), random.choice(places)
    word = random.choice((other.group(), random.choice(_WORDS)))
    return content[: place.start()] + word + content[place.end() :]


def _change_integer(content: bytes, random: Random) -> bytes:
    """Put another integer where one may stand in binary; most often near either end."""
    size, form = random.choice(((4, "<i"), (8, "<q"), (8, ">q"), (2, "<h")))
    if len(content) < size:
        return content
    last = len(content) - size
    near = min(last, 200)
    place = random.choice((random.randrange(near + 1), last - random.randrange(near + 1),
                           random.randrange(last + 1)))  # fmt: skip
    value = random.choice(_INTEGERS)
    half = 1 << (8 * size - 1)
    packed = struct.pack(form, (value + half) % (2 * half) - half)
    return content[:place] + packed + content[place + size :]


def _change_header(content: bytes, random: Random) -> bytes:
    """Give a NumPy array another header, whole; behind it may be just what it claims."""
    first = content.find(b"\x93NUMPY")
    if first < 0:
        return _change_part(content, random)
    numbers = content[content.find(b"\n", first) + 1 :]
    header, n_bytes = _drawn_header(random)
    if n_bytes is not None and random.random() < 0.7:
        numbers = numbers[:n_bytes].ljust(n_bytes, b"\x00")
    return content[:first] + header + numbers


def _drawn_header(random: Random) -> tuple[bytes, int | None]:
    """Return a header of any type, shape and version, and what it claims, if that is not much."""
    kind, version = random.choice(sorted(_TYPES)), random.choice(_VERSIONS)
    n_dimensions = random.choice((0, 1, 1, 1, 2, 2, 2, 3, 33, 65))
    # Among many sizes one that is 0 would hide all others.
    sizes = (1,) if n_dimensions > 3 else _SIZES
    shape = tuple(random.choice(sizes) for _ in range(n_dimensions))
    is_fortran = random.choice((False, False, True))
    told = f"{{'descr': {kind}, 'fortran_order': {is_fortran}, 'shape': {shape!r}, }}\n".encode()
    length = struct.pack("<H" if version[0] == 1 else "<I", len(told))
    claimed = math.prod(shape) * _TYPES[kind] if 2.5 not in shape else -1
    fits = 0 <= claimed <= _CLAIMED
    return b"\x93NUMPY" + bytes(version) + length + told, int(claimed) if fits else None


def _insert(content: bytes, random: Random) -> bytes:
    place = random.randrange(len(content) + 1)
    word = random.choice((*_WORDS, random.randbytes(random.choice((1, 8, 300)))))
    return content[:place] + word + content[place:]


def _empty(content: bytes, random: Random) -> bytes:
    return random.choice((b"", b"\n", b"\x00", b"PK\x05\x06" + b"\x00" * 18, content * 2))


WAYS: tuple[Spoil, ...] = (
    *(_flip_bits, _flip_bits, _cut, _remove, _repeat, _overwrite),
    *(_change_number, _change_number, _change_number, _change_part, _change_part),
    *(_change_integer, _change_header, _insert),
)
"""Of how to spoil; those that come twice are drawn twice as often."""
WAYS = (*WAYS, *WAYS, _empty)
