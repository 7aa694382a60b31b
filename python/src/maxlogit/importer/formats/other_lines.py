"""Lines of any program: a position (a step, an epoch, a place in an epoch), and pairs of names and numbers."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Optional

from maxlogit.importer._log import TEXT, Unread, with_suffix
from maxlogit.importer.formats._format import NUMBER, Format, Printed, Row

_MODE = r"(?:\s?\((?P<mode>train|val|valid|test|eval)\))?"
_OPEN = r"[\s:=#\[(]{0,8}"
_PERCENT = r"(?:\s{0,3}\(\s{0,3}[\d.]+\s?%\s?\))?"
_PLACE = (
    rf"[\])]?{_PERCENT}[\s,:|]{{0,8}}\[?\s{{0,8}}(?P<at>\d{{1,15}})"
    rf"\s{{0,6}}/\s{{0,6}}(?P<total>\d{{1,15}})(?![\d./]){_PERCENT}[\])]?"
)
_EPOCHS = tuple(
    re.compile(pattern)
    for pattern in (
        r"^\s*\[(?P<epoch>\d{1,15}), +(?P<at>\d{1,15})\](?=.*(?i:loss))",
        r"(?<!\w)(?P<epoch>\d{1,15})epoch:(?P<mode>\w+):(?:\d+-)?(?P<at>\d{1,15})batch",
        rf"(?i)(?<!\w)train:?\s{{1,6}}\[?(?P<epoch>\d{{1,15}})(?:/\d+)?(?=[\s(\]]{{1,4}}[\d\[]){_PLACE}",
        rf"(?i)(?<![\w./])ep(?:och)?{_MODE}\.?{_OPEN}(?P<epoch>\d{{1,15}})(?!\d|\.\d|%)(?:\s?/\s?\d+(?=[\])\s,:|]|$))?(?:{_PLACE})?[\])]?",
    )
)
_BAR = re.compile(r"^\s*(?P<at>\d{1,15})/(?P<total>\d{1,15}) (?:\[[=>.]{5,}\]|[\u2501\u2578\u257a]{5,})")  # of Keras
_STEP = re.compile(
    r"(?i)(?<![\w/.-])(?:(?!num_|global|acc_)(?P<before>[a-z]+)[ _-])?"
    r"(?P<word>global[_ ]?step|num_update|acc_iter|step|iteration|iter|update|up\.|batch)(?P<many>s?)"
    rf"{_MODE}(?![\w/]){_OPEN}(?P<at>\d{{1,15}})(?!\d|\.\d|[KMGkms%]\b)"
    rf"(?:\s{{0,6}}/\s{{0,6}}(?P<total>\d{{1,15}}))?{_PERCENT}\]?"
)
_BEGIN = re.compile(
    r"^\s*(?:(?P<a>\d{1,15})(?= \|)|\[(?P<b>\d{1,15})(?: \||\]\t))|(?<![\w.])(?P<c>\d{1,15})(?:\.0)?it/\d{1,15}it\b"
)
_RANKS = ("batch", "up.", "update", "iter", "iteration", "step", "acc_iter", "num_update", "globalstep")
_NUMBER_OF = {  # before "step": how many, not which
    *("per", "max", "total", "num", "number", "of", "warmup", "every", "each", "log", "logging", "save", "saving", "skipped"),
    *("nan", "accumulation", "decay", "remaining", "time", "by", "sampling", "inference", "denoising", "gradient", "min"),
    *("last", "best"),
}
_MANY = {*_NUMBER_OF, "eval", "evaluation", "val", "validation", "test"}
_WORD = r"[A-Za-z_][\w/.@-]{0,95}"
_NAME = rf"(?P<name>{_WORD}(?: {_WORD}){{0,3}}"
_PAIRS = (
    re.compile(rf"(?<![\w/.@%=-]){_NAME}(?: ?\([^()=:]{{1,30}}\))?)\s{{0,8}}[=:]\s{{0,16}}{NUMBER}"),
    re.compile(rf"(?:^|[|,;:\t])\s{{0,8}}{_NAME}) {{1,16}}{NUMBER}(?=\s*(?:[|,;:()\[]|$))"),
)
_GROUP = re.compile(r"([A-Za-z_]\w{0,60})\[([^\[\]=]{1,60}=[^\[\]]*)\]")  # loss[of_a=1, of_b=2]
_SET = re.compile(r"(?i)(?<![\w/.'-])(val|valid|validate|validation|eval|evaluation|evaluating|test|testing|dev)(?![\w/.'-])")
_TRAIN = re.compile(r"(?i)(?<![\w/.-])train(?:ing)?(?![\w/.-])")
_LOSS = re.compile(r"(?i)loss|perplexity|ppl|nll|xent|entropy|cost|bpb")
_RATE = re.compile(r"(?i)(?:lr|learning.rate|grad.?norm)$")
_LEVELS = re.compile(r"^(?:(?:INFO|DEBUG|WARNING|root|main) )+")


def pairs(text: str) -> tuple[dict[str, Any], str]:
    """Values by name, and what is left of the text."""
    values: dict[str, Any] = {}
    rest = text
    for pattern in _PAIRS:
        for match in pattern.finditer(text):
            number = with_suffix(match["value"], match["suffix"].rstrip(".:"))
            bare = pattern is not _PAIRS[0]
            if number is not TEXT and number is not None and not (bare and type(number) is Unread):
                values.setdefault(_LEVELS.sub("", match["name"]), number)
            rest = rest.replace(match[0], "|")
        text = rest
    return values, rest


def _rank(word: str) -> int:
    return _RANKS.index(word.lower().replace("global_", "global").replace("global ", "global"))


def _position(line: str, state: Printed) -> tuple[Optional[Row], str]:
    """Where in a run a line is, and the rest of it."""
    row = None
    bar = _BAR.match(line) if state.epoch is not None and "/" in line else None
    place = bar or next(filter(None, (pattern.search(line) for pattern in _EPOCHS)), None)
    if place:
        found = place.groupdict()
        at, total = found.get("at"), found.get("total")
        row = Row(None, {}, found.get("mode") or "", epoch=state.epoch if bar else int(found["epoch"]), within=at is not None)
        row = row._replace(at=None if at is None else int(at), total=int(total or 0))
        line = f"{line[: place.start()]}|{line[place.end() :]}"
    steps = [m for m in _STEP.finditer(line) if (m["before"] or "").lower() not in (_MANY if m["many"] else _NUMBER_OF)]
    best = max(steps, key=lambda match: _rank(match["word"]), default=None)
    if best and (row or _rank(best["word"])):
        whole = _rank(best["word"]) > _RANKS.index("step")
        if whole or row is None or row.at is None:
            epoch = row.epoch if row else state.epoch
            row = Row(None, {}, row.prefix if row else "", None if whole else epoch, int(best["at"]), int(best["total"] or 0))
            row = row._replace(prefix=row.prefix or best["mode"] or "", within=not _rank(best["word"]) and row.total > 0)
        for match in reversed(steps):
            line = f"{line[: match.start('word')]}|{line[match.end() :]}"
    begin = None if row else _BEGIN.search(line)
    if begin:
        row, line = (
            Row(None, {}, at=int(next(filter(None, begin.groups())))),
            f"{line[: begin.start()]}|{line[begin.end() :]}",
        )
    return row, line


def line(line: str, state: Printed) -> Optional[Row]:
    if not any(c.isdigit() for c in line):
        return None
    row, rest = _position(line, state)
    if not row:
        if "loss" in line.lower() and any(_LOSS.search(name) for name in pairs(line)[0]):
            state.log.unplaced.append(state.log.lines)
        return None
    values: dict[str, Any] = {}
    for name, inside in _GROUP.findall(rest):
        found, _ = pairs(inside)
        values.update((f"{name}/{key}", x) for key, x in found.items())
    found, rest = pairs(_GROUP.sub("|", rest))
    values.update(found)
    begins = row.at is not None and bool(values) and not re.search("[A-Za-z]", rest)  # the line has nothing else
    if not begins and not any(_LOSS.search(name) or (_RATE.search(name) and row.at is not None) for name in values):
        if row.epoch is not None and not values:
            state.epoch = row.epoch  # it holds for the lines below
        return None
    of = _SET.search(rest) if not row.prefix and not _TRAIN.search(rest) else None
    prefix = of[1].lower() if of else row.prefix.lower()
    if prefix and not prefix.startswith("train"):
        prefix = "test" if prefix.startswith("test") else "val"
        values = {name if _SET.search(re.sub(r"[\W_]", " ", name)) else f"{prefix}/{name}": x for name, x in values.items()}
    else:
        prefix = ""
    row = row._replace(values=values, prefix="", set=prefix)
    return row._replace(step=row.at) if row.epoch is None else row


def settle(rows: list[Row], state: Printed) -> list[Row]:
    """Rows with their steps, where some have a place in an epoch, and others an epoch alone. The rows show whether places
    begin anew with each epoch: then the steps of the whole run are counted with the epochs' length."""
    log = state.log
    places = [row for row in rows if row.step is None and row.at is not None and not row.set]
    at = [(row.epoch or 0, row.at or 0) for row in places]
    anew = any(row.within for row in places) or any(a[0] < b[0] and b[1] <= a[1] for a, b in zip(at, at[1:]))
    epochs = [row.epoch for row in rows if row.epoch is not None]
    first = 0 if 0 in epochs else 1
    totals = Counter(row.total for row in places if row.total)
    length = totals.most_common(1)[0][0] if totals else max((row.at or 0 for row in places), default=0)
    if anew and set(epochs) != {first}:
        more = f"; the log has others, too: {sorted(set(totals) - {length})[:3]}" if len(totals) > 1 else ""
        if not totals:
            more = " (their largest step, as the log does not have their length)"
        begin = f", the first of which here is epoch {min(epochs)}" if min(epochs) > 1 else ""
        if more or begin or log.step_found:
            log.say(f"steps count through epochs of {length} steps{more}{begin}")
        log.step_found = f"(epochs of {length})"
    out, last = [], state.last
    for row in rows:
        step = row.step
        if step is None and row.epoch is not None:
            if row.at is not None and not anew:
                step = row.at
            elif row.at is not None and not row.set:
                step = (row.epoch - first) * length + row.at
            elif anew:
                step = (row.epoch - first + 1) * length
            else:
                step = last
        last = last if step is None else step
        out.append(row._replace(step=step))
    return out


FORMAT = Format(
    name="lines",
    what="any other line with a step, an epoch, or a place in an epoch, and pairs NAME=NUMBER or NAME: NUMBER (NAME NUMBER "
    "between bars, commas or semicolons), a loss or a rate among them. Places that begin anew with each epoch are counted on",
    example="INFO epoch 0, Step: 10/100, train_loss=2.5, lr: 1e-3\n",
    wanted={"loss": {10: 2.5}, "lr": {10: 1e-3}},
    line=line,
)
