"""Lines of any program: a position (a step, an epoch, a place in an epoch), and pairs of names and numbers."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from typing import Any, Optional

from maxlogit.importer._log import TEXT, Unread, with_suffix
from maxlogit.importer._names import is_max_logit
from maxlogit.importer.formats._format import NUMBER, Format, Printed, Row

_MODE = r"(?:\s?\((?P<mode>train|val|valid|test|eval)\))?"
_OPEN = r"[\s:=#\[(]{0,8}"
_PERCENT = r"(?:\s{0,3}\(\s{0,3}[\d.]+\s?%\s?\))?"
_PLACE = (
    rf"[\])]?{_PERCENT}[\s,:|]{{0,8}}\[?\s{{0,8}}(?P<at>\d{{1,15}})"
    rf"\s{{0,6}}/\s{{0,6}}(?P<total>\d{{1,15}})(?![\d./]){_PERCENT}[\])]?"
)
_EPOCHS = tuple(  # in small letters: what a line must have, and the form
    (word, re.compile(pattern))
    for word, pattern in (
        ("loss", r"^\s*\[(?P<epoch>\d{1,15}), +(?P<at>\d{1,15})\]"),
        ("epoch:", r"(?<!\w)(?P<epoch>\d{1,15})epoch:(?P<mode>\w+):(?:\d+-)?(?P<at>\d{1,15})batch"),
        ("train", rf"(?<!\w)train:?\s{{1,6}}\[?(?P<epoch>\d{{1,15}})(?:/\d+)?(?=[\s(\]]{{1,4}}[\d\[]){_PLACE}"),
        (
            "ep",
            rf"(?<![\w./])ep(?:och)?{_MODE}\.?{_OPEN}(?P<epoch>\d{{1,15}})(?!\d|\.\d|%)(?:\s?/\s?\d+(?=[\])\s,:|]|$))?"
            rf"(?:{_PLACE})?[\])]?",
        ),
    )
)
_BAR = re.compile(r"^\s*(?P<at>\d{1,15})/(?P<total>\d{1,15}) (?:\[[=>.]{5,}\]|[\u2501\u2578\u257a]{5,})")  # of Keras
_COUNT = r"(?:\d{1,3}(?:(?:,\d{3}){1,4}|(?:_\d{3}){1,4})(?!\d|\.\d)|\d{1,15})"  # perhaps with thousands separators
_STEP = re.compile(
    r"(?P<word>global[_ ]?step|num_update|acc_iter|step|iteration|iter|update|up\.|batch)(?P<many>s?)"
    rf"{_MODE}(?![\w/]){_OPEN}(?P<at>{_COUNT})(?!\d|\.\d|e\d|_\d|[kmgs%]\b|['\u00a0\u202f]\d{{3}}|(?: \d{{3}})+\s?/\s?\d{{1,3}} \d{{3}})"
    rf"(?:\s{{0,6}}/\s{{0,6}}(?P<total>{_COUNT}))?{_PERCENT}\]?"
)
_BEFORE = re.compile(r"(?:^|[^\w/.-])([a-z]+)[ _-]$")
_BEGIN = re.compile(
    r"^\s*(?:(?P<a>\d{1,15})(?= \|)|\[(?P<b>\d{1,15})(?: \||\]\t))|(?<![\w.])(?P<c>\d{1,15})(?:\.0)?it/\d{1,15}it\b"
    r"|logging_writer\.py:\d+\] \[(?P<d>\d{1,15})\]"  # of clu: T5X
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
_OPENS = re.compile(r"\w\[")
_SET = re.compile(r"(?i)(?<![\w/.'-])(val|valid|validate|validation|eval|evaluation|evaluating|test|testing|dev)(?![\w/.'-])")
_NOT_NOW = re.compile(r"(?i)\b(?:next|last|until|since|before|best|every|to|previous|prev|after)\s$")  # and then
_AT = re.compile(r"\s*(?:(?:in|at|every)\b|\d|[|;,)\]])")
# The name of a logger is none of a set, unless it can be nothing else
_LOGGER = re.compile(r"^(?:DEBUG|INFO|WARNING|ERROR):(?!(?:val|valid|validation|eval|evaluation):)[\w.]+:")
_ASIDE = re.compile(  # of a step that was before
    r"(?i)\b(?:best|restor\w*|loaded|loading|early.?stop\w*|resum\w*)\b[^\d=|\].]{0,80}\b(?:step|iter\w*|epoch|update)s?\b"
    r"(?![^\[\]]*\])"  # not in a bracket
)
_ALONE = re.compile(r"(?i)[|(\[]\s*(val|valid|validation|eval|evaluation|test|dev)\s*(?:[|)\]]|$)")
_PLACED = re.compile(r"(?i)(?:step|iter\w*|epoch|update|batch)s?[\s:=#\[(]{0,8}\d")
_LEVEL = re.compile(r"\b(?:INFO|DEBUG|WARNING|ERROR)\b")
_TRAIN = re.compile(r"(?i)(?<![\w/.-])train(?:ing)?(?![\w/.-])")
_LOSS = re.compile(r"(?i)loss|perplexity|ppl|nll|xent|entropy|cost|bpb")
_RATE = re.compile(r"(?i)(?:lr|learning.rate|grad.?norm)$")
_OF_ALL = re.compile(
    r"(?i)(?:^|[_/ ])(?:lr|learning.rate|grad.?norm|(?:\w+_)?time|eta|elapsed|mem\w*|speed|\w+/s(?:ec)?|tok\w*)$"
)
_SOURCE = re.compile(r"\| [\w.]+(?::[\w<>]+)?:\d+ - |\([\w.]+:\d+\) (?=[A-Z]+:)")  # where it was printed: of loguru, ESPnet
_LEVELS = re.compile(r"^(?:(?:INFO|DEBUG|WARNING|root|main) )+")


# Behind a number: more of it, as in 1 048 576, or others
_CUT = re.compile(r"(?:['\u00a0\u202f]\d{3})+(?!\d)|(?: \d{3})+(?=\s*(?:[|,;)\]]|$))")
_MORE = re.compile(r"(?:[\s,]{1,4}[-+]?\d+(?:\.\d*)?(?:[eE][-+]?\d+)?)+(?=\s*(?:[,;|\])]|$))")
_LIST = re.compile(rf"(?<![\w/.@%=-]){_NAME})\s{{0,8}}[=:]\s{{0,16}}(?P<value>\[[-+\d.]+[\s,]+[-+\d.][^|=:]{{0,60}})")


def pairs(text: str) -> tuple[dict[str, Any], str]:
    """Values by name, and what is left of the text."""
    values: dict[str, Any] = {}
    for bare, pattern in enumerate(_PAIRS):
        rest, end = [], 0
        for match in pattern.finditer(text):
            name, value, suffix = match.group("name", "value", "suffix")
            number = with_suffix(value, suffix.rstrip(".:"))
            if (is_max_logit(name) and _MORE.match(text, match.end())) or (
                "." not in value and _CUT.match(text, match.end("value"))
            ):
                number = Unread(text[match.start("value") : match.end() + 40])  # which is meant is not guessed
            if number is not TEXT and number is not None and not (bare and type(number) is Unread):
                values.setdefault(_LEVELS.sub("", name) if " " in name else name, number)
            rest.append(text[end : match.start()])
            end = match.end()
        text = "|".join([*rest, text[end:]])
    lists = ((match["name"], Unread(match["value"])) for match in _LIST.finditer(text))
    values.update((name, value) for name, value in lists if name not in values and is_max_logit(name))
    return values, text


def _rank(word: str) -> int:
    return _RANKS.index(word.replace("global_", "global").replace("global ", "global"))


def _is_position(match: re.Match[str], text: str) -> bool:
    """Whether the word stands alone, or behind a word that does not make it a count: "warmup steps: 100"."""
    begin = match.start()
    before = _BEFORE.search(text[max(0, begin - 24) : begin])
    if before:
        return before[1] not in (_MANY if match["many"] else _NUMBER_OF)
    if match["many"] and text[match.end("many") :][:1] == "=" and text[:begin].endswith("_"):
        return False  # a setting: ns_steps=5
    return not begin or not (text[begin - 1].isalnum() or text[begin - 1] in "_/.-")


def _whole(text: str) -> int:
    return int(text.replace(",", ""))


def _position(line: str, state: Printed) -> tuple[Optional[Row], str]:
    """Where in a run a line is, and the rest of it."""
    row = None
    small = line.lower() if line.isascii() else line  # of equal length
    bar = _BAR.match(line) if state.epoch is not None and "/" in line else None
    place = bar or next(filter(None, (pattern.search(small) for word, pattern in _EPOCHS if word in small)), None)
    if place:
        found = place.groupdict()
        at, total = found.get("at"), int(found.get("total") or 0)
        epoch = state.epoch if bar else int(found["epoch"])
        row = Row(None, {}, found.get("mode") or "", epoch, None if at is None else int(at), total, at is not None)
        line, small = (f"{text[: place.start()]}|{text[place.end() :]}" for text in (line, small))
    steps = [match for match in _STEP.finditer(small) if _is_position(match, small)]
    best = max(steps, key=lambda match: _rank(match["word"]), default=None)
    if best and (row or _rank(best["word"])):
        whole = _rank(best["word"]) > _RANKS.index("step")
        if len({match["word"] for match in steps}) > 1 and len({match["at"] for match in steps}) > 1:
            state.counts = best["word"]
        last = state.last_epoch
        if row is None and state.counts and _rank(best["word"]) < _rank(state.counts) and (last, state.last) != (None, None):
            row = Row(None, {}, best["mode"] or "", last, state.last if last is None else None)
        elif whole or row is None or row.at is None:
            epoch = None if whole else row.epoch if row else state.epoch
            total, mode = _whole(best["total"] or "0"), (row.prefix if row else "") or best["mode"] or ""
            row = Row(None, {}, mode, epoch, _whole(best["at"]), total, not _rank(best["word"]) and total > 0)
        ends = [0, *(match.end() for match in steps)]
        line = "|".join([*(line[end : match.start("word")] for end, match in zip(ends, steps)), line[ends[-1] :]])
    begin = None if row else _BEGIN.search(line)
    if begin:
        row, line = (
            Row(None, {}, at=int(next(filter(None, begin.groups())))),
            f"{line[: begin.start()]}|{line[begin.end() :]}",
        )
    return row, line


def _sets(text: str) -> Iterator[re.Match[str]]:
    """Words for a set of text that these numbers are of, not a later or an earlier evaluation's: "next eval in 90 steps"."""
    return (
        match
        for match in _SET.finditer(text)
        if not (_NOT_NOW.search(text[max(0, match.start() - 20) : match.start()]) and _AT.match(text, match.end()))
    )


def _parts(text: str) -> Optional[dict[str, Any]]:
    """Values of a line with training and validation below each other: "train: loss=2.5 | val: loss=2.6"; None: of another."""
    named = [*_sets(text), *_TRAIN.finditer(text)]
    if not named:
        return None
    found_pairs = [match for pattern in _PAIRS for match in pattern.finditer(text)]
    level = max((match.end() for match in _LEVEL.finditer(text)), default=0)
    words = sorted(
        (
            word
            for word in named
            if word.start() >= level and not any(pair.start() <= word.start() < pair.end() for pair in found_pairs)
        ),
        key=lambda word: word.start(),
    )
    comes_twice = max(Counter(match["name"] for match in found_pairs).values(), default=0) > 1
    if not words or not (comes_twice or len({_prefix_of(word.group().lower()) for word in words}) > 1):
        return None
    begins = [0, *(word.start() for word in words)]
    found: dict[str, dict[str, Any]] = {}
    which = ""
    for at, end, word in zip(begins, [*begins[1:], len(text)], [None, *words]):
        values = pairs(text[at:end])[0]
        if word and (word.group().lower().startswith("train") or any(map(_LOSS.search, values))):
            which = _prefix_of(word.group().lower())
        for name, value in values.items():
            if _OF_ALL.search(name):
                which = ""
            found.setdefault(which, {}).setdefault(name, value)
    if len(found) < 2:  # no words behind which there are values
        return None
    return {name: value for which, values in found.items() for name, value in _of_set(which, values).items()}


def _prefix_of(word: str) -> str:
    return "" if word.startswith("train") else "test" if word.startswith("test") else "val"


def _of_set(prefix: str, values: dict[str, Any]) -> dict[str, Any]:
    if not prefix:
        return values
    return {name if _SET.search(re.sub(r"[\W_]", " ", name)) else f"{prefix}/{name}": x for name, x in values.items()}


def _set_of(text: str) -> Optional[str]:
    """Of which set the numbers are: a word before the first loss, or one that stands alone behind it. Before a level, such as
    INFO, dev and test are names of environments."""
    found = [match for pattern in _PAIRS for match in pattern.finditer(text)]
    first = min((match for match in found if _LOSS.search(match["name"])), key=lambda match: match.start(), default=None)
    first = first or min(found, key=lambda match: match.start(), default=None)
    before = text[: first.start()] if first else text
    for pattern in _PAIRS:
        before = pattern.sub("|", before)
    *head, tail = _LEVEL.split(before)
    of = next(_sets(tail), None) or (_ALONE.search(text, first.start()) if first else None)
    named = of or next((match for part in head for match in _SET.finditer(part) if match[1].lower()[0] in "ve"), None)
    return named[1].lower() if named else None


def line(line: str, state: Printed) -> Optional[Row]:
    if not any(c.isdigit() for c in line):
        return None
    aside = _ASIDE.search(line)
    is_aside = bool(aside and not _PLACED.search(line[: aside.start()]))
    counts = state.counts
    row, rest = (None, line) if is_aside else _position(_LOGGER.sub("", _SOURCE.sub("| ", line)), state)
    if not row:
        if "loss" in line.lower() and any(_LOSS.search(name) for name in pairs(line)[0]):
            state.log.unplaced.append(state.log.lines)
        return None
    values: dict[str, Any] = {}
    if _OPENS.search(rest):
        for name, inside in _GROUP.findall(rest):
            values.update((f"{name}/{key}", x) for key, x in pairs(inside)[0].items())
        rest = _GROUP.sub("|", rest)
    of = None if row.prefix else _set_of(rest)
    parts = None if row.prefix else _parts(rest)
    found, rest = pairs(rest)
    values.update(parts or found)
    begins = row.at is not None and bool(values) and not re.search("[A-Za-z]", rest)  # the line has nothing else
    if not begins and not any(_LOSS.search(name) or (_RATE.search(name) and row.at is not None) for name in values):
        state.counts = counts  # a line without a row does not show how steps are counted
        if row.epoch is not None and not values:
            state.epoch = row.epoch  # it holds for the lines below
        return None
    prefix = of if of and not _TRAIN.search(rest) else row.prefix.lower()
    prefix = _prefix_of(prefix) if prefix and not parts else ""
    values = _of_set(prefix, values)
    return Row(row.at if row.epoch is None else None, values, "", row.epoch, row.at, row.total, row.within, prefix)


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
