"""libmaxlogit.so.1 by ctypes: its structs, its functions, its errors as exceptions."""

from __future__ import annotations

import ctypes as c
import os
from pathlib import Path
from typing import Any

NAME = "libmaxlogit.so.1"


class MaxlogitError(RuntimeError):
    """Something failed while it was done: a full disk, a damaged file, a file that another process writes."""


class UsageError(MaxlogitError, ValueError):
    """What was asked for cannot be: an unknown series, a shape that does not fit, a file that is none."""


class MissingFile(UsageError, FileNotFoundError):
    """There is no file of that name."""

    def __init__(self, number: int, text: str, path: Any) -> None:
        super().__init__(number, text, path)
        self.errno, self.strerror, self.filename = number, text, path  # with several bases only Python 3.14 sets them

    def __str__(self) -> str:
        return f"{self.filename}: {self.strerror}"


class Error(c.Structure):
    _fields_ = [("status", c.c_int), ("text", c.c_char * 2048)]


class Setting(c.Structure):
    _fields_ = [("key", c.c_char_p), ("value", c.c_char_p)]


class RecordOptions(c.Structure):
    _fields_ = [
        ("mode", c.c_int),
        ("settings", c.POINTER(Setting)),
        ("settings_count", c.c_long),
        ("data", c.c_char_p),
        ("whole", c.c_int),
    ]


class SeriesOf(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("rows", c.c_int),
        ("axes", c.c_int),
        ("axis_name", c.c_char_p * 2),
        ("size", c.c_long * 2),
        ("unit", c.c_char_p),
        ("long_name", c.c_char_p),
        ("definition", c.c_char_p),
    ]


class Block(c.Structure):
    _fields_ = [("number", c.c_int), ("count", c.c_long), ("step", c.c_void_p), ("values", c.c_void_p)]


class Facts(c.Structure):
    _fields_ = [
        ("id", c.c_char_p),
        ("date", c.c_char_p),
        ("state", c.c_char_p),
        ("data", c.c_char_p),
        ("last_step", c.c_long),
        ("wall_seconds", c.c_double),
    ]


class Values(c.Structure):
    _fields_ = [
        ("name", c.c_char * 96),
        ("unit", c.c_char * 32),
        ("long_name", c.c_char * 128),
        ("definition", c.c_char * 1024),
        ("axes", c.c_int),
        ("axis_name", (c.c_char * 64) * 2),
        ("size", c.c_long * 2),
        ("rows", c.c_long),
        ("width", c.c_long),
        ("step", c.POINTER(c.c_double)),
        ("value", c.POINTER(c.c_double)),
    ]


class EventOf(c.Structure):
    _fields_ = [
        ("step", c.c_long),
        ("kind", c.c_char * 24),
        ("layer", c.c_int),
        ("head", c.c_int),
        ("value", c.c_double),
    ]


class Attention(c.Structure):
    _fields_ = [
        ("batch", c.c_long),
        ("heads", c.c_long),
        ("kv_heads", c.c_long),
        ("queries", c.c_long),
        ("keys", c.c_long),
        ("size", c.c_long),
        ("number", c.c_int),
        ("q", c.c_void_p),
        ("k", c.c_void_p),
        ("q_stride", c.c_long * 3),
        ("k_stride", c.c_long * 3),
        ("scale", c.c_double),
        ("causal", c.c_int),
        ("window", c.c_long),
        ("first", c.c_void_p),
        ("end", c.c_void_p),
    ]


class SpectrumOf(c.Structure):
    _fields_ = [
        (name, c.c_double)
        for name in (
            "spectral_norm",
            "frobenius_norm",
            "svd_entropy",
            "effective_rank_p",
            "effective_rank_r",
            "stable_rank",
        )
    ]


class Clip(c.Structure):
    _fields_ = [
        ("tau", c.c_double),
        ("alpha", c.c_double),
        ("scope", c.c_int),
        ("gqa", c.c_int),
        ("mla", c.c_int),
    ]


P, TEXT, LONG, INT, REAL = c.c_void_p, c.c_char_p, c.c_long, c.c_int, c.c_double
ERROR = c.POINTER(Error)
_FUNCTIONS: dict[str, tuple[Any, list[Any]]] = {
    "record_open": (INT, [P, TEXT, c.POINTER(RecordOptions), ERROR]),
    "record_last_step": (LONG, [P]),
    "record_series": (INT, [P, c.POINTER(SeriesOf), c.POINTER(INT), ERROR]),
    "record_axis": (INT, [P, TEXT, LONG, c.POINTER(TEXT), ERROR]),
    "record_put": (INT, [P, INT, P, c.c_size_t, ERROR]),
    "record_row": (INT, [P, LONG, ERROR]),
    "record_blocks": (INT, [P, c.POINTER(Block), INT, ERROR]),
    "record_event": (INT, [P, LONG, TEXT, INT, INT, REAL, ERROR]),
    "record_note": (INT, [P, TEXT, ERROR]),
    "record_snapshot": (INT, [P, ERROR]),
    "record_clear": (INT, [P, ERROR]),
    "record_close": (INT, [P, TEXT, ERROR]),
    "record_discard": (None, [P]),
    "run_open": (INT, [P, TEXT, ERROR]),
    "run_close": (None, [P]),
    "run_facts": (None, [P, c.POINTER(Facts)]),
    "run_setting_at": (INT, [P, LONG, c.POINTER(TEXT), c.POINTER(TEXT)]),
    "run_series_at": (TEXT, [P, LONG, c.POINTER(LONG)]),
    "run_read": (INT, [P, TEXT, c.POINTER(Values), ERROR]),
    "values_free": (None, [c.POINTER(Values)]),
    "run_place": (INT, [P, TEXT, LONG, P, c.c_size_t]),
    "run_events": (INT, [P, c.POINTER(c.POINTER(EventOf)), c.POINTER(LONG), ERROR]),
    "events_free": (None, [c.POINTER(EventOf)]),
    "run_note_at": (INT, [P, LONG, c.POINTER(TEXT), c.POINTER(TEXT)]),
    "attention_maxima": (INT, [c.POINTER(Attention), P, P, P, ERROR]),
    "head_spectra": (INT, [P, LONG, LONG, LONG, P, ERROR]),
    "form_spectra": (INT, [P, LONG, P, LONG, LONG, LONG, P, ERROR]),
    "form_bounds": (INT, [P, LONG, P, LONG, LONG, LONG, P, REAL, P, ERROR]),
    "clip_factors": (INT, [c.POINTER(Clip), P, LONG, LONG, P, P, P, ERROR]),
    "clip_factors_mla": (INT, [c.POINTER(Clip), P, LONG, P, P, P, P, P, ERROR]),
}


def library_path() -> str:
    """Where the library is taken from: MAXLOGIT_LIBRARY, this package, or wherever the system has it."""
    given = os.environ.get("MAXLOGIT_LIBRARY")
    if given:
        return given
    carried = Path(__file__).parent / NAME
    return str(carried) if carried.is_file() else NAME


def _load() -> c.CDLL:
    path = library_path()
    try:
        library = c.CDLL(path)
    except OSError as problem:
        raise ImportError(
            f"maxlogit: {path} cannot be loaded ({problem}). Build it (`make lib` in maxlogit's sources) and set "
            "MAXLOGIT_LIBRARY to it, or install it; it needs what maxlogit needs: HDF5, OpenBLAS, LAPACKE, GSL, "
            "xxHash, Jansson"
        ) from problem
    for name, (result, arguments) in _FUNCTIONS.items():
        function = getattr(library, "maxlogit_" + name)
        function.restype, function.argtypes = result, arguments
    return library


lib = _load()


def call(name: str, *arguments: Any) -> None:
    """Call a function that can fail, which has the error as its last argument."""
    error = Error()
    status = getattr(lib, "maxlogit_" + name)(*arguments, c.byref(error))
    if status:
        text = error.text.decode(errors="replace")
        raise UsageError(text) if status == 2 else MaxlogitError(text)


def place(path: str) -> str:
    """The path from the root, so that it stays valid when the program changes its folder. Links are kept as they are."""
    return os.path.join(os.getcwd(), path) if path and not os.path.isabs(path) else path


def text(value: Any) -> bytes:
    """UTF-8, or the bytes of a file's name that is none; a NUL inside would cut it."""
    encoded = str(value).encode(errors="surrogateescape")
    if b"\0" in encoded:
        raise UsageError(f"{value!r}: a text with a NUL")
    return encoded
