"""Event files of TensorBoard: records of protocol buffers, of which scalars and small tensors are read."""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Optional

import numpy as np

from maxlogit.importer._checksum import masked_crc32c
from maxlogit.importer._log import Log, whole
from maxlogit.importer._source import Source
from maxlogit.importer.formats._format import Format

_TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}  # of TensorProto
_LISTS = {5: "<f4", 6: "<f8", 7: "", 10: "", 13: ""}  # float_val, double_val; int_val, int64_val, half_val: varints
_MOST = 1 << 14  # numbers that one stands for
_AT_ONCE = 1 << 16  # records whose checksums are compared together


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at
        if shift > 63:
            raise ValueError("a number without an end")


def _fields(data: bytes) -> Iterator[tuple[int, Any]]:
    """Numbers of fields and their values: integers, or bytes."""
    at = 0
    while at < len(data):
        key, at = _varint(data, at)
        kind = key & 7
        if kind == 0:
            value, at = _varint(data, at)
            yield key >> 3, value
            continue
        size = {1: 8, 5: 4}.get(kind)
        if size is None:
            if kind != 2:
                raise ValueError("a field of an unknown kind")
            size, at = _varint(data, at)
        if at + size > len(data):
            raise IndexError
        yield key >> 3, data[at : at + size]
        at += size


def _tensor(data: bytes) -> Any:
    kind, shape, content, numbers = 0, [], b"", []
    for field, value in _fields(data):
        if field == 1:
            kind = value
        elif field == 2:
            for _, size in _fields(value):
                shape.append(next((n for inner, n in _fields(size) if inner == 1 and isinstance(n, int)), 0))
        elif field == 4:
            content = value
        elif _LISTS.get(field):
            numbers += np.frombuffer(value, _LISTS[field]).tolist()
        elif field in _LISTS:
            numbers += [value] if isinstance(value, int) else _packed(value)
    if kind not in _TYPES:
        return None
    if kind == 19 and numbers:
        content = np.array(numbers, "<u2").tobytes()
    numbers = [n - (1 << 64) if n >> 63 else n for n in numbers] if kind in (3, 9) else numbers
    array = np.frombuffer(content, _TYPES[kind]).astype(float) if content else np.array(numbers, float)
    count = math.prod(shape)
    if array.size == 1 < count <= _MOST:
        array = np.full(count, array[0])
    if array.size != count or len(shape) > 2 or not count:
        return None
    return array.reshape(shape) if shape else float(array[0])


def _packed(data: bytes) -> Iterator[int]:
    at = 0
    while at < len(data):
        value, at = _varint(data, at)
        yield value


def _values(summary: bytes) -> Iterator[tuple[str, Any]]:
    for field, value in _fields(summary):
        tag, number = "", None
        for inner, x in _fields(value) if field == 1 else ():
            if inner == 1:
                tag = x.decode(errors="replace")
            elif inner == 2:
                number = struct.unpack("<f", x)[0]
            elif inner == 8:
                number = _tensor(x)
        if number is not None:
            yield tag, number


def _events(source: Source, log: Log) -> Iterator[bytes]:
    """The events of the file's records, up to the first one that is damaged or cut short."""
    data, raw = source.data, np.frombuffer(source.data, np.uint8)
    at, count, is_damaged = 0, 0, False

    def differs(begin: Any, size: Any) -> Any:
        stored = raw.take((begin + size)[:, None] + np.arange(4), mode="clip").view("<u4")[:, 0]
        return masked_crc32c(raw, begin, size) != stored

    while not is_damaged and at + 12 <= len(data):
        places: list[tuple[int, int]] = []  # of events, with their sizes
        while at + 12 <= len(data) and len(places) < _AT_ONCE:
            (size,) = struct.unpack_from("<Q", data, at)
            places.append((at + 12, min(size, len(data))))
            at += places[-1][1] + 16
        begin, sizes = np.array(places).T
        is_whole = begin + sizes + 4 <= len(data)  # all but perhaps the last one of the file
        damaged = differs(begin - 12, np.full(len(begin), 8)) | (is_whole & differs(begin, sizes * is_whole))
        good = int(np.argmax(np.append(damaged | ~is_whole, True)))
        for place, size in places[:good]:
            yield data[place : place + size]
        count += good
        is_damaged = bool(damaged[good : good + 1].any())
    if at == len(data) and not is_damaged:
        return
    if not log.order and not count:
        raise log.error("no event file of TensorBoard, or a damaged one")
    what = "its last record was cut short: left out"
    if is_damaged:
        what = f"the checksum of record {count + 1} differs: it and all that follows in this file are left out"
    log.messages.append(f"{source.path}: {what}")  # the log may be of a folder


def _reads(source: Source, log: Log, options: Any) -> None:
    numbers, odd = 0, 0
    for event in _events(source, log):
        step, is_start = 0, False
        found: list[tuple[str, Any]] = []
        try:
            for field, value in _fields(event):
                if field == 2:
                    step = value
                    if step >= 1 << 64:
                        raise ValueError("a step of more than 64 bits")
                elif field == 5:
                    found += _values(value)
                elif field == 7:
                    is_start |= any(inner == 1 and x == 1 for inner, x in _fields(value))  # of a SessionLog
        except (AttributeError, IndexError, OverflowError, TypeError, ValueError, struct.error):
            raise log.error("no event file of TensorBoard, or a damaged one") from None
        numbers += sum(np.size(number) for _, number in found)
        if numbers > 16 * len(source.data) + (1 << 20):
            raise log.error(f"its tensors state {numbers} numbers or more, and hold almost none of them")
        if is_start and step and whole(step) is not None:
            log.restarts.append((log.order + 1, step))  # purge_step of a SummaryWriter
        if whole(step) is None and found:
            odd, found = odd + 1, []
        for tag, number in found:
            log.put(step, {tag: number}, alone=True)
    if odd:
        log.say(f"events with a step below 0, or from 10^15 on: {odd} left out")
    log.step_found = "step"


def _folder(path: str, options: Any) -> Optional[list[Log]]:
    """Event files of one folder follow each other; folders in it are distinguished by their names."""
    logs, links = [], []
    for folder, folders, files in os.walk(path):
        folders.sort()
        links += [name for name in (os.path.join(folder, part) for part in folders) if os.path.islink(name)]
        events = sorted(file for file in files if "tfevents" in file)
        if events:
            logs.append(Log(folder, options.step, options.keep_later))
            for file in events:
                _reads(Source(os.path.join(folder, file), path), logs[-1], options)
    for link in links if logs else []:
        logs[0].say(f"{link} is a link to a folder: left out; import it by its own name")
    with_values = [log for log in logs if log.columns]
    return with_values or logs or None


def _summed(data: bytes) -> bytes:
    return data + struct.pack("<I", masked_crc32c(np.frombuffer(data, np.uint8), np.array([0]), np.array([len(data)]))[0])


def record_of(event: bytes) -> bytes:
    """An event with its size, and the checksum of each."""
    return _summed(struct.pack("<Q", len(event))) + _summed(event)


def _record(step: int, tag: str, value: float) -> bytes:
    """An event with a scalar."""
    inner = b"\x0a" + bytes([len(tag)]) + tag.encode() + b"\x15" + struct.pack("<f", value)
    summary = b"\x0a" + bytes([len(inner)]) + inner
    event = b"\x09" + struct.pack("<d", 0) + b"\x10" + bytes([step]) + b"\x2a" + bytes([len(summary)]) + summary
    return record_of(event)


def _example(path: Path) -> None:
    path.mkdir()
    data = _record(0, "train/loss", 3.5) + _record(10, "train/loss", 2.5) + _record(10, "layers.1.max_logit", 7)
    (path / "events.out.tfevents.1700000000.host").write_bytes(data)


FORMAT = Format(
    name="tensorboard",
    what="event files of TensorBoard, or a folder of them; folders within it are distinguished by their names",
    file="runs",
    example=_example,
    wanted={"loss": {0: 3.5, 10: 2.5}, "attn/max_logit": {10: [None, 7]}},
    knows=lambda source: "tfevents" in source.name,
    reads=_reads,
    folder=_folder,
)
