"""Which series a column of another program's log is, by rules or by its name."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Optional

from maxlogit._library import UsageError

MAX_LOGIT = "attn/max_logit"
AXES = {"l": "layer", "h": "head", "e": "expert"}
_WORDS = {
    "l": {"layer", "layers", "block", "blocks", "l"},
    "h": {"head", "heads", "h"},
    "e": {"expert", "experts", "e"},
}
_ATTENTION = {"attn", "attention", "attns"}
_SERIES = {
    "loss": "train/loss loss/train loss_train train_loss training_loss lm_loss train/lm_loss reduced_train_loss "
    "lm-loss-training/lm_loss learning/loss train_loss_step train/loss_step train/CrossEntropyLoss train/ce_loss "
    "loss_metrics/global_avg_loss",
    "val_loss": "val/loss valid/loss validation/loss eval/loss eval_loss loss/val validation_loss val_loss_step valid_loss "
    "validation/lm_loss_value validation_set/lm_loss_value eval/avg_loss dev/loss validation_metrics/loss",
    "test_loss": "test/loss test_set/lm_loss_value",
    "lr": "learning_rate learning-rate train/learning_rate train/lr optim/learning_rate learning/current_learning_rate",
    "grad_norm": "grad-norm gradient_norm train/grad_norm optim/total_grad_norm learning/grad_norm gradient-norm "
    "global_grad_norm actor/grad_norm",
}
ALIASES = {alias.lower(): series for series, names in _SERIES.items() for alias in [series, *names.split()]}

# A letter with its number is a place beside another one (l0.h1, l0h1), behind a colon (:l0), or alone between separators in a
# name of attention: the 1 of l1_loss, loss/l1 and mlp_l1 is none.
_SURE = r"(?<![A-Za-z0-9])[lhe]\d+[._/-]?[lhe]\d+(?![A-Za-z0-9])|(?<=:)[lhe]\d+(?![A-Za-z0-9])"
_LETTERS = (re.compile(_SURE), re.compile(_SURE + r"|(?<![A-Za-z0-9_])[lhe]\d+(?![A-Za-z0-9_])"))
_OF_MAX_LOGIT = re.compile(rf"(?i){_SURE}|(?<![A-Za-z0-9])[lh]\d+(?![A-Za-z0-9])")
_MOST = 1000  # letters of a name that are looked at: some patterns take the square of them
_OF_ATTENTION = re.compile(r"(?i)logit|att(?:ention|n)(?![a-z])")


_HEADS = ":h{h}"  # of a list of the heads of a layer


@dataclass
class Place:
    """A series, the column's pattern with {l}, {h}, {e}, its axes and the place on each."""

    series: str
    pattern: str
    letters: str = ""
    at: tuple[int, ...] = ()
    own: str = ""  # its name where another column has the series
    by_rule: bool = False


def _at(digits: str) -> int:
    """A place; of more digits than any has, the first ones: Python refuses to read thousands."""
    return int(digits.lstrip("0")[:9] or 0)


# --- rules -------------------------------------------------------------------------------------------------


@dataclass
class Rule:
    series: str
    letters: str
    pattern: str
    used: int = 0

    def fits(self, name: str) -> Optional[tuple[int, ...]]:
        """The places that a name has."""
        parts = re.split(r"\{([lhe])\}", self.pattern)
        regex = "".join(f"(?P<{part}>[0-9]+)" if i % 2 else re.escape(part) for i, part in enumerate(parts))
        match = re.fullmatch(regex, name)
        if not match:
            return None
        self.used += 1
        return tuple(_at(match[letter]) for letter in self.letters)


def _rule(text: str) -> Rule:
    before, _, pattern = text.partition("=")
    series, bracket, inside = before.partition("[")
    if not pattern or not series or len(series) > 95:
        raise UsageError(f"--map '{text:.200}': SERIES=NAME or SERIES[l,h]=PATTERN is wanted")
    if series != "-" and not is_series_name(series):
        raise UsageError(f"--map '{text:.200}': a series may have letters, digits and _ - . /")
    letters = re.sub(r"[, ]", "", inside.split("]")[0]) if bracket else ""
    if (
        len(letters) > 2
        or len(set(letters)) < len(letters)
        or any(x not in AXES or pattern.count("{" + x + "}") != 1 for x in letters)
    ):
        raise UsageError(
            f"--map '{text:.200}': in brackets l (layer), h (head), e (expert), each once in the pattern as {{l}}"
        )
    for x in AXES:
        if "{" + x + "}" in pattern and x not in letters and series != "-":
            raise UsageError(f"--map '{text:.200}': {{{x}}} is in the pattern alone; {series}[{x}]=...")
    return Rule(series, letters, pattern)


def rules_of(texts: list[str]) -> list[Rule]:
    """Of "RULE,RULE": commas between, not those in brackets before =; \\ before a comma of a name."""
    rules = []
    for text in texts:
        rule, inside, named = "", False, False
        at = 0
        while at <= len(text):
            c = text[at : at + 1]
            inside = (inside or (c == "[" and not named)) and c != "]"
            named |= c == "="
            if c == "\\" and at + 1 < len(text):
                at += 1
                rule += text[at]
            elif c and (c != "," or inside):
                rule += c
            else:
                if rule:
                    rules.append(_rule(rule))
                rule, named = "", False
            at += 1
    return rules


# --- by its name ---------------------------------------------------------------------------------------------


def is_series_name(name: str) -> bool:
    return bool(re.fullmatch(r"[A-Za-z0-9_.-]+(/[A-Za-z0-9_.-]+)*", name)) and len(name) < 96


# Words of names that have "max" and "attention" or "logit", and are no largest logit of attention.
_OTHERWISE = re.compile(
    r"abs|entropy|argmax|(?<![a-z])(?:mean|avg|min|grad|prob|weight|out|output|memory|gate|loss|acc|accuracy)s?(?![a-z])"
)


def is_max_logit(name: str) -> bool:
    name = name.lower()
    own = name[name.rfind("/", 0, max(name.rfind("max"), 0)) + 1 :]  # without the groups that it is in
    of_others = re.search(r"router|lm_head", name) or _OTHERWISE.search(own)
    return "max" in name and any(word in name for word in ("logit", "attn", "attention")) and not of_others


def _find_places(name: str) -> list[tuple[str, int, int]]:
    """Numbers of layers, heads and experts: behind such a word, or, behind a layer's, the one that follows something of
    attention or stands behind a max logit. Each (letter, begin, end)."""
    name = name[:_MOST]
    found: dict[bool, tuple[str, int, int]] = {}  # a layer, something else
    logit, end_before = is_max_logit(name), -9
    alone = _OF_MAX_LOGIT if logit else _LETTERS[bool(_OF_ATTENTION.search(name))]
    letters = [match.span() for match in alone.finditer(name)]
    for match in re.finditer(r"[0-9]+", name):
        before = name[max(0, match.start() - 40) : match.start()]
        word = re.search(r"([A-Za-z]*)[._/\-\[ ]*$", before)[1].lower()  # type: ignore[index]
        letter = next((letter for letter, words in _WORDS.items() if word in words), "")
        glued = len(word) == 1 and name[match.start() - 1].isalpha()
        if glued and not any(begin < match.start() < end for begin, end in letters):
            letter = ""
        follows = bool(re.fullmatch(r"[._/\-]", name[end_before : match.start()]))  # directly behind a layer's
        last = match.end() == len(name) and word in ("logit", "logits")
        if letter == "h" and word == "h" and True not in found and "." in name:
            letter = "l"  # transformer.h.3: blocks of GPT-2
        elif not letter and True in found and (word in _ATTENTION or (logit and (follows or last))):
            letter = "h"
        elif not letter and logit and (last or (word in _ATTENTION and re.match(r"[._/\-][0-9]", name[match.end() :]))):
            letter = "l"
        if letter and (letter == "l") not in found:
            found[letter == "l"] = (letter, match.start(), match.end())
            end_before = match.end() if letter == "l" else -9
    if True not in found and found.get(False, " ")[0] == "h":
        return []  # heads of no layer
    return sorted(found.values(), key=lambda place: place[1])


def name_of(pattern: str) -> str:
    """A series' name: what is between the places and the words before these, of letters that a name may have."""
    words = "|".join(sorted(set().union(*_WORDS.values()), key=len, reverse=True))
    out = re.sub(rf"(?:[._/\-]*(?<![A-Za-z])(?:{words})[._/\-\[ ]*)?\{{[lhe]\}}", "", pattern[:_MOST], flags=re.IGNORECASE)
    out = re.sub(r"[^A-Za-z0-9_./-]", "_", out)
    out = re.sub(r"([._/-])[._/-]+", r"\1", out).strip("._/-")
    return out[:90].rstrip("._/-") or "unnamed"


def place(rules: list[Rule], prefix: str, name: str, list_axes: int = 0) -> Optional[Place]:
    """By the first rule that fits, else by its name; None: it is left out. Of a list (its elements are NAME:l0 or NAME:l0h0)
    all elements have one pattern."""
    full = f"{prefix}/{name}" if prefix else name
    lists = ":l{l}h{h}"[: 5 * list_axes - list_axes // 2]
    for rule in rules:
        if list_axes and rule.pattern in (full + lists, full):
            rule.used += 1
            letters = rule.letters or "lh"[:list_axes]
            return None if rule.series == "-" else Place(rule.series, full + lists, letters, (), rule.series, True)
        of_heads = list_axes == 1 and rule.letters == "lh" and rule.pattern.endswith(_HEADS)
        at = Rule(rule.series, "l", rule.pattern[: -len(_HEADS)]).fits(full) if of_heads else rule.fits(full)
        if at is not None:
            rule.used += of_heads
            if list_axes and not of_heads and rule.series != "-":
                raise UsageError(
                    f"--map: {full:.200} is a list; {rule.series}[l,h]={rule.pattern}{_HEADS} if it is one of heads"
                )
            return None if rule.series == "-" else Place(rule.series, rule.pattern, rule.letters, at, rule.series, True)
    places = _find_places(name) if list_axes == 0 or (list_axes == 1 and is_max_logit(name)) else []
    if list_axes and [letter for letter, _, _ in places] != ["l"]:
        places = []
    pattern = name
    for letter, begin, end in reversed(places):
        pattern = f"{pattern[:begin]}{{{letter}}}{pattern[end:]}"
    base, colon, _ = name.rpartition(":")
    own = name_of(base if colon and places and re.fullmatch(r"[lhe0-9]+", name[len(base) + 1 :]) else pattern)
    pattern += _HEADS if list_axes and places else lists
    plain = ALIASES.get(name.replace(" ", "_").lower(), own)
    if prefix:
        own = f"{name_of(prefix)}/{plain}"
    series = ALIASES.get(full.replace(" ", "_").lower(), own if prefix else plain)
    ours = (colon or list_axes) and name.startswith(("attn/", "probe/"))
    if is_max_logit(name) and not ours and (places or list_axes or not is_series_name(name) or "/" not in name):
        series = f"{name_of(prefix)}/{MAX_LOGIT}" if prefix else MAX_LOGIT
    by_letter = sorted(places, key=lambda found: found[0] != "l")
    letters = "lh"[: list_axes + len(places)] if list_axes else "".join(found[0] for found in by_letter)
    at = tuple(_at(name[begin:end]) for _, begin, end in by_letter)
    return Place(series, f"{prefix}/{pattern}" if prefix else pattern, letters, at, own)
