"""redraw.py PROGRAM FOLDER CHECKPOINT - what is told of runs, made again by numpy from the run files alone

The runs in FOLDER, as redraw.sh makes them, are filled with values of which many are equal, some not finite or not
positive; then compared are metrics (show --of, compare), data and texts of the figures (plot --script), the places of
the largest logits (show, sweep, run), and losses at other contexts. CHECKPOINT is one of others, with experts and two
parts of a head. A number of the program is to have all digits that it prints."""

import fnmatch
import functools
import itertools
import json
import math
import os
import re
import shutil
import subprocess
import sys
from fractions import Fraction

import h5py
import numpy as np

PROGRAM, FOLDER, CHECKPOINT = sys.argv[1:4]
NAN, INF = math.nan, math.inf
MISSING = float("nan")  # this very one: where a series has no row
np.seterr(all="ignore")
compared, wrong = 0, []


def maxlogit(*words, status=0):
    done = subprocess.run([PROGRAM, *words], capture_output=True, text=True, errors="replace", cwd=FOLDER)
    if done.returncode != status:
        wrong.append(f"{' '.join(words)}: exit {done.returncode} instead of {status}: {done.stderr.strip()}")
    return done.stdout


def same(ours, theirs):
    """Their text has all digits of a double, or of a float where the value is one."""
    if isinstance(ours, str) or ours is None or isinstance(theirs, str) or theirs is None:
        return ours == theirs
    if math.isnan(ours) or math.isnan(theirs):
        return math.isnan(ours) and math.isnan(theirs)
    if ours == theirs or abs(ours - theirs) <= 1e-11 * max(abs(ours), abs(theirs)):
        return True
    return (
        abs(ours) < 1e-14 > abs(theirs)
        or abs(ours - theirs) <= 6e-8 * abs(ours)
        and np.float32(theirs) == np.float32(ours)
    )


def compare(what, ours, theirs):
    global compared
    if isinstance(ours, (list, tuple, np.ndarray)):
        if not isinstance(theirs, (list, tuple)) or len(ours) != len(theirs):
            wrong.append(f"{what}: {theirs}, here {list(ours)}")
            return
        for i, pair in enumerate(zip(ours, theirs)):
            compare(f"{what}[{i}]", *pair)
        return
    compared += 1
    if not same(ours, theirs):
        wrong.append(f"{what}: {theirs}, here {ours}")


# --- runs ---------------------------------------------------------------------------------------------------

AXES = {
    "val_loss": "val_step",
    "probe": "probe_step",
    "weight": "spectra_step",
    "update": "spectra_step",
    "head_qk": "spectra_step",
    "head_q": "spectra_step",
    "head_k": "spectra_step",
}


class Run:
    """What a run file has, read by h5py."""

    def __init__(self, name):
        self.name = name
        with h5py.File(os.path.join(FOLDER, name)) as f:
            text = lambda x: x.decode() if isinstance(x, bytes) else str(x)  # noqa: E731
            self.p = {text(r["name"]): text(r["value"]) for r in f["parameters/table"]} if "parameters" in f else {}
            self.series, self.steps = {}, {}
            self.words = {}
            self.tensors = [text(t) for t in f["series/tensor"]] if "series/tensor" in f else []
            f["series"].visititems(lambda n, o: self.take(f, n, o))
            self.events = [text(e["kind"]) for e in f["events"]] if "events" in f else []
            self.clips = [e for e in f["events"] if text(e["kind"]) == "clip"] if "events" in f else []
            self.state, self.last_step = text(f["status"].attrs["state"]), int(f["status"].attrs["last_step"])
            self.floor = float(f.attrs.get("loss_floor", NAN))
            self.id = text(f.attrs["id"])
        self.seed = int(self.p.get("train.seed", 0))
        self.lr, self.decay = float(self.p.get("train.lr", NAN)), float(self.p.get("train.weight_decay", NAN))
        self.diverged = self.state == "diverged"
        at_end = self.state == "stopped" and self.last_step >= float(self.p.get("train.steps", INF))
        self.blown_up = (self.state == "finished" or at_end) and self.blew_up()
        self.failed = self.diverged or self.blown_up
        self.unfinished = self.state in ("stopped", "running") and not self.failed

    def blew_up(self):
        """Do the losses of the last tenth lie a tenth above the first one, or above a uniform guess that was beaten?"""
        steps, x = self.rows("loss")
        x = x.ravel()
        tail = x[steps >= 0.9 * (steps[-1] + 1)] if len(x) > 1 else x
        mean = tail.mean() if len(tail) else x[-1] if len(x) else NAN
        guess = math.log(float(self.p.get("model.vocab", NAN)))
        if len(x) < 2 or not math.isfinite(mean) or not math.isfinite(x[0]):
            return False
        return bool(mean > x[0] * 1.1 or (min(x) < guess and mean > guess * 1.1))

    def take(self, f, name, o):
        if isinstance(o, h5py.Dataset) and o.dtype.kind == "f":
            axis = next((a for key, a in AXES.items() if name.split("/")[0] == key), "step")
            if name.startswith("attn/bound") and "spectra_step" in f["series"] and len(o) != len(f["series/step"]):
                axis = "spectra_step"
            self.series[name] = o[()].astype(float)
            words = str(o.attrs.get("long_name", ""))
            self.words[name] = words if 0 < len(words) <= 32 else name
            self.steps[name] = f["series"][axis][()].astype(float)

    def rows(self, name):
        """Steps, and a flat row each."""
        if name not in self.series:
            return np.zeros(0), np.zeros((0, 1))
        x = self.series[name]
        return self.steps[name], x.reshape(len(x), -1)

    def names(self, name):
        x = self.series[name]
        if x.ndim == 3:
            return [f"l{i}h{k}" for i in range(x.shape[1]) for k in range(x.shape[2])]
        if x.ndim == 2:
            return self.tensors if x.shape[1] == len(self.tensors) else [f"l{i}" for i in range(x.shape[1])]
        return None


def fill(name, seed, kind, state=None, floor=None):
    """Values of a coarse grid, so that many are equal; what is not finite or not positive as `kind` says."""
    rng = np.random.default_rng(seed)
    with h5py.File(os.path.join(FOLDER, name), "r+") as f:

        def put(where, o):
            if not isinstance(o, h5py.Dataset) or o.dtype.kind != "f" or not len(o):
                return
            x = 1 + rng.integers(0, 12, o.shape) / 4
            flat = x.reshape(len(x), -1)
            at = lambda: (rng.integers(len(flat)), rng.integers(flat.shape[1]))  # noqa: E731
            x *= 16 if kind == "large" else 1
            if kind == "constant":
                x[...] = 1.75
            if "negative" in kind:
                flat[at()], flat[at()] = 0, -1.5
            for value, word in ((INF, "inf"), (-INF, "low"), (-NAN, "nan")):  # NaN after the others
                if word in kind.split():
                    flat[at()] = value
            if "last" in kind.split():
                flat[-1, -1] = NAN
            if where == "loss" and seed not in (4, 12, 22):  # the others may have blown up
                top = int(np.argmax(np.where(np.isfinite(flat[:, 0]), flat[:, 0], -INF)))
                flat[[0, top]] = flat[[top, 0]]
            o[...] = x

        f["series"].visititems(put)
        if "late" in kind.split():
            f["series/spectra_step"][...] += 1
        if floor:
            f.attrs["loss_floor"] = floor
        if state:
            f["status"].attrs["state"] = state
    maxlogit("note", "--accept-edit", name, "filled by redraw.py")
    return Run(name)


# --- statistics ---------------------------------------------------------------------------------------------


def t_cdf(t, n):
    """Student's t of a whole number of degrees of freedom (Abramowitz and Stegun 26.7.3 and 26.7.4)."""
    a = math.atan(t / math.sqrt(n))
    c, s, total, term = math.cos(a), math.sin(a), 0.0, 1.0
    if n % 2:
        for k in range(1, (n - 1) // 2 + 1):
            term *= c if k == 1 else c * c * (2 * k - 2) / (2 * k - 1)
            total += term
        return 0.5 + (a + s * total) / math.pi
    for k in range(n // 2):
        term *= c * c * (2 * k - 1) / (2 * k) if k else 1
        total += term
    return 0.5 + s * total / 2


def t_quantile(p, n):
    low, high = 0.0, 1e4
    for _ in range(200):
        middle = (low + high) / 2
        low, high = (middle, high) if t_cdf(middle, n) < p else (low, middle)
    return (low + high) / 2


T975 = {n: t_quantile(0.975, n) for n in range(1, 12)}


def mean_of(x):
    return float(np.mean(x)) if len(x) else NAN


def interval(x, geometric=False):
    """Mean and 95 % interval."""
    x = np.asarray(x, dtype=float)
    if geometric:
        x = np.where(x > 0, np.log(np.where(x > 0, x, 1)), NAN)
    m = mean_of(x)
    half = T975[len(x) - 1] * float(np.std(x, ddof=1)) / math.sqrt(len(x)) if len(x) > 1 else NAN
    out = np.array([m, m - half, m + half])
    return list(np.exp(out)) if geometric else list(out)


def median_interval(x):
    x, n = sorted(x), len(x)
    if not n or any(map(math.isnan, x)):
        return [NAN] * 3
    below = 0
    while sum(math.comb(n, k) for k in range(below + 1)) / 2**n <= 0.025:
        below += 1
    middle = x[n // 2] if n % 2 else (x[n // 2 - 1] + x[n // 2]) / 2
    return [middle] + ([x[below - 1], x[n - below]] if below else [NAN, NAN])


def kaplan_meier(times):
    """Median, its interval, events: of (time, censored)."""
    share, spread, out, events = Fraction(1), 0.0, [INF, INF, INF], 0
    for t in sorted({t for t, _ in times}):
        at_risk = sum(u >= t for u, _ in times)
        dead = sum(u == t and not c for u, c in times)
        if not dead:
            continue
        events += dead
        share *= 1 - Fraction(dead, at_risk)
        if share <= Fraction(1, 2):
            out[0] = min(out[0], t)
        if not share:  # the band ends where the curve does
            out[1:] = [min(x, t) for x in out[1:]]
            continue
        spread += dead / (at_risk * (at_risk - dead))
        wide = 1.959963984540054 * math.sqrt(spread) / abs(math.log(share))
        for edge, sign in ((1, 1), (2, -1)):
            if float(share) ** math.exp(sign * wide) <= 0.5:
                out[edge] = min(out[edge], t)
    out[1] = min(out[1], out[0])
    return out, events


def largest(x):
    """A NaN is the largest."""
    return NAN if np.isnan(x).any() else float(np.max(x))


# --- metrics ------------------------------------------------------------------------------------------------

NAMED = {
    "loss": "loss:last",
    "val": "val_loss:last",
    "peak": "attn/max_logit:all:max",
    "last": "attn/max_logit:last:max",
}
SERIES = [
    "loss",
    "val_loss",
    "attn/max_logit",
    "attn/max_logit@l1*",
    "attn/entropy@l?h0",
    "weight/spectral_norm@*w_[qk]",
]
WINDOWS = [
    "last",
    "last2",
    "last4",
    "last12",
    "last99",
    "last25%",
    "last70%",
    "last100%",
    "all",
    "3-6",
    "0-0",
    "5-5",
    "100-200",
]
REDUCTIONS = ["mean", "max", "min", "median", "over=2", "over=3.75", "slope"]
REDUCTIONS += ["above=2.5", "above=3.75", "above=99", "below=2.5", "below=3.75", "below=-99"]


def is_time(name):
    return "above=" in name or "below=" in name


@functools.lru_cache(maxsize=None)
def metric(run, name):
    """None, a number, or a time and whether it is censored."""
    if name in ("clips", "spikes"):
        return run.events.count(name[:-1])
    name, window, reduction = (
        (NAMED.get(name, name).split(":") + ["last", ""])[:3] if ":" in NAMED.get(name, name) else (name, "last", "")
    )
    name, _, glob = name.partition("@")
    steps, x = run.rows(name)
    if not len(steps):
        return None
    if glob:
        x = x[:, [fnmatch.fnmatchcase(n, glob) for n in run.names(name)]]
    keep = np.ones(len(steps), dtype=bool)
    if "-" in window:
        low, high = map(float, window.split("-"))
        keep = (steps >= low) & (steps <= high)
    elif window.endswith("%"):
        keep = np.array([Fraction(int(s)) >= run.last_step * (1 - Fraction(window[4:-1]) / 100) for s in steps])
    elif window.startswith("last"):
        rows = int(window[4:] or 1)
        keep[:-rows] = False
        if rows > 1 and keep.sum() > 1 and keep[0] and steps[0] == 0:
            keep[0] = False
    steps, x = steps[keep], x[keep]
    if not len(steps):
        return None
    if reduction.startswith("above="):
        passed = [s for s, row in zip(steps, x) if np.isnan(row).any() or (row > float(reduction[6:])).any()]
        return (passed[0], False) if passed else (steps[-1], True)
    if reduction.startswith("below="):
        passed = [s for s, row in zip(steps, x) if (row < float(reduction[6:])).any()]
        return (passed[0], False) if passed else (steps[-1], True)
    if reduction.startswith("over="):
        return float(np.mean(np.isnan(x) | (x > float(reduction[5:]))))
    if reduction == "slope":
        u, v = zip(*[(s, largest(row)) for s, row in zip(steps, x) if s > 0]) if (steps > 0).any() else ((), ())
        if len(u) < 2 or not all(y > 0 for y in v):
            return NAN
        u, v = np.log(u), np.log(v)
        u = u - u.mean()
        return float((u * (v - v.mean())).sum() / (u * u).sum())
    if reduction == "median":
        return median_interval(x.ravel())[0]
    if reduction == "min":
        return -largest(-x)
    return largest(x) if reduction == "max" else mean_of(x.ravel())


def counted(runs, name):
    """The values that count in means."""
    values = [(r, metric(r, name)) for r in runs]
    return [v for r, v in values if v is not None and (isinstance(v, tuple) or not r.failed)]


def group_measure(runs, name, mean):
    x = counted(runs, name)
    if is_time(name):
        return kaplan_meier(x)[0] if x else [NAN, INF, INF]
    return median_interval(x) if mean == "median" else interval(x, mean == "geometric")


def number(value):
    return {"NaN": NAN, "Infinity": INF, "-Infinity": -INF}.get(value, value) if isinstance(value, str) else value


def check_metrics(runs, groups):
    names = list(NAMED) + ["clips", "spikes", "loss:last2", "val_loss:all"]
    names += [":".join(part) for part in itertools.product(SERIES, WINDOWS, REDUCTIONS)]
    told = {
        r["file"]: r["metrics"]
        for r in json.loads(maxlogit("show", "--json", "--of", ",".join(names), *[r.name for r in runs]))
    }
    for run in runs:
        for name in names:
            ours, theirs = metric(run, name), told[run.name][name]
            if isinstance(ours, tuple):
                compare(f"{run.name} {name}", list(ours), [number(theirs["value"]), theirs["censored"]])
            else:
                compare(f"{run.name} {name}", ours, number(theirs))
    names = names[:8] + [
        ":".join(part) for part in itertools.product(SERIES, ["last", "3-6", "all", "100-200"], REDUCTIONS)
    ]
    for mean, key in (("arithmetic", "mean"), ("geometric", "geometric_mean"), ("median", "median")):
        for label, group in groups.items():
            out = json.loads(
                maxlogit(
                    "show", "--group", "--json", f"--mean={mean}", "--of", ",".join(names), *[r.name for r in group]
                )
            )
            compare(f"{label}: groups", 1, len(out))
            states = [sum(r.diverged for r in group), sum(r.blown_up for r in group), sum(r.unfinished for r in group)]
            counted_of = [out[0][k] for k in ("runs", "diverged", "blown_up", "unfinished")]
            compare(f"{label}: runs", [len(group)] + states, counted_of)
            for name in names:
                theirs, n = out[0]["metrics"][name], len(counted(group, name))
                ours = list(group_measure(group, name, mean))
                middle = theirs["median" if is_time(name) else key]
                if n < 2 or math.isnan(ours[1]) and not math.isnan(ours[0]):
                    ours[1:] = [None, None]  # few values, or infinite ones, have no interval
                compare(
                    f"{label} {mean} {name}",
                    [n, ours[0] if n else None, *ours[1:]],
                    [theirs["n"], number(middle), number(theirs["lo"]), number(theirs["hi"])],
                )
                if is_time(name):
                    compare(f"{label} {name}: reached", kaplan_meier(counted(group, name))[1], theirs["reached"])


def start_of(a, b):
    """Did they start alike? By the loss of step 0, else by the weights' norms there."""

    def first(run, name):
        steps, x = run.rows(name)
        return list(x[0]) if len(steps) and steps[0] == 0 else None

    losses, norms = ([first(r, name) for r in (a, b)] for name in ("loss", "weight/frobenius_norm"))
    if losses[0] is not None and losses[0] == losses[1]:
        return "equal"
    return "unknown" if None in norms else "equal" if norms[0] == norms[1] else "differs"


def check_order(runs):
    """--sort: by a key, down with a minus; of equal ones as without it."""
    base = [r["id"] for r in json.loads(maxlogit("show", "--json", "--sort=kind", *[r.name for r in runs]))]
    for key, of in (
        ("train.lr", lambda r: r.lr),
        ("train.weight_decay", lambda r: r.decay),
        ("state", lambda r: "blown-up" if r.blown_up else r.state),
        ("seed", lambda r: r.seed),
        ("qk_clip.tau", lambda r: "qk_clip.tau" not in r.p),
    ):
        by_id = {r.id: of(r) for r in runs}  # numbers before texts
        for sign in ("", "-"):
            found = [
                r["id"] for r in json.loads(maxlogit("show", "--json", f"--sort={sign}{key}", *[r.name for r in runs]))
            ]
            compare(f"show --sort={sign}{key}", sorted(base, key=by_id.get, reverse=sign == "-"), found)


def check_spectra():
    """A checkpoint's spectra as they are printed, and as they are kept."""
    told = json.loads(maxlogit("spectra", "--json", CHECKPOINT))[0]
    maxlogit("spectra", "-o", "others.h5", CHECKPOINT)
    record = Run("others.h5")
    fields = ("spectral_norm", "frobenius_norm", "svd_entropy", "effective_rank_p", "effective_rank_r", "stable_rank")
    groups = {
        "head_q": "w_qc",
        "head_k": "w_kc",
        "head_qk": "w_qc^T w_kc",
        "head_qr": "w_qr",
        "head_kr": "w_kr",
        "head_qkr": "w_qr^T w_kr",
    }
    kept = {}
    for field in fields:
        for group, what in groups.items():
            for head, x in zip(record.names(f"{group}/{field}"), record.series[f"{group}/{field}"].ravel()):
                kept[f"{head} {what}", field] = x
        for tensor, x in zip(record.tensors, record.series[f"weight/{field}"][0]):
            kept[tensor, field] = x
        for k, group in enumerate(("experts_q00", "experts_q25", "weight", "experts_q75", "experts_q100")):
            for tensor, x in zip(record.tensors, record.series[f"{group}/{field}"][0]):
                expert = next((e for e in told["experts"] if e["name"][-63:] == tensor), None)
                compare(
                    f"spectra of {tensor}: {group}/{field}",
                    np.float32(expert[field][k]) if expert else kept[tensor, field] if k == 2 else NAN,
                    x,
                )
    for spectrum in told["spectra"]:
        for field in fields:
            compare(
                f"spectra of {spectrum['name']}: {field}",
                np.float32(spectrum[field]),
                kept[spectrum["name"][-63:], field],
            )
    for key, name in (("bound", "attn/bound"), ("still", "attn/bound_still")):
        compare(f"spectra: {name}", [np.float32(h[key]) for h in told["heads"]], list(record.series[name].ravel()))
    compare(
        "spectra: attn/bound_share",
        [np.float32(max(h["parts"].values()) / h["bound"]) for h in told["heads"]],
        list(record.series["attn/bound_share"].ravel()),
    )


TOLD = ["val", "peak", "loss:all:mean", "attn/max_logit:last4:median", "attn/entropy:all:slope", "loss:all:above=3.5"]


def check_compare(arms, options, names=TOLD):
    """Two arms, paired by seed: {seed: run} each. Returns p and Holm's p of each metric."""
    ratio = "--ratio" in options
    words = [
        "compare",
        *options,
        "--of",
        ",".join(names),
        "--margin",
        "1.5",
        *[r.name for arm in arms for r in arm.values()],
        "kind=adam",
        "kind=muonclip",
    ]
    out = json.loads(maxlogit(*words, "--json"))
    compare("compare: metrics", names, [line["metric"] for line in out])
    both, alone = sorted(set(arms[0]) & set(arms[1])), sorted(set(arms[0]) ^ set(arms[1]))
    probabilities = []
    for line, name in zip(out, names):
        pairs, diverged, blown_up, left_out, unfinished, starts = [], 0, 0, 0, 0, []
        for seed in both:
            runs = [arm[seed] for arm in arms]
            starts.append(start_of(*runs))
            v = [metric(r, name) for r in runs]
            if any(r.failed and not isinstance(x, tuple) for r, x in zip(runs, v)):
                diverged += any(r.diverged for r in runs)
                blown_up += not any(r.diverged for r in runs)
                continue
            v = [None if isinstance(x, tuple) and x[1] else x[0] if isinstance(x, tuple) else x for x in v]
            if any(x is None or not math.isfinite(x) or ratio and x <= 0 for x in v):
                left_out += 1
            else:
                pairs.append(v)
                unfinished += any(r.unfinished for r in runs)
        n, what = len(pairs), f"compare {name} {' '.join(options)}"
        d = [math.log(y / x) if ratio else y - x for x, y in pairs]
        effect = interval(d)
        if ratio:
            effect = [math.exp(x) for x in effect]
        told = (
            ("a", interval([x for x, _ in pairs], ratio)),
            ("b", interval([y for _, y in pairs], ratio)),
            ("effect", effect),
        )
        for key, ours in told:
            compare(
                f"{what}: {key}",
                [n, ours[0] if n else None] + (ours[1:] if n > 1 else [None, None]),
                [line[key]["n"]] + [number(line[key][k]) for k in ("mean", "lo", "hi")],
            )
        counts_of = [line["pairs_" + k] for k in ("diverged", "blown_up", "left_out", "unfinished")]
        compare(f"{what}: pairs", [diverged, blown_up, left_out, unfinished], counts_of)
        ids = [[arms[0][s].id, arms[1][s].id, s, start] for s, start in zip(both, starts)]
        compare(f"{what}: starts", ids, [[p[k] for k in ("a", "b", "seed", "start")] for p in line["pairs"]])
        compare(f"{what}: alone", [(arms[0] | arms[1])[s].name for s in alone], line["no_partner"])
        differ = [
            k for k in arms[0][both[0]].p if any(arms[0][s].p[k] != arms[1][s].p.get(k, arms[0][s].p[k]) for s in both)
        ]
        compare(
            f"{what}: differ in", ", ".join(k for k in differ if k not in ("preset", "record.path")), line["differ_in"]
        )
        p = equivalence = detectable = None
        if n > 1:
            m, error, margin = mean_of(d), float(np.std(d, ddof=1)) / math.sqrt(n), math.log(1.5) if ratio else 1.5
            p = 2 * (1 - t_cdf(abs(m) / error, n - 1)) if error else float(m == 0)
            equivalence = 1 - t_cdf((margin - abs(m)) / error, n - 1) if error else float(abs(m) > margin)
            detectable = error * (T975[n - 1] + t_quantile(0.8, n - 1))
            detectable = math.exp(detectable) if ratio else detectable
        probabilities.append(p)
        for key, ours in (("p", p), ("equivalence_p", equivalence), ("detectable", detectable)):
            theirs = number(line[key])
            if ours is None or theirs is None or abs(ours - theirs) > 1e-9:
                compare(f"{what}: {key}", ours, theirs)
        signs = [x for x in d if x]
        sizes = [sum(abs(y) < abs(x) for y in signs) + (1 + sum(abs(y) == abs(x) for y in signs)) / 2 for x in signs]
        above = sum(r for r, x in zip(sizes, signs) if x > 0)
        sums = [sum(c) for c in itertools.product(*[(0, r) for r in sizes])]
        low = min(above, sum(sizes) - above)
        compare(
            f"{what}: signed ranks",
            min(1, 2 * sum(s <= low for s in sums) / len(sums)) if n else None,
            number(line["p_signed_ranks"]),
        )
    known, least, holm = sorted((p, i) for i, p in enumerate(probabilities) if p is not None), 0, {}
    for rank, (p, i) in enumerate(known):
        least = holm[i] = max(least, min(1, (len(known) - rank) * p))
        if abs(least - out[i]["p_holm"]) > 1e-8:
            compare(f"compare {names[i]}: Holm", least, out[i]["p_holm"])
    for i, line in enumerate(out):
        verdict = "too few pairs" if i not in holm else "undecided"
        if i in holm and line["equivalence_p"] < 0.05:
            verdict = "equivalent within the margin"
        if i in holm and holm[i] < 0.05:
            verdict = "B is higher" if line["effect"]["mean"] > ratio else "B is lower"
        compare(f"compare {names[i]}: verdict", verdict, line["verdict"])
    text = "\n".join(compared_text(line, len(known), arms) for line in out)
    compare(f"compare {' '.join(options)}: text", text.split("\n"), maxlogit(*words).split("\n"))
    return [(p, holm.get(i)) for i, p in enumerate(probabilities)]


def compared_text(line, tests, arms):
    """The text of what is told as JSON."""
    ratio, n = line["contrast"] == "ratio", line["effect"]["n"]
    s = lambda count: "" if count == 1 else "s"  # noqa: E731
    words = unit(line["metric"])
    verdict, effect = line["verdict"], number(line["effect"]["mean"]) if n else NAN
    if verdict.startswith("B is "):
        size = f"a factor of {max(effect, 1 / effect):.3g}" if ratio else f"{abs(effect):.3g}"
        verdict = f"{line['b_is']}{verdict[1:]} by {size}"
    out = [f"{line['metric']}{f' [{words}]' if words else ''}: {verdict}"]

    def put(what, name, of, about):
        if of["n"]:
            edges = f" [{number(of['lo']):.5g}, {number(of['hi']):.5g}]" if of["n"] > 1 else ""
            out.append(f"  {what:12s} {name:24s} {number(of['mean']):.5g}{edges}  n={of['n']}{about}")
        else:
            out.append(f"  {what:12s} {name:24s} -  n=0{about}")

    put("A", line["a_is"], line["a"], " (geometric)" * ratio)
    put("B", line["b_is"], line["b"], " (geometric)" * ratio)
    if n:
        put("ratio B/A" if ratio else "B - A", "", line["effect"], " pairs (95 %, Student's t)")
    if n > 1:
        blank = " " * 24
        out.append(
            f"  bootstrap    {blank} [{line['bootstrap_lo']:.5g}, {line['bootstrap_hi']:.5g}] (rough: few pairs)"
        )
        holm = f", {line['p_holm']:.3g} (Holm, of {tests})" if tests > 1 else ""
        out.append(f"  p            {blank} {line['p']:.3g} (t){holm}, {line['p_signed_ranks']:.3g} (signed ranks)")
        what = "smallest detectable with 80 % power"
        out.append(f"  {what:37s} {'a ratio of ' * ratio}{line['detectable']:.4g}")
        out.append(
            f"  equivalence  {blank} within {'a factor of ' if ratio else '+-'}1.5: p = {line['equivalence_p']:.3g}"
        )
    starts = [p["start"] for p in line["pairs"]]
    equal, differs, unknown = (starts.count(k) for k in ("equal", "differs", "unknown"))
    out.append(
        f"  start        equal in {equal} of {len(starts)} pair{s(len(starts))}"
        + (f"; unknown in {unknown}" if unknown else "")
    )
    out.append(f"  differ in    {line['differ_in']}")
    if differs:
        out.append(
            f"  note         {differs} pair{' starts' if differs == 1 else 's start'} from other weights: the same seed "
            "spares less noise than it could"
        )
    for key, told in (
        ("diverged", "with a run that diverged, left out"),
        ("blown_up", "with a run that blew up, left out"),
        ("unfinished", "with a run that has not finished: taken as it stands"),
        ("left_out", f"without a finite value{' above zero' * ratio} of both, or with a time that was not reached"),
    ):
        count = line["pairs_" + key]
        if count:
            out.append(f"  {key.replace('_', ' '):12s} {count} pair{s(count)} {told}")
    for name in line["no_partner"]:
        arm = next(i for i in (0, 1) if name in [r.name for r in arms[i].values()])
        seed = next(k for k, r in arms[arm].items() if r.name == name)
        out.append(f"  no partner   {'AB'[arm]}: {name} (seed {seed})")
    return "\n".join(out) + "\n"


def check_mirror(files, options):
    """What is said of B against A is what is said of A against B, the other way round."""
    arms = ["kind=adam", "kind=muonclip"]
    told = [
        json.loads(maxlogit("compare", "--json", "--margin=1.5", "--of=" + ",".join(TOLD), *options, *files, *way))
        for way in (arms, arms[::-1])
    ]
    turn = lambda x: x if x is None else 1 / x if "--ratio" in options else 0.0 - x  # noqa: E731
    edges = lambda i: [i["n"]] + [number(i[k]) for k in ("mean", "lo", "hi")]  # noqa: E731
    verdicts = {"B is higher": "B is lower", "B is lower": "B is higher"}
    compare("compare both ways: lines", len(told[0]), len(told[1]))
    for x, y in zip(*told):
        what = f"compare {x['metric']} {x['by']} both ways {' '.join(options)}"
        for one, other in (("a", "b"), ("b", "a")):
            compare(f"{what}: {one}", edges(x[one]), edges(y[other]))
        n, mean, lo, hi = edges(x["effect"])
        compare(f"{what}: effect", [n, turn(mean), turn(hi), turn(lo)], edges(y["effect"]))
        for key in ("p", "p_holm", "p_signed_ranks", "detectable", "equivalence_p", "pairs_diverged"):
            compare(f"{what}: {key}", number(x[key]), number(y[key]))
        for key in ("pairs_unfinished", "pairs_left_out", "differ_in", "differ_in_shape", "by"):
            compare(f"{what}: {key}", x[key], y[key])
        pairs = [[[p[k] for k in keys] for p in line["pairs"]] for line, keys in ((x, "ab"), (y, "ba"))]
        compare(f"{what}: pairs", *pairs)
        compare(f"{what}: no partner", x["no_partner"], y["no_partner"])
        compare(f"{what}: verdict", verdicts.get(x["verdict"], x["verdict"]), y["verdict"])
    return told[0]


def check_compare_by(by_point, options):
    """With --by each of its values has the comparison of its runs alone; none, where they make no pair."""
    points = [p for p in by_point if p[3] < 4 and (p[0] == "adam" or p[1:3] != (0.02, 0.1))]
    every = check_mirror([by_point[p].name for p in points], [*options, "--by=train.lr,train.weight_decay"])
    alone = []
    for lr, decay in ((0.003, 0.0), (0.003, 0.1), (0.02, 0.0)):
        files = [by_point[p].name for p in points if p[1:3] == (lr, decay)]
        lines = check_mirror(files, options)
        alone += [(f"train.lr={lr:g} train.weight_decay={decay:g}", line) for line in lines]
    alone.sort(key=lambda x: TOLD.index(x[1]["metric"]))
    compare("compare --by: lines", [by for by, _ in alone], [line["by"] for line in every])
    for (by, line), theirs in zip(alone, every):
        for key in line:
            if key not in ("by", "p_holm", "verdict"):  # of as many tests as there are
                compare(f"compare --by {by}: {line['metric']} {key}", line[key] == theirs[key], True)


def check_alike():
    """Runs of the same seed that see other batches, or start from other weights, are told."""
    keys = [k for k in Run("plain.h5").p if k != "train.seed"]
    shape = [k for k in keys if k.startswith(("model.", "markov.", "data", "train.batch", "train.plant"))]
    for name, changed in [(k, [k]) for k in shape] + [(None, [k for k in keys if k not in shape])]:
        shutil.copy(os.path.join(FOLDER, "plain.h5"), os.path.join(FOLDER, "other.h5"))
        with h5py.File(os.path.join(FOLDER, "other.h5"), "r+") as f:
            table = f["parameters/table"][()]
            for row in table:
                if row["name"].decode() in changed:
                    row["value"] += b"1"
            f["parameters/table"][...] = table
        maxlogit("note", "--accept-edit", "other.h5", "edited by redraw.py")
        line = json.loads(maxlogit("compare", "--json", "plain.h5", "other.h5"))[0]
        compare(f"compare, {name} edited: shape", name if name != "data.path" else None, line["differ_in_shape"])
    for name, key in (
        ("plain", None),
        ("lag", "markov.lag"),
        ("recall", "data"),
        ("from", "the weights of train.init_from"),
    ):
        line = json.loads(maxlogit("compare", "--json", "plain.h5", f"{name}.h5"))[0]
        compare(f"compare plain.h5 {name}.h5: shape", key, line["differ_in_shape"])
        compare(
            f"compare plain.h5 {name}.h5: start",
            start_of(Run("plain.h5"), Run(f"{name}.h5")),
            line["pairs"][0]["start"],
        )


def check_eval():
    """At a multiple of the context: as many tokens a batch, as many more batches."""

    def told(*words):
        out = json.loads(maxlogit("eval", "--json", *words))
        return [[c["context"], c["loss"]] for c in out]

    run = Run("plain.h5")
    batch, batches, context = (int(run.p[k]) for k in ("train.batch", "train.val_batches", "model.context"))
    at = told("-c", "1x,2x,0.5x,0.75x,1.5x", "plain.h5")
    for (length, loss), times in zip(at, (1, 2, 0.5, 0.75, 1.5)):
        sizes = [f"train.batch={int(batch / times)}", f"train.val_batches={math.ceil(batches * max(times, 1))}"]
        said = told("-c", f"{times}x", "plain.h5", *sizes)
        compare(f"eval: {times} times the context", [[context * times, loss]], said)
    compare("eval: the run's own last validation", True, abs(at[0][1] - run.series["val_loss"][-1]) < 1e-5)
    compare("eval: at other contexts other losses", 5, len({loss for _, loss in at}))


def check_rerun():
    """A number that was another one the first time, whichever, is told with its series and step; so is an event."""
    maxlogit("rerun", "--output=again.h5", "clips.h5")
    run = Run("clips.h5")
    compare("rerun: events to change", True, run.events.count("clip") > 3)
    changes = [(f"series/{name}", row) for name, x in run.series.items() for row in {0, len(x) // 2, len(x) - 1}]
    for place, row in changes + [("events", len(run.events) - 1 - run.events[::-1].index("clip"))]:
        shutil.copy(os.path.join(FOLDER, "clips.h5"), os.path.join(FOLDER, "changed.h5"))
        os.remove(os.path.join(FOLDER, "again.h5"))
        shutil.rmtree(os.path.join(FOLDER, "again.ckpt"), ignore_errors=True)
        with h5py.File(os.path.join(FOLDER, "changed.h5"), "r+") as f:
            rows = f[place][()]
            step = rows[row]["step"] if place == "events" else run.steps[place[7:]][row]
            of = rows["value"][row : row + 1] if place == "events" else rows.reshape(len(rows), -1)[row, -1:]
            of[0] = 1 if np.isnan(of[0]) else np.nextafter(of[0], of.dtype.type(np.inf))
            f[place][...] = rows
        maxlogit("note", "--accept-edit", "changed.h5", "changed by redraw.py")
        words = [PROGRAM, "rerun", "--output=again.h5", "changed.h5"]
        done = subprocess.run(words, capture_output=True, text=True, cwd=FOLDER)
        said = f"the events differ from step {step} on" if place == "events" else f"{place[7:]} differs at step {step:g}:"
        compare(f"rerun, {place} changed in row {row}: {done.stderr.strip()}", [1, True], [done.returncode, said in done.stderr])


# --- figures ------------------------------------------------------------------------------------------------


class Script:
    """What gnuplot is told: numbers, texts and blocks of rows."""

    def __init__(self, text):
        self.value, self.block = {}, {}
        lines = iter(text.splitlines())
        for line in lines:
            found = re.match(r"\$(\w+) << EOD", line)
            if found:
                rows = list(itertools.takewhile(lambda x: x != "EOD", lines))
                blocks = re.split(r"\n\n\n", "\n".join(rows))
                self.block[found[1]] = [
                    [[float(x) for x in row.split()] for row in b.splitlines() if row and row[0] != "#"] for b in blocks
                ]
                continue
            found = re.match(r"(?:array )?(\w+)(?:\[\d+\])? = (.*)", line)
            if found:
                self.value[found[1]] = self.read(found[2])

    @staticmethod
    def read(text):
        if text[0] == "[":
            return [Script.read(x) for x in re.findall(r"'(?:[^']|'')*'|[^][', ]+", text)]
        return text[1:-1] if text[0] == "'" else float(text)


UNTOLD = {"plots", "out", "term", "columns", "rows", "page_width", "page_height", "page_font", "page_title"}


def number_text(x):
    return "%.10g" % x


def about(runs):
    """The settings that all runs share."""
    parts = []
    for key, between, text in (
        ("model.layers", "", "%s layer"),
        ("model.heads", " × ", "%s head"),
        ("model.width", ", ", "width %s"),
        ("model.context", ", ", "context %s"),
        ("train.batch", ", ", "batch %s"),
        ("train.lr", ", ", "lr %s"),
        ("train.weight_decay", ", ", "weight decay %s"),
        ("train.schedule", ", ", "schedule %s"),
        ("data", ". ", "Data: %s"),
        ("data.path", ", ", "%s"),
    ):
        shared = {r.p.get(key, "") for r in runs}
        if len(shared) == 1 and "" not in shared:
            value = shared.pop()
            parts.append(
                (between if parts else "") + text % value + ("s" if text.startswith("%s ") and value != "1" else "")
            )
    return "".join(parts)


def note(group):
    """What stands behind a group's name."""
    unfinished, failed = sum(r.unfinished for r in group), sum(r.failed for r in group)
    counts_of = ((sum(r.diverged for r in group), "diverged"), (sum(r.blown_up for r in group), "blown up"))
    many = [f"{n} {how}" for n, how in counts_of if n]
    if unfinished:
        if failed:
            return f" (of {len(group)} {', '.join(many)}, {unfinished} unfinished)"
        return f" ({unfinished} of {len(group)} unfinished)" if len(group) > 1 else " (unfinished)"
    if not failed:
        return ""
    if len(group) == 1:
        return f" ({many[0][2:]})"
    if failed == len(group):
        return f" (all {', '.join(many)}; seed {group[0].seed})"
    if len(many) > 1:
        return f" (of {len(group)} {', '.join(many)})"
    return f" ({failed} of {len(group)} {many[0].partition(' ')[2]})"


def shades(labels):
    """Of three groups or more of a kind that differ in one number alone: their place by it."""

    def key(label):
        kind, _, rest = label.partition(" ")
        found = re.fullmatch(r"([^= ]+)=([^ ]+)", rest or kind)
        try:
            return (kind if rest else "", found[1], float(found[2])) if found else None
        except ValueError:
            return None

    keys, out = [key(label) for label in labels], []
    for k in keys:
        alike = [o[2] for o in keys if o and k and o[:2] == k[:2]]
        out.append(NAN if len(alike) < 3 else sum(x < k[2] for x in alike) / (len(alike) - 1))
    return out


def about_groups(groups, labels, one_is="seed"):
    order = [groups[label] for label in labels]
    compare("order of groups", list(groups), labels)
    return {
        "groups": len(order),
        "kind": [label.split(" ")[0] for label in labels],
        "rest": ["".join(label.partition(" ")[1:]) for label in labels],
        "note": [note(g) for g in order],
        "seeds": [len(drawn(g)) for g in order],
        "clipped": [float(g[0].p.get("stabilizers", "none") != "none") for g in order],
        "shade": shades(labels),
        "first_seed": [drawn(g)[0].seed for g in order],
        "one_is": one_is,
        "about": about([r for g in order for r in g]),
    }


def check_figure(what, words, expected, by=None):
    """expected(labels of the groups, or what is given as `by`) gives values and blocks: the script is to have each of
    them, and no other."""
    script = Script(maxlogit("plot", "--script", *words))
    compare(f"{what}: a script", True, bool(script.value))
    if not script.value:
        return
    labels = [a + b for a, b in zip(script.value.get("kind", []), script.value.get("rest", []))]
    values, blocks = expected(script.value[by] if by else [x.strip() for x in labels])
    untold = UNTOLD | ({"groups", "kind", "rest", "note", "seeds", "clipped", "shade", "first_seed", "one_is"} if by else set())
    for name in sorted(set(script.value) - untold | set(values)):
        ours, theirs = values.get(name, "nothing"), script.value.get(name, "nothing")
        ours = [
            x if isinstance(x, str) or math.isfinite(x) else NAN for x in (ours if isinstance(ours, list) else [ours])
        ]
        compare(f"{what}: {name}", ours, theirs if isinstance(theirs, list) else [theirs])
    for name in sorted(set(script.block) | set(blocks)):
        ours, theirs = blocks.get(name, []), script.block.get(name, [])
        compare(f"{what}: ${name}: blocks", len(ours), len(theirs))
        for g, (a, b) in enumerate(zip(ours, theirs)):
            compare(f"{what}: ${name} {g}", [list(map(float, row)) for row in a], b)


def drawn(group):
    return [r for r in group if not r.failed] or [min(group, key=lambda r: r.seed)]


def sets_axis(groups, group):
    return any(not r.failed for r in group) or all(r.failed for g in groups for r in g)


def on_line(steps, rows, step, c):
    """A run's value at a step, between two rows that of the line between them; None: there is none."""
    known = list(steps)
    if step in known:
        return rows[known.index(step)][c]
    before, after = [s for s in known if s < step], [s for s in known if s > step]
    if not before or not after:
        return None
    a, b = rows[known.index(before[-1])][c], rows[known.index(after[0])][c]
    share = (step - before[-1]) / (after[0] - before[-1])
    return a + (b - a) * share if math.isfinite(a) and math.isfinite(b) else None


def band(tables, geometric=False):
    """Of (steps, rows): a row a step, n and mean, low, high of every column."""
    out = []
    width = max((len(x[0]) for _, x in tables if len(x)), default=0)
    for step in sorted({s for steps, _ in tables for s in steps}):
        values = [[on_line(*table, step, c) for table in tables] for c in range(width)]
        values = [[v for v in column if v is not None] for column in values]
        columns = [interval(column, geometric) for column in values]
        out.append([step, max(map(len, values))] + [v for column in columns for v in column])
    return out


def no_width(rows):
    """An interval that is not there."""
    out = [list(row) for row in rows]
    for row in out:
        for c in range(2, len(row), 3):
            if math.isnan(row[c + 1]):
                row[c + 1] = row[c + 2] = row[c]
    return out


def thinned(rows, bins=400, is_band=True):
    """Two rows a bin of the steps; means keep both extremes in their order, edges and n of bands the outer one."""
    if len(rows) <= 2 * bins + 2:
        return rows
    steps = np.array([r[0] for r in rows[1:-1]])
    width = (steps[-1] - steps[0] + 1) / bins
    out = [rows[0]]
    for _, members in itertools.groupby(rows[1:-1], key=lambda r: math.floor((r[0] - steps[0]) / width)):
        members = list(members)
        pair = [[members[0][0]], [members[-1][0]]]
        for c in range(1, len(rows[0])):
            x = [r[c] for r in members if r[c] is not MISSING]
            if not x:
                low = high = MISSING
            else:
                low, high = (NAN, NAN) if any(map(math.isnan, x)) else (min(x), max(x))
            if is_band and (c == 1 or c % 3 == 0):
                two = low, low
            elif is_band and c % 3 == 1:
                two = high, high
            else:
                two = (low, high) if math.isnan(low) or x.index(low) < x.index(high) else (high, low)
            pair[0].append(two[0])
            pair[1].append(two[1])
        out += pair[:1] if len(members) == 1 else pair
    return out + [rows[-1]]


def last_finite(rows, column=2):
    return next((r[column] for r in reversed(rows) if math.isfinite(r[column])), NAN)


def extent(values):
    finite = [v for v in values if math.isfinite(v)]
    return (min(finite), max(finite)) if finite else (NAN, NAN)


def axis_of(entries, log=False, more=()):
    """The means, and their intervals up to as far again: of (does it count, mean, low, high); and the ends of all."""
    value, edge, everything = [], [], []
    for counts, *numbers in entries:
        for i, x in enumerate(numbers):
            if math.isfinite(numbers[0]) and math.isfinite(x) and (x > 0 or not log):
                everything.append(x)
                if counts:
                    (edge if i else value).append(x)
    low, high = extent(value + list(more))
    reach = (max(high / low, 2) if log else high - low if high > low else INF) if value else NAN
    edge_low, edge_high = extent(edge)
    if edge_low < low:
        low = max(edge_low, low / reach if log else low - reach)
    if edge_high > high:
        high = min(edge_high, high * reach if log else high + reach)
    return (low, high) + extent(everything)


def entries_of(rows, counts=lambda row: True):
    return [(counts(row), *row[c : c + 3]) for row in rows for c in range(2, len(row), 3)]


def common_threshold(runs):
    taus = {float(r.p["qk_clip.tau"]) for r in runs if "qk_clip" in r.p["stabilizers"].split("+")}
    return taus.pop() if len(taus) == 1 else NAN


DEAD_SHARE = 0.1


def deaths_of(run):
    """Step, max logit there, and panel from 1, of every fall of a head below a tenth of its first value: by its max
    logit, unless it was clipped, and by the norms of its query and key weights. It may fall again once it was twice as high."""
    at, maxima = run.rows("attn/max_logit")
    found = []
    clipped = {(int(e["layer"]), int(e["head"])) for e in run.clips}
    for name in ("attn/max_logit", "head_q/frobenius_norm", "head_k/frobenius_norm"):
        steps, x = run.rows(name)
        for head, column in enumerate(x.T):
            if name == "attn/max_logit" and divmod(head, run.series[name].shape[2]) in clipped:
                continue
            fallen = not (math.isfinite(column[0]) and column[0] > 0) if len(column) else True
            may_rise = not fallen
            for step, value in zip(steps[1:], column[1:]):
                if not fallen and value < DEAD_SHARE * column[0] and math.isfinite(value):
                    fallen = True
                    row = min(int(np.searchsorted(at, step)), len(at) - 1)
                    found.append([step, maxima[row][head], head + 1])
                elif fallen and may_rise and 2 * DEAD_SHARE * column[0] <= value < INF:
                    fallen = False
    return found


def logits(groups, reduce):
    """Of the largest head a band a group; of every head a line a run, on the axis of all of its finite values."""

    def table(run):
        steps, x = run.rows("attn/max_logit")
        return steps, (np.array([[largest(row)] for row in x]) if reduce else x)

    def expected(labels):
        order = [groups[label] for label in labels]
        if reduce:
            curves = [(g, band([table(r) for r in drawn(g)], True)) for g in order]
            entries = [e for g, b in curves for e in entries_of(b, lambda row, g=g: sets_axis(order, g))]
        else:
            curves = [(g, [[s, *row] for s, row in zip(*table(r))]) for g in order for r in drawn(g)]
            entries = [(sets_axis(order, g), x) for g, rows in curves for row in rows for x in row[1:]]
        low, high, all_low, all_high = axis_of(entries, True)
        top = max((mean for counts, mean, *_ in entries if counts and 0 < mean < INF), default=NAN)
        steps = [row[0] for g, b in curves if sets_axis(order, g) for row in b]
        values = {
            "low": max(low, top * 1e-6),
            "high": high,
            "all_low": all_low,
            "all_high": all_high,
            "last_of_all": max([1] + steps),
            "tau": common_threshold([r for g in order for r in g]),
            "heading": f"Max logit of {'the largest' if reduce else 'every'} head against training step",
            **about_groups(groups, labels),
        }
        values["tau_name"] = "threshold " + (
            "NaN" if math.isnan(values["tau"]) else number_text(values["tau"])
        )
        if not reduce:
            heads = len(curves[0][1][0]) - 1
            fallen = [[*d, g + 1] for g, group in enumerate(order) for r in drawn(group) for d in deaths_of(r)]
            values.update(panels=heads, across=2, panel_name=[f"layer {i // 2}, head {i % 2}" for i in range(heads)])
            values.update(order=[i + 1 for i in range(heads)], deaths=len(fallen), dead_share=DEAD_SHARE)
            values.update(runs=len(curves), group_of=[labels.index(a) + 1 for a in labels for _ in drawn(groups[a])])
            return values, {"data": [thinned(b, is_band=False) for _, b in curves], "deaths": [fallen or [[NAN] * 4]]}
        values["last"] = [last_finite(b) for _, b in curves]
        return values, {"data": [no_width(thinned(b)) for _, b in curves]}

    return expected


def heatmap(groups):
    def expected(labels):
        order = [groups[label] for label in labels]
        blocks, shown, started, everything, last = [], [], [], [], 0
        for g in order:
            steps, x = drawn(g)[0].rows("attn/max_logit")
            columns, block = min(240, len(steps)), []
            for b in range(columns):
                part = x[b * len(steps) // columns : (b + 1) * len(steps) // columns]
                at = float("%.6g" % (steps[0] + (steps[-1] - steps[0]) * (b + 0.5) / columns))
                for head in range(x.shape[1]):
                    m = largest(part[:, head])
                    block.append([at, head, m if math.isfinite(m) else NAN])
                    everything.append(m)
                    if m > 0 and sets_axis(order, g):
                        shown.append(m)
                        started += [m] * (b == 0)
            blocks.append(block)
            last = max(last, steps[-1])
        low, high = extent(shown)
        p = order[0][0].p
        layers, heads = int(p["model.layers"]), int(p["model.heads"])
        return {
            "low": max(low, min([high * 1e-4] + started)),
            "high": high,
            "all_low": extent(everything)[0],
            "all_high": extent(everything)[1],
            "last_of_all": last,
            "bin_steps": math.ceil((last + 1) / 240),
            "heads": heads,
            "heads_all": layers * heads,
            "layers": layers,
            "heading": "Max logit: head by training step",
            **about_groups(groups, labels),
        }, {"data": blocks}

    return expected


def loss(groups):
    def smooth(run):
        steps, x = run.rows("loss")
        if len(steps) <= 40:
            return steps, x
        cuts = [(b * len(steps) // 40, (b + 1) * len(steps) // 40) for b in range(40)]
        return np.array([steps[a:b].mean() for a, b in cuts]), np.array([x[a:b].mean(axis=0) for a, b in cuts])

    def expected(labels):
        order, values, blocks, shown, whole, ends = [groups[label] for label in labels], {}, {}, [], [], [1]
        runs = [r for g in order for r in g]
        for name, block, table in (("loss", "train", smooth), ("val_loss", "val", lambda r: r.rows("val_loss"))):
            bands = [band([table(r) for r in drawn(g)]) for g in order]
            for g, b in zip(order, bands):
                counts = sets_axis(order, g)
                whole += entries_of(b, lambda row, c=counts: c)
                shown += entries_of(b, lambda row, c=counts, last=b[-1][0]: c and row[0] >= 0.08 * last)
                if counts:
                    ends.append(b[-1][0])
            values[block + "_last"] = [last_finite(b) for b in bands]
            blocks[block] = [no_width(b) for b in bands]
        finals = [[r.rows("val_loss")[1][-1, 0] for r in drawn(g)] for g in order]
        intervals = [interval(x) if len(x) > 1 else [x[0]] * 3 for x in finals]
        blocks["final"] = [[[x] for x in g] for g in finals]
        for k, name in enumerate(("mean", "lo", "hi")):
            values["final_" + name] = [i[k] for i in intervals]
        ends_of = [
            (sets_axis(order, g), *numbers)
            for g, x, i in zip(order, finals, intervals)
            for numbers in [i] + [[v] * 3 for v in x]
        ]
        floors = {r.floor for r in runs}
        floor = floors.pop() if len(floors) == 1 else NAN
        means = extent([mean for counts, mean, *_ in shown if counts])
        log_y = means[0] > 0 and means[1] >= 20 * means[0]
        low, high, all_low, all_high = axis_of(shown, more=[] if log_y else [floor])
        starts = [mean for counts, mean, *_ in whole if counts]
        length = lambda x: np.subtract(*extent(list(x) + [floor])[::-1])  # noqa: E731
        if not log_y and length(starts) <= 2 * length(means):  # the start takes half of it at most
            low, high, all_low, all_high = axis_of(whole, more=[floor])
        if log_y:  # all of them count
            low, high, all_low, all_high = axis_of(whole, True)
        values.update(low=low, high=high, all_low=all_low, all_high=all_high, log_y=float(log_y))
        values.update(loss_floor=floor, last_of_all=max(ends))
        low, high, final_all_low, final_all_high = axis_of(ends_of)
        rows = max(len(r.rows("loss")[0]) for r in runs)
        values.update(
            final_low=low,
            final_high=high,
            final_all_low=final_all_low,
            final_all_high=final_all_high,
            has_val=float(math.isfinite(low)),
            bin_steps=math.floor(rows / 40 + 0.5) if rows > 40 else 1,
            heading="Training and validation loss" if math.isfinite(low) else "Training loss",
            **about_groups(groups, labels),
        )
        return values, blocks

    return expected


KINDS = ("w_q w_k w_dq w_qc w_qr w_dkv w_kc w_kr", "w_v w_o", "w_gate w_up w_down", "embed head", "")
KIND_NAMES = ("queries and keys", "values and output", "feed-forward", "embedding and head", "other")
MEASURES = ("weight/spectral_norm", "weight/svd_entropy", "weight/stable_rank")


def spectra(groups):
    def kind_of(tensor):
        return next((k for k, names in enumerate(KINDS) if tensor.split(".")[-1] in names.split()), 4)

    def table(run):
        kinds = np.array([kind_of(t) for t in run.tensors])
        steps, parts = run.rows(MEASURES[0])[0], []
        for name in MEASURES:
            x = run.rows(name)[1]
            parts += [x[:, kinds == k].mean(axis=1) if (kinds == k).any() else np.full(len(x), NAN) for k in range(5)]
        return steps, np.array(parts).T

    def expected(labels):
        order = [groups[label] for label in labels]
        bands = [band([table(r) for r in drawn(g)]) for g in order]
        low, high, all_low, all_high, ends = [], [], [], [], [1]
        for m in range(3):
            shown = []
            for g, b in zip(order, bands):
                for row in b:
                    for c in range(2 + 15 * m, 17 + 15 * m, 3):
                        row[c + 1] = 0 if row[c + 1] < 0 else row[c + 1]
                        row[c + 2] = 1 if m == 1 and row[c + 2] > 1 else row[c + 2]
                        shown.append((sets_axis(order, g), *row[c : c + 3]))
                        if math.isfinite(row[c]) and sets_axis(order, g):
                            ends.append(row[0])
            lo, hi, least, most = axis_of(shown)
            margin = 0.06 * (hi - lo) + 1e-6 * hi
            low.append(max(lo - margin, 0) if m == 1 else 0)
            high.append(min(hi + margin, 1) if m == 1 else hi + margin)
            if not high[-1] > low[-1]:
                low[-1] = 0
            all_low.append(least)
            all_high.append(most)
        tensors = [t for g in order for r in g for t in r.tensors]
        have = sorted({kind_of(t) for t in tensors})
        names = [dict.fromkeys(t.split(".")[-1] for t in tensors if kind_of(t) == k) for k in have]
        return {
            "panel_name": [KIND_NAMES[k] for k in have],
            "panel_tensors": [" ".join(x) for x in names],
            "heading": "Spectra of the weights against training step",
            **about_groups(groups, labels),
            "low": low,
            "high": high,
            "all_low": all_low,
            "all_high": all_high,
            "kinds": 5,
            "panels": len(have),
            "panel_kind": have,
            "last_of_all": max(ends),
        }, {"data": [no_width(thinned(b)) for b in bands]}

    return expected


def bounds(weights):
    """Of {the file of the weights: the record of their spectra}."""

    def expected(labels):
        runs = [weights[label] for label in labels]
        names, blocks, values = ("attn/bound", "head_qk/spectral_norm", "head_qk/svd_entropy"), [], {}
        for run in runs:
            for name in names:
                _, heads = run.series[name].shape[1:]
                blocks.append(
                    [
                        [i % heads, i // heads, x if math.isfinite(x) else NAN]
                        for i, x in enumerate(run.rows(name)[1][-1])
                    ]
                )
        extents = [extent([row[2] for b in blocks[m::3] for row in b if row[2] > 0]) for m in range(3)]
        shape = [r.series["attn/bound"].shape[1:] for r in runs]
        values.update(
            low=[e[0] for e in extents],
            high=[e[1] for e in extents],
            layers=[s[0] for s in shape],
            heads=[s[1] for s in shape],
            source=labels,
            heading="What bounds the logits of every head",
            about=about(runs),
        )
        return values, {"data": blocks}

    return expected


TITLES = {"loss": "training loss", "val": "validation loss", "peak": "peak max logit", "last": "last max logit"}
TITLES.update(clips="clips", spikes="loss spikes")


def title(name, run):
    """Of a metric, in words: here of all steps, or of the last one."""
    series, window, reduction = (name + ":::").split(":")[:3]
    if name in TITLES or is_time(name) or re.search("slope|over=", reduction):
        return TITLES.get(name, name)
    assert window == "all", name
    return f"{run.words[series]}, {reduction} over all steps"


def capital(heading):
    return heading if re.match(r"[^ ]*[/_:=.@]", heading) else heading[:1].upper() + heading[1:]


def suits_log(name):
    """Logits, norms, losses and times may have a logarithmic axis."""
    series = NAMED.get(name, name).split(":")[0]
    if re.search("slope|over=|svd_entropy", name):
        return False
    return is_time(name) or re.search("logit|norm|bound|loss", series) is not None


def unit(name):
    """Of a metric; nothing of a pure number."""
    if is_time(name) or re.search("slope|over=", name):
        return "step" if is_time(name) else ""
    series = NAMED.get(name, name).split(":")[0]
    return {"loss": "nat", "val_loss": "nat", "attn/max_logit": "nat", "attn/entropy": "nat"}.get(series, "")


def axis_label(name, run):
    return title(name, run) + (f"  ({unit(name)})" if unit(name) else "")


def counts(run, name):
    v = metric(run, name)
    return v is not None and (isinstance(v, tuple) or not run.failed)


def plain(v):
    return v[0] if isinstance(v, tuple) else v


def spread(values, least):
    low, high = extent(values)
    return float(low > 0 and high / low >= least)


def parameter(groups, name):
    """A curve a kind, over train.lr."""

    def expected(labels):
        runs = [r for g in groups.values() for r in g]
        rates = sorted({r.lr for r in runs})
        shown = [plain(metric(r, name)) for r in runs if counts(r, name)]
        log_y = spread(shown, 8) if suits_log(name) else 0.0
        values = {
            "log_x": spread(rates, 4),
            "log_y": log_y,
            "times": float(is_time(name)),
            "x_low": rates[0],
            "x_high": rates[-1],
            "last_of_all": 1,
            "last": [],
            "last_x": [],
            "dots": [],
            "crosses": 0,
        }
        seen = [(True, v, NAN, NAN) for v in shown]
        share = float("over=" in name)
        curves, dots, cross_x, cross_g = [], [], [], []
        for c, label in enumerate(labels):
            curve, dot, last, last_x = [], [], NAN, NAN
            for lr in rates:
                group = sorted([r for r in groups[label] if r.lr == lr], key=lambda r: r.seed)
                middle, lo, hi = group_measure(group, name, "geometric" if log_y else "arithmetic")
                narrow = math.isnan(lo) or math.isinf(hi)
                middle = NAN if math.isinf(middle) else middle
                if narrow:
                    lo = hi = middle
                elif share:
                    lo, hi = max(lo, 0), min(hi, 1)
                if not log_y or middle > 0:
                    seen.append((True, middle, *(v if v > 0 or not log_y else NAN for v in (lo, hi))))
                curve.append(
                    [lr, len(counted(group, name)), middle, lo, hi]
                    + [sum(r.diverged for r in group), sum(r.blown_up for r in group)]
                )
                if any(r.failed and not counts(r, name) for r in group):
                    cross_x.append(lr)
                    cross_g.append(c + 1)
                if math.isfinite(middle):
                    last, last_x = middle, lr
                for r in group:
                    v = metric(r, name)
                    y = plain(v) if counts(r, name) and not (isinstance(v, tuple) and v[1]) else NAN
                    dot.append([lr, y if math.isfinite(y) else NAN])
            curves.append(curve)
            dots.append(dot)
            values["last"].append(last)
            values["last_x"].append(last_x)
            values["dots"].append(sum(math.isfinite(y) for _, y in dot))
        values["crosses"], values["share"] = len(cross_x), share
        low, high, values["all_low"], values["all_high"] = axis_of(seen)
        if log_y:
            low, high = axis_of(seen, True)[:2]
        values["low"], values["high"] = low, high
        values.update(
            about_groups(groups, labels, "run"),
            about=about(runs),
            heading=capital(f"{title(name, runs[0])} against train.lr"),
            x_name="train.lr",
            y_name=axis_label(name, runs[0]),
        )
        if cross_x:
            values.update(cross_x=cross_x, cross_g=cross_g)
        return values, {"curves": curves, "runs": dots}

    return expected


def field(groups, name):
    """A panel a kind, train.lr by train.weight_decay."""

    def expected(labels):
        runs = [r for g in groups.values() for r in g]
        x, y = sorted({r.lr for r in runs}), sorted({r.decay for r in runs})
        log_z = spread([plain(metric(r, name)) for r in runs if counts(r, name)], 8) if suits_log(name) else 0.0
        panels = []
        for label in labels:
            cells = []
            for row, decay in enumerate(y):
                for column, lr in enumerate(x):
                    cell = [r for r in groups[label] if (r.lr, r.decay) == (lr, decay)]
                    if cell:
                        middle = group_measure(cell, name, "geometric" if log_z else "arithmetic")[0]
                        cells.append(
                            [
                                column,
                                row,
                                middle if math.isfinite(middle) else NAN,
                                len(counted(cell, name)),
                                sum(r.failed and not counts(r, name) for r in cell),
                            ]
                        )
            panels.append(cells)
        low, high = extent([c[2] for p in panels for c in p])
        return {
            "log_z": log_z,
            "times": float(is_time(name)),
            "x_values": len(x),
            "y_values": len(y),
            "low": low,
            "high": high,
            "last_of_all": 1,
            **about_groups(groups, labels, "run"),
            "heading": capital(f"{title(name, runs[0])} over train.lr and train.weight_decay"),
            "x_name": "train.lr",
            "y_name": "train.weight_decay",
            "z_name": axis_label(name, runs[0]),
            "x_value": [number_text(v) for v in x],
            "y_value": [number_text(v) for v in y],
        }, {"cells": panels}

    return expected


def difference(arms, series):
    """{(value of --by): [(a, b), ...]}; a curve each."""
    ratio = "logit" in series
    words = next(iter(arms.values()))[0][0].words[series]
    several = len(next(iter(arms.values()))[0][0].rows(series)[1][0]) > 1
    over = {"attn": "heads", "weight": "tensors"}.get(series.split("/")[0], "")
    reduced = largest if ratio else lambda row: sum(row) / len(row)

    def table(a, b):
        (sa, xa), (sb, xb) = (r.rows(series) for r in (a, b))
        out = []
        for s in sorted(set(sa) & set(sb)):
            v, w = (reduced(x[list(steps).index(s)]) for steps, x in ((sa, xa), (sb, xb)))
            if math.isfinite(v) and math.isfinite(w) and (not ratio or v > 0 and w > 0):
                out.append((s, [w / v if ratio else w - v]))
        return [s for s, _ in out], [x for _, x in out]

    def expected(labels):
        bands, notes, seeds = [], [], []
        for label in labels:
            pairs = arms[label]
            diverged = sum(a.diverged or b.diverged for a, b in pairs)
            blown_up = sum(a.failed or b.failed for a, b in pairs) - diverged
            many = [f"{n} of {len(pairs)} {how}" for n, how in ((diverged, "diverged"), (blown_up, "blown up")) if n]
            both = f"of {len(pairs)} {diverged} diverged, {blown_up} blown up"
            notes.append(f" ({both})" if len(many) > 1 else f" ({many[0]})" if many else "")
            seeds.append(len(pairs) - diverged - blown_up)
            bands.append(band([table(a, b) for a, b in pairs if not (a.failed or b.failed)], ratio))
        scale = (lambda v: math.log(v) if v > 0 else NAN) if ratio else (lambda v: v)
        if "entropy" in series:
            for row in (row for b in bands for row in b if not math.isnan(row[3])):
                row[3], row[4] = max(row[3], -1), min(row[4], 1)
        seen = [(True, 0, 0, 0)] + [(True, *map(scale, row[2:5])) for b in bands for row in b]
        low, high, all_low, all_high = axis_of(seen)
        return {
            "low": low,
            "high": high,
            "all_low": all_low,
            "all_high": all_high,
            "last_of_all": max([1] + [b[-1][0] for b in bands if b]),
            "ratio": float(ratio),
            "groups": len(bands),
            "kind": labels,
            "rest": ["" for _ in labels],
            "note": notes,
            "seeds": seeds,
            "clipped": [1 for _ in labels],
            "shade": shades(labels),
            "about": about([r for pairs in arms.values() for pair in pairs for r in pair]),
            "heading": capital(
                words
                + (f", {'max' if ratio else 'mean'} over {over}" if several else "")
                + f": kind=muonclip {'over' if ratio else 'minus'} kind=adam"
            ),
            "y_name": f"{words}, muonclip {'/' if ratio else '-'} adam"
            + ("  (log scale)" if ratio else "  (nat)" if "loss" in series else ""),
            "last": [last_finite(b) for b in bands],
        }, {"data": [no_width(thinned(b)) for b in bands]}

    return expected


# --- columns ------------------------------------------------------------------------------------------------


def columns(run, names, layer=None, head=None, reduce=None):
    """What export writes of these series: names of the columns, and a row each step that one of them has."""
    tables = []
    for name in names:
        steps, rows = run.rows(name)
        heads = run.names(name) or [name]
        kept = [
            i
            for i, h in enumerate(heads)
            for place in [re.fullmatch(r"l(\d+)(?:h(\d+))?", h)]
            if place is None or (layer in (None, int(place[1])) and (place[2] is None or head in (None, int(place[2]))))
        ]
        values = [[row[i] for i in kept] for row in rows]
        labels = [f"{name}:{heads[i]}" if len(names) > 1 and run.names(name) else heads[i] for i in kept]
        if reduce:
            values, labels = [[largest(v) if reduce == "max" else sum(v) / len(v)] for v in values], [name]
        tables.append((labels, dict(zip(steps, values))))
    steps = sorted({step for _, table in tables for step in table})
    rows = [[s] + [x for labels, table in tables for x in table.get(s, [MISSING] * len(labels))] for s in steps]
    return ["step"] + [label for labels, _ in tables for label in labels], rows


def check_columns(runs, group):
    """Series as text: of one layer and head, every so many steps, thinned, reduced, side by side, and over seeds."""

    def written(*words):
        lines = maxlogit("export", *words).splitlines()
        rows = [[float(x) for x in line.split()] for line in lines if line[0] != "#"]
        return next(line for line in lines if line.startswith("# step")).split()[1:], rows

    series = (["loss"], ["attn/max_logit"], ["weight/stable_rank"], ["loss", "val_loss", "attn/entropy"])
    choices = ({}, {"layer": 1}, {"head": 1}, {"layer": 0, "head": 1}, {"reduce": "max"}, {"reduce": "mean"})
    for run, names, choice in itertools.product(runs, series, choices):
        labels, rows = columns(run, names, **choice)
        options = [f"--{key}={value}" for key, value in choice.items()]
        for how, ours in (
            ([], rows),
            (["--every=2"], [r for r in rows if r[0] % 2 == 0]),
            (["--every=3"], [r for r in rows if r[0] % 3 == 0]),
            (["--bins=2"], thinned(rows, 2, False)),
        ):
            what = f"export {run.name} {' '.join(names + options + how)}"
            found, theirs = written(run.name, *names, *options, *how)
            compare(f"{what}: columns", labels, found)
            compare(f"{what}: rows", len(ours), len(theirs))
            for a, b in zip(ours, theirs):
                compare(what, a, b)
    for mean in ("arithmetic", "geometric"):
        for names, choice in ((["loss"], {}), (["attn/max_logit"], {"reduce": "max"}), (["attn/entropy"], {"layer": 1})):
            tables = [columns(r, names, **choice)[1] for r in group if not r.failed]
            ours = band([([row[0] for row in t], [row[1:] for row in t]) for t in tables], mean == "geometric")
            words = [f"--band={mean}", *[f"--{key}={value}" for key, value in choice.items()]]
            _, theirs = written(*[r.name for r in group], *names, *words)
            compare(f"export {' '.join(words)}: rows", len(ours), len(theirs))
            for a, b in zip(ours, theirs):
                compare(f"export {' '.join(names + words)}", a, b)


def held(steps, x):
    """For how long the sign of the last value has held, times that sign; before a NaN nothing is known."""
    sign = lambda v: (v > 0) - (v < 0)  # noqa: E731
    if math.isnan(x[-1]):
        return NAN
    known = next((len(x) - i for i, v in enumerate(x[::-1]) if math.isnan(v)), 0)
    others = [s for s, v in zip(steps[known:], x[known:]) if sign(v) != sign(x[-1])]
    return sign(x[-1]) * (steps[-1] - (others[-1] if others else steps[known]))


def summed(steps, x):
    """The sum of what is per step, a NaN left out."""
    each = [1] + [b - a for a, b in zip(steps, steps[1:])]
    return sum(n * v for n, v in zip(each, x) if not math.isnan(v))


def kept(steps, x):
    """1 where the last two values have one sign, else 0; of no or one value that is known, nothing."""
    return NAN if len(x) < 2 or math.isnan(x[-1] + x[-2]) else float(np.sign(x[-1]) == np.sign(x[-2]))


def check_made():
    """Series that are made of others when they are read."""
    rng = np.random.default_rng(5)
    with h5py.File(os.path.join(FOLDER, "made.h5"), "r+") as f:
        f["series/spectra_step"][...] = np.cumsum(rng.integers(1, 4, len(f["series/spectra_step"])))
        for name in ("update/alignment", "drive/gain"):
            x = f[f"series/{name}"]
            x[...] = rng.choice([-1.5, -0.25, 0, 0.5, 2, NAN], x.shape, p=[0.2, 0.2, 0.1, 0.2, 0.2, 0.1])
    maxlogit("note", "--accept-edit", "made.h5", "filled by redraw.py")
    with h5py.File(os.path.join(FOLDER, "made.h5")) as f:
        steps = [float(s) for s in f["series/spectra_step"][()]]
        for name, made, of in (
            ("update/alignment", "update/alignment_persistence", held),
            ("drive/gain", "drive/sum", summed),
            ("drive/gain", "drive/sign_kept", kept),
        ):
            x = f[f"series/{name}"][()].astype(float).reshape(len(steps), -1)
            lines = [line.split() for line in maxlogit("export", "made.h5", made).splitlines() if line[0] != "#"]
            compare(f"export {made}: rows", len(steps), len(lines))
            for r, line in enumerate(lines):
                ours = [of(steps[: r + 1], [float(v) for v in x[: r + 1, c]]) for c in range(x.shape[1])]
                compare(f"export {made}, row {r}", [steps[r]] + ours, [float(v) for v in line])


# --- where the largest stands ---------------------------------------------------------------------------------


def place(steps, x, heads):
    """Of the values in their order the first NaN, else the first of the largest."""
    flat = x.ravel()
    at = int(np.argmax(np.isnan(flat))) if np.isnan(flat).any() else int(np.argmax(flat))
    return [flat[at], steps[at // x.shape[1]], at % x.shape[1] // heads, at % heads]


def places(run):
    steps, x = run.rows("attn/max_logit")
    heads = run.series["attn/max_logit"].shape[2]
    return place(steps, x, heads), place(steps[-1:], x[-1:], heads)


def short(value):
    return "nan" if math.isnan(value) else "%.4g" % value


def check_places(runs, told):
    """show, in both forms, peak and last as metrics, and what `told` (a sweep's table: id, peak, last) says."""
    text = maxlogit("show", *[r.name for r in runs]).splitlines()
    summaries = {line["file"]: line for line in json.loads(maxlogit("show", "--json", *[r.name for r in runs]))}
    for run in runs:
        line = summaries[run.name]
        peak, last = places(run)
        for key, ours in (("peak_max_logit", peak), ("last_max_logit", last)):
            compare(f"show {run.name}: {key}", ours, [number(line[key][k]) for k in ("value", "step", "layer", "head")])
        compare(f"{run.name}: metrics", [peak[0], last[0]], [metric(run, "peak"), metric(run, "last")])
        said = " ".join(f"{short(v)} L{layer}H{head}" for v, _, layer, head in (peak, last))
        line = " ".join(next(x for x in text if x.endswith(" " + os.path.basename(run.name))).split())
        compare(f"show {run.name}", True, f" {said} " in line or line)
        for row in told:
            if row[0] == run.id:
                compare(f"sweep {run.name}", [short(peak[0]), short(last[0])], row[1:])


def check_run(name, *words):
    """What `run` says at its end, and the state that goes on, are what the run file has."""
    tiny = [
        "model.width=8",
        "model.heads=2",
        "model.layers=2",
        "model.context=8",
        "train.batch=2",
        "train.warmup=0",
        "train.steps=5",
        "device.threads=1",
        "checkpoint.every=1",
        "train.val_every=0",
    ]
    out = maxlogit("run", "-q", f"record.path={name}", *tiny, *words)
    out = maxlogit("run", f"record.path={name}", "record.overwrite=1", *tiny, *words)
    peak, last = places(Run(name))
    said = re.search(
        r"max logit  last (\S+) \(layer (\d+), head (\d+)\)  peak (\S+) at step (\d+) \(layer (\d+), head (\d+)\)", out
    )
    compare(
        f"run {name}",
        [short(last[0]), str(last[2]), str(last[3]), short(peak[0])] + [str(int(x)) for x in peak[1:]],
        list(said.groups()) if said else out,
    )
    return peak


def main():
    by_point, told = {}, []
    for file in sorted(os.listdir(os.path.join(FOLDER, "runs"))):
        if file.endswith(".h5"):
            run = Run("runs/" + file)
            by_point[run.p["preset"], run.lr, run.decay, run.seed] = run
    for name in ("sparse.h5",):
        run = Run(name)
        by_point[run.p["preset"], run.lr, run.decay, run.seed] = run
    kinds = [
        "clean",
        "large",
        "clean late",
        "nan",
        "inf",
        "low",
        "negative",
        "nan inf",
        "constant",
        "inf low nan",
        "last",
        "large",
    ]
    states = {
        ("adam", 0.003, 0.0): (None, "diverged", None),
        ("muonclip", 0.02, 0.0): (None, "stopped", "stopped"),
        ("muonclip", 0.003, 0.1): ("diverged", "diverged", "diverged"),
    }
    for i, (point, run) in enumerate(sorted(by_point.items())):
        state = states.get(point[:3], (None,) * 4)[point[3] - 1] if point[3] < 4 else None
        by_point[point] = fill(
            run.name, i, "clean" if point[1:3] == (0.02, 0.0) and point[3] < 3 else kinds[i % len(kinds)], state
        )
    runs = list(by_point.values())
    groups = {}
    for (kind, lr, decay, _), run in sorted(by_point.items()):
        groups.setdefault((kind, lr, decay), []).append(run)
    ones = [fill(f"one-{seed}.h5", 90 + seed, "clean", (None, "stopped")[seed - 1]) for seed in (1, 2)]
    longs = [
        fill(f"long-{seed}.h5", 80 + seed, kind, floor=floor)
        for seed, kind, floor in ((1, "clean", 1.5), (2, "nan inf last", 1.25))
    ]
    bound = {f"weights-{seed}.h5": Run(f"bounds-{seed}.h5") for seed in (1, 2, 3)}

    check_metrics(runs + ones, {**groups, "one": ones})
    told = []
    for options in ([], ["--ratio"]):
        for lr, decay, seeds in (
            (0.02, 0.0, (1, 2, 3, 4)),
            (0.003, 0.0, (1, 2, 3)),
            (0.02, 0.1, (1, 2, 3)),
            (0.02, 0.0, (1,)),
        ):
            arms = [
                {s: by_point[kind, lr, decay, s] for s in seeds if (kind, lr, decay, s) in by_point}
                for kind in ("adam", "muonclip")
            ]
            told += check_compare(arms, options)
        check_compare_by(by_point, options)
    compare(
        "a difference that is one by itself, of several none",
        True,
        any(p is not None and p < 0.05 < holm for p, holm in told),
    )

    check_alike()
    check_eval()
    check_rerun()
    check_order(runs)
    check_spectra()
    sets = [
        {kind: groups[kind, lr, decay] for kind in ("adam", "muonclip")} for lr in (0.003, 0.02) for decay in (0.0, 0.1)
    ]
    sets += [{"muonclip": groups["muonclip", 0.003, 0.1]}, {"adam": longs}, {"adam": longs[:1]}, {"adam": longs[1:]}]
    for some in sets + [{"adam": ones}]:
        files = [r.name for g in some.values() for r in g]
        what = ", ".join(
            f"{len(g)} {kind} lr {g[0].lr:g} decay {g[0].decay:g} x {g[0].last_step}" for kind, g in some.items()
        )
        for figure, expected in (
            ("logits", logits(some, True)),
            ("heads", logits(some, False)),
            ("heatmap", heatmap(some)),
            ("loss", loss(some)),
            ("spectra", spectra(some)),
        ):
            if some.get("adam") == ones and figure == "heatmap":
                maxlogit("plot", "--script", "--figure=heatmap", *files, status=2)
            else:
                check_figure(f"{figure} of {what}", [f"--figure={figure}", *files], expected)
    two = {f"{kind} lr={lr:g}": groups[kind, lr, 0.0] for kind in ("adam", "muonclip") for lr in (0.003, 0.02)}
    for by in ([], ["--by=kind,train.lr"]):
        files = [r.name for g in two.values() for r in reversed(g)]
        check_figure(f"logits of two groups a kind {by}", ["--figure=logits", *files, *by], logits(two, True))
    check_figure("bounds", ["--figure=bounds", *[r.name for r in bound.values()]], bounds(bound), "source")
    in_order = sorted(by_point.items(), key=lambda x: (x[0][2], x[0][1], x[0][3]))
    both = {kind: [r for p, r in in_order if p[0] == kind] for kind in ("adam", "muonclip")}
    flat = {kind: [r for r in both[kind] if r.decay == 0] for kind in both}
    for name in (
        "val",
        "peak",
        "loss:all:mean",
        "attn/entropy:all:min",
        "loss:all:above=3.5",
        "attn/max_logit:all:above=3.75",
        "clips",
    ):
        check_figure(
            f"{name} over lr",
            [*[r.name for g in flat.values() for r in g], "--x=train.lr", f"--y={name}"],
            parameter(flat, name),
        )
        check_figure(
            f"{name} over lr and decay",
            [*[r.name for g in both.values() for r in g], "--x=train.lr", "--y=train.weight_decay", f"--of={name}"],
            field(both, name),
        )
    for series in ("attn/max_logit", "loss", "val_loss", "weight/stable_rank"):
        for rates, seeds in (((0.003, 0.02), (1, 2, 3)), ((0.003,), (1,))):  # of the one pair B is far above A
            arms = {
                f"lr={lr:g}": [(by_point["adam", lr, 0.0, s], by_point["muonclip", lr, 0.0, s]) for s in seeds]
                for lr in rates
            }
            files = [r.name for pairs in arms.values() for pair in pairs for r in pair]
            check_figure(
                f"difference of {series}, {len(files)} runs",
                ["--diff", *files, "kind=adam", "kind=muonclip", "--by=train.lr", f"--of={series}"],
                difference(arms, series),
            )

    listing = maxlogit(
        "sweep",
        "-q",
        "none.conf",
        "preset=adam,muonclip",
        "train.lr=0.003,0.02",
        "train.weight_decay=0,0.1",
        "train.seed=1,2,3",
        *open(os.path.join(FOLDER, "small")).read().split(),
        "sweep.dir=runs",
    )
    told = [[line.split()[0]] + line.split()[3:5] for line in listing.splitlines()[1:]]
    compare("sweep: runs", 24, len(told))
    check_columns([by_point["adam", 0.02, 0.0, 4], by_point["muonclip", 0.02, 0.0, 1]], groups["adam", 0.02, 0.0])
    check_made()
    check_places(runs + ones + longs, told)
    check_run("still.h5", "train.lr=0", "train.plant=*:*:0", "preset=adam")  # all are equal
    check_run("planted.h5", "train.plant=1:1:1e20", "train.on_nonfinite=continue", "preset=muon")
    check_run("diverges.h5", "train.plant=1:1:1e20", "preset=muon")

    for line in wrong[:40]:
        print(line)
    print(f"{compared} numbers made again, {len(wrong)} wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
