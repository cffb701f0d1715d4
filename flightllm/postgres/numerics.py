"""Decimals in the binary form of PostgreSQL's numeric: groups of four digits."""

import struct
from decimal import Decimal, InvalidOperation

from flightllm.postgres.failures import WireError

_POSITIVE, _NEGATIVE, _NAN, _INFINITY, _MINUS_INFINITY = 0x0000, 0x4000, 0xC000, 0xD000, 0xF000
_HEAD = struct.Struct("!HhHH")
_MOST_GROUPS = 1 << 12
"""Groups of a parameter: four digits each. Values of the engine have up to 76 digits."""


def numeric_bytes(value: Decimal) -> bytes:
    """Return a finite decimal in binary form."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise TypeError("the decimal is not finite")
    scale = max(0, -exponent)
    written = ("".join(map(str, digits)) + "0" * max(0, exponent)).rjust(scale, "0")
    whole, fraction = written[: len(written) - scale].lstrip("0"), written[len(written) - scale :]
    whole = whole.rjust(-(-len(whole) // 4) * 4, "0")
    fraction_groups = fraction.ljust(-(-len(fraction) // 4) * 4, "0")
    text = whole + fraction_groups
    groups = [int(text[at : at + 4]) for at in range(0, len(text), 4)]
    weight = len(whole) // 4 - 1
    while groups and groups[0] == 0:
        del groups[0]
        weight -= 1
    while groups and groups[-1] == 0:
        del groups[-1]
    if not groups:
        weight = 0
    kind = _NEGATIVE if sign and groups else _POSITIVE
    return _HEAD.pack(len(groups), weight, kind, scale) + struct.pack(f"!{len(groups)}H", *groups)


def decimal_of(data: bytes) -> Decimal:
    """Read the binary form.

    Raises:
        WireError: the bytes are not a numeric.
    """
    wrong = WireError("22P03", "incorrect binary data format: not a numeric")
    if len(data) < _HEAD.size:
        raise wrong
    count, weight, kind, scale = _HEAD.unpack_from(data)
    if kind in (_NAN, _INFINITY, _MINUS_INFINITY):
        return Decimal({_NAN: "NaN", _INFINITY: "Infinity", _MINUS_INFINITY: "-Infinity"}[kind])
    if len(data) != _HEAD.size + 2 * count or count > _MOST_GROUPS or abs(weight) > _MOST_GROUPS:
        raise wrong
    groups = struct.unpack_from(f"!{count}H", data, _HEAD.size)
    if kind not in (_POSITIVE, _NEGATIVE) or any(group > 9_999 for group in groups):
        raise wrong
    digits = "".join(f"{group:04d}" for group in groups) or "0"
    try:
        value = Decimal(f"{'-' if kind == _NEGATIVE else ''}{digits}E{4 * (weight + 1 - len(groups)) if groups else 0}")
        return value.quantize(Decimal(1).scaleb(-scale)) if -value.as_tuple().exponent < scale else value  # type: ignore[operator]
    except InvalidOperation:
        return value
