"""Columns of text with commas, tabs, semicolons or blanks between, those of `maxlogit export` among it."""

from __future__ import annotations

import csv
import io
import re
import warnings
from collections import Counter
from typing import Any, Optional

import numpy as np

from maxlogit.importer._log import EPOCHS, QUALIFIERS, RUNS, TEXT, Log, first_step, number_of, qualifies, whole
from maxlogit.importer._source import Source
from maxlogit.importer.formats._format import Format, Layout

_CHUNK = 1 << 20
_EMPTY = -9e-321  # stands for an empty cell in a chunk of numbers
_POINTS = re.compile(r"[-+]?[1-9]\d{0,2}(\.\d{3})+(,\d*)?")  # of thousands
_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")  # of decimals or of thousands


def _cells(line: str, separator: str) -> list[str]:
    if separator == " ":
        return line.split()
    return [cell.strip() for cell in next(csv.reader([line], delimiter=separator, skipinitialspace=True), [])]


class _Header:
    """The line of names, what export says of its series before it, and what the columns are."""

    def __init__(self, source: Source, log: Log, tables: Any) -> None:
        self.log, self.line = log, 0
        self.names: list[str] = []
        self.points: dict[int, tuple[bool, str]] = {}  # of columns: thousands or not, and the first cell
        units: dict[str, str] = {}
        self.begin = 0  # of the rows
        while self.begin < len(source.text):
            end = source.text.find("\n", self.begin) + 1 or len(source.text)
            line, self.begin = source.text[self.begin : end], end
            self.line += 1
            match = re.match(r"# series (\S+) \[([^]]*)\]", line)
            if match:
                units[match[1]] = match[2]
            if line.strip() and (line[0] != "#" or line.startswith("# step ")):
                self._read(line[2 if line[0] == "#" else 0 :].strip("\r\n"))
                break
        if not self.names:
            raise log.error("no line of names" + ("" if source.text.strip() else ": the file is empty"))
        self.layout = next((layout for layout in (table(self.names) for table in tables) if layout), self._wide(units))
        for column in self.layout.columns:
            unit = column and units.get(re.sub(r":[lhe0-9]+$", "", column[1]))
            if column and unit:
                log.column(column[1], "", column[0]).unit = unit
        if self.layout.name < 0 and self.layout.value >= 0:  # one metric, which the file is named after
            self.layout.columns[self.layout.value] = ("", re.sub(r"\.\w+$|.*tag-", "", source.name))

    def _read(self, line: str) -> None:
        if line.count('"') % 2:
            raise self.log.error('a " without its end', self.line)
        present = [c for c in "\t,; " if c in line.strip()] or [","]
        self.separator = next((c for c in present if any(map(self.log.is_step, _cells(line, c)))), present[0])
        names = self.names = _cells(line, self.separator)
        twice = next((name for name, count in Counter(names).items() if name and count > 1), None)
        if twice:
            raise self.log.error(f"two columns are called '{twice:.60}'", self.line)
        known = [i for i, name in enumerate(names) if self.log.is_step(name)]
        known = known or [i for i, name in enumerate(names) if name in EPOCHS and not self.log.step]
        if not known:
            called = f" called {self.log.step}" if self.log.step else ""
            raise self.log.error(f"no column of steps{called}; --step NAME says which it is", self.line)
        self.step = names.index(first_step([names[i] for i in known], names))
        self.log.step_found = names[self.step]

    def _wide(self, units: dict[str, str]) -> Layout:
        """A column each; "l0h0" is of the one series that export has told."""
        one = next(iter(units)) if len(units) == 1 else None
        columns: list[Optional[tuple[str, str]]] = [
            ("", f"{one}:{name}" if one and re.fullmatch(r"l[lhe0-9]+", name) else name) if name else None
            for name in self.names
        ]
        columns[self.step] = None
        marks = {
            group: tuple(i for i, name in enumerate(self.names) if name in group and i != self.step)
            for group in (RUNS, QUALIFIERS)
        }
        return Layout(columns, runs=marks[RUNS], prefixes=marks[QUALIFIERS])


_POWERS = 10.0 ** np.arange(23)


def _decimals(code: Any, between: Any) -> Any:
    """Numbers of digits alone, with a sign and a point or without: whole numbers below 2^53 over powers of ten. Both are
    exact, so their quotient is the nearest number, as that of strtod, which is slower. None: others are among them."""
    digit = code - 48  # uint8: others are large
    known = digit < 10
    behind = np.cumsum(known, dtype=np.int32)  # digits up to here
    last = behind[between]
    count = np.diff(last, prepend=np.int32(0))
    points = np.flatnonzero(code == 46)
    of_point = np.searchsorted(between, points)
    minus = np.flatnonzero(code == 45)
    of_minus = np.searchsorted(between, minus)
    begin = np.concatenate(([0], between[:-1] + 1))
    if (
        len(between) + int(last[-1]) + len(points) + len(minus) != len(code)
        or not ((count > 0) & (count < 16)).all()
        or (np.diff(of_point) == 0).any()
        or (minus != begin[of_minus]).any()
    ):
        return None
    numbers = _POWERS.take(np.repeat(last, np.diff(between, prepend=-1)) - behind, mode="clip")
    numbers *= digit
    numbers *= known
    numbers = np.add.reduceat(numbers, begin)
    if len(points):
        numbers[of_point] /= _POWERS[last[of_point] - behind[points]]
    numbers[of_minus] *= -1
    return numbers


def _fast(chunk: bytes, header: _Header, decimal: Optional[str]) -> bool:
    """A chunk of whole lines that has numbers alone; False: something else is in it, and nothing was taken."""
    width, separator = len(header.names), header.separator.encode()
    if chunk.translate(None, b"0123456789+-.,;eEinfINFatyATY \t\n"):
        return False
    if decimal == "," and b"." in chunk:
        return False
    if decimal == "," and separator != b",":
        chunk = chunk.replace(b",", b".")
    elif separator != b"," and b"," in chunk:
        return False
    if separator == b" ":
        chunk = re.sub(rb" *\n *", b"\n", re.sub(rb"[ \t]+", b" ", chunk)).strip(b" ")
    blanks = b" " if separator == b"\t" else b" \t"
    if separator != b" " and len(chunk.translate(None, blanks)) < len(chunk):
        pattern = rb"(?<![%b])[%b]*([%b\n])[%b]*" % (blanks, blanks, separator, blanks)
        chunk = re.sub(pattern, rb"\1", chunk).strip(blanks)
        if len(chunk.translate(None, blanks)) < len(chunk):
            return False  # blanks inside of a cell
    while b"\n\n" in chunk:
        chunk = chunk.replace(b"\n\n", b"\n")
    chunk = chunk.lstrip(b"\n")
    empty = repr(_EMPTY).encode()
    while separator * 2 in chunk:
        chunk = chunk.replace(separator * 2, separator + empty + separator)
    chunk = chunk.replace(separator + b"\n", separator + empty + b"\n").replace(b"\n" + separator, b"\n" + empty + separator)
    if chunk.startswith(separator):
        chunk = empty + chunk
    code = np.frombuffer(chunk, np.uint8)
    ends = code == 10
    between = np.flatnonzero(ends | (code == separator[0]))
    lines = int(ends.sum())
    if not lines:
        return not chunk
    if len(between) != lines * width or not (code[between[width - 1 :: width]] == 10).all():
        return False
    numbers = _decimals(code, between)
    if numbers is None:
        with warnings.catch_warnings():
            warnings.simplefilter("error", DeprecationWarning)  # what a text brings about, which is read again
            try:
                numbers = np.fromstring(chunk.translate(bytes.maketrans(separator + b"\n", b"  ")).decode("ascii"), sep=" ")
            except (ValueError, DeprecationWarning):
                return False
    if numbers.size != lines * width:
        return False
    table = numbers.reshape(lines, width).T
    steps = table[header.step]
    if not ((steps >= 0) & (steps == np.floor(steps)) & (steps <= 1e15)).all():
        return False
    header.log.put_rows(
        steps,
        {column[1]: (np.ascontiguousarray(x), x != _EMPTY) for column, x in zip(header.layout.columns, table) if column},
    )
    return True


def _take(header: _Header, cells: list[str], line: int, decimal: Optional[str]) -> None:
    log, layout = header.log, header.layout
    if decimal == ",":
        for i, cell in enumerate(cells):
            thousands = bool(_POINTS.fullmatch(cell))
            if thousands or ("." in cell and number_of(cell) is not TEXT):
                first = header.points.setdefault(i, (thousands, cell))
                if first[0] != thousands:
                    points = f"the points of '{first[1]:.40}' and '{cell:.40}' differ: one of them is a decimal point"
                    raise log.error(f"{header.names[i]:.60}: {points}; leave out --decimal=,", line)
                cells[i] = cell.replace(".", "") if thousands else cell
        cells = [re.sub(r"^([-+]?[0-9]*),([0-9]+)", r"\1.\2", cell) for cell in cells]
    if len(cells) != len(header.names):
        raise log.error(f"{len(cells)} columns where the first line names {len(header.names)}", line)
    if not decimal:
        for i, (name, cell) in enumerate(zip(header.names, cells)):
            if (
                "," in cell
                and (header.separator != "," or (i != header.step and number_of(cell) is not TEXT))
                and (layout.columns[i] or i in (header.step, layout.value))
                and _COMMA.fullmatch(cell)
            ):
                hint = "--decimal=, reads it as a decimal comma, --decimal=. as a thousands separator"
                raise log.error(f"{name:.60}: the comma of '{cell:.40}' is ambiguous; {hint}", line)
    step = whole(cells[header.step])
    if step is None:
        if header.names[header.step] not in EPOCHS and number_of(cells[header.step]) is not None:
            raise log.error(f"step '{cells[header.step]:.40}' is not a whole number from 0 on", line)
        log.skipped += 1
        return
    run = " ".join(cells[i] for i in layout.runs if cells[i])
    marks = [
        cells[i] for i in layout.prefixes if cells[i] and (header.names[i] == "rank" or qualifies(header.names[i], cells[i]))
    ]
    prefix = "/".join(mark if number_of(mark) is TEXT else f"rank{mark}" for mark in marks)
    if layout.name >= 0:
        log.put(step, {cells[layout.name]: cells[layout.value]}, prefix, run, line, alone=True)
        return
    values: dict[str, dict[str, str]] = {}
    for i, (column, cell) in enumerate(zip(layout.columns, cells)):
        if column and cell and i not in layout.runs and not (i in layout.prefixes and cell in marks):
            values.setdefault(column[0] or run, {})[column[1]] = cell
    for of, row in values.items():
        log.put(step, row, prefix, of, line)


def read_table(source: Source, log: Log, options: Any, tables: Any) -> None:
    header = _Header(source, log, tables)
    log.of_table = True
    text, decimal = source.text, options.decimal
    plain = not (header.layout.runs or header.layout.prefixes or header.layout.name >= 0)
    plain &= len({column[0] for column in header.layout.columns if column}) == 1
    at, line = header.begin, header.line
    while plain and at < len(text):
        end = text.rfind("\n", at, at + _CHUNK) + 1
        chunk = text[at:end] if end > at else text[at:] + "\n" * (not text.endswith("\n"))
        if '"' in chunk or "#" in chunk or not chunk.isascii() or not _fast(chunk.encode("ascii"), header, decimal):
            break
        line += chunk.count("\n")
        at += len(chunk)
    cut = not text.endswith("\n")
    what = "the last line has no end: its last number may be cut"
    if header.separator == " ":
        rows = ((i, part.split()) for i, part in enumerate(text[at:].splitlines(), 1))
    else:
        reader = csv.reader(io.StringIO(text[at:]), delimiter=header.separator, skipinitialspace=True, strict=True)
        rows = ((reader.line_num, [cell.strip() for cell in row]) for row in reader)
    count = text.count("\n", at) + cut
    csv.field_size_limit(1 << 30)
    try:
        for number, cells in rows:
            if not any(cells) or cells[0].startswith("#"):
                continue
            if cut and number == count and len(cells) < len(header.names):
                what = "the last line was cut short: left out"
            else:
                _take(header, cells, line + number, decimal)
    except csv.Error:
        raise log.error('a " without its end, or something behind it', line + reader.line_num) from None
    if cut:
        log.say(what)


FORMAT = Format(
    name="csv",
    what="a first line of names, then numbers, with commas, tabs, semicolons or blanks between: spreadsheets, Lightning, "
    "`maxlogit export`. An empty cell is a missing value; nan is a NaN of the run",
    file="table.csv",
    example="step,loss,layers.0.attn.1.max_logit\n0,2.5,7\n10,2.25,\n",
    wanted={"loss": {0: 2.5, 10: 2.25}, "attn/max_logit": {0: [[None, 7]]}},
)
