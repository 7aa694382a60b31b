"""CRC-32C of many parts of a file at once, as TFRecord files store it."""

from __future__ import annotations

from typing import Any

import numpy as np

_BLOCK = 1 << 10  # bytes; longer parts are divided, and their blocks are summed side by side


def _over(tables: Any, state: Any) -> Any:
    """The states behind a number of zero bytes: a linear map, as four tables of 256 states."""
    return tables[0][state & 255] ^ tables[1][state >> 8 & 255] ^ tables[2][state >> 16 & 255] ^ tables[3][state >> 24]


def _make_tables() -> tuple[Any, Any]:
    """The states behind one byte, and the map of a block of zero bytes."""
    byte: Any = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        byte = byte >> 1 ^ (byte & 1) * np.uint32(0x82F63B78)
    zeros = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    zeros = byte[zeros & 255] ^ zeros >> 8
    for _ in range(_BLOCK.bit_length() - 1):
        zeros = _over(zeros, zeros)
    return byte, zeros


_BYTE, _ZEROS = _make_tables()


def masked_crc32c(data: Any, begin: Any, size: Any) -> Any:
    """The masked sums of data[begin : begin + size], of arrays of bytes, places and sizes."""
    count = np.maximum(size - 1, 0) // _BLOCK + 1
    last = np.cumsum(count)
    first = last - count
    # the first block of a part is the short one; its state begins with ones, that of the others with 0
    end = np.repeat(begin + size - last * _BLOCK, count) + np.arange(1, last[-1] + 1) * _BLOCK
    length = np.full(len(end), _BLOCK)
    length[first] = size - (count - 1) * _BLOCK
    state = np.zeros(len(end), np.uint32)
    state[first] = 0xFFFFFFFF
    order = np.argsort(-length, kind="stable")  # the long ones first: those that have a byte are the first ones
    end, length, states = end[order], length[order], state[order]
    for left in range(int(length[0]), 0, -1):
        some = states[: np.searchsorted(-length, -left, "right")]
        index = some.astype(np.uint8) ^ data[end[: len(some)] - left]
        some >>= 8
        some ^= _BYTE[index]
    state[order] = states
    sums = state[first]
    a, b, c, d = _ZEROS.tolist()
    for i in np.flatnonzero(count > 1):
        x = 0
        for block in state[first[i] : last[i]].tolist():
            x = a[x & 255] ^ b[x >> 8 & 255] ^ c[x >> 16 & 255] ^ d[x >> 24] ^ block
        sums[i] = x
    sums = ~sums
    return (sums >> 15 | sums << 17) + np.uint32(0xA282EAD8)
