"""The hash function of Spark's `xxhash64` for a text: XXH64 with the seed 42, as a signed number."""

from __future__ import annotations

import struct

_SEED = 42
_MASK = (1 << 64) - 1
_P1, _P2, _P3 = 0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9
_P4, _P5 = 0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5


def xxhash64(text: str) -> int:
    """Return the hash of a text in UTF-8, from -2**63 to 2**63 - 1. It takes 10 µs: use it for a few thousand texts."""
    data = text.encode()
    end = len(data) - len(data) % 32
    if end:
        lanes = [_SEED + _P1 + _P2, _SEED + _P2, _SEED, _SEED - _P1]
        for words in struct.iter_unpack("<4Q", data[:end]):
            lanes = [_round(lane, word) for lane, word in zip(lanes, words, strict=True)]
        found = sum(_rotated(lane, bits) for lane, bits in zip(lanes, (1, 7, 12, 18), strict=True))
        for lane in lanes:
            found = (found ^ _round(0, lane)) * _P1 + _P4
    else:
        found = _SEED + _P5
    found += len(data)
    while end + 8 <= len(data):
        found = _rotated((found ^ _round(0, struct.unpack_from("<Q", data, end)[0])) & _MASK, 27) * _P1 + _P4
        end += 8
    if end + 4 <= len(data):
        found = _rotated((found ^ struct.unpack_from("<I", data, end)[0] * _P1) & _MASK, 23) * _P2 + _P3
        end += 4
    for byte in data[end:]:
        found = _rotated((found ^ byte * _P5) & _MASK, 11) * _P1
    return _signed(_avalanche(found & _MASK))


def _round(lane: int, word: int) -> int:
    return _rotated((lane + word * _P2) & _MASK, 31) * _P1 & _MASK


def _rotated(value: int, bits: int) -> int:
    return ((value << bits) | (value >> (64 - bits))) & _MASK


def _avalanche(value: int) -> int:
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


def _signed(value: int) -> int:
    return value - (1 << 64) if value >> 63 else value
