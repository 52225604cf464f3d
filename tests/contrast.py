"""How far two colours stand apart for the eye."""

from __future__ import annotations

import numpy as np


def contrast(one: str, other: str) -> float:
    """Return the contrast ratio of two colours as in "#15181c", from 1 to 21, by WCAG 2."""
    darker, lighter = sorted(map(_luminance, (one, other)))
    return (lighter + 0.05) / (darker + 0.05)


def _luminance(colour: str) -> float:
    channels = np.array([int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)])
    linear = np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)
    return float(linear @ [0.2126, 0.7152, 0.0722])
