"""redraw.py FOLDER PROGRAM - what the program draws and reduces, made again by numpy from the files alone

FOLDER has a/ and b/ (two arms, the same seeds), grid/ (rates and decays) and odd/ (NaN, one step, diverged), as
redraw.sh makes them. Student's t: 97.5 % quantiles by degrees of freedom."""
import glob
import json
import os
import re
import subprocess
import sys

import h5py
import numpy as np

T = {1: 12.706204736174698, 2: 4.302652729749464, 3: 3.182446305284263}
folder, program = sys.argv[1:]
scripts = os.path.join(os.environ.get("top_srcdir", "."), "plots")
checked = wrong = 0
np.seterr(all="ignore")


def check(what, got, want, tolerance=2e-6):
    """Equal numbers, a NaN only to a NaN. The files have single precision."""
    global checked, wrong
    got, want = np.atleast_1d(np.array(got, float)), np.atleast_1d(np.array(want, float))
    checked += want.size
    if got.shape == want.shape and np.allclose(got, want, rtol=tolerance, atol=1e-9, equal_nan=True):
        return
    wrong += 1
    print(f"FAIL: {what}: the program has\n{got}\nhere is\n{want}")


class Run:
    def __init__(self, path):
        self.path, self.file = path, h5py.File(path)
        self.state = self.file["status"].attrs["state"]
        self.state = self.state.decode() if isinstance(self.state, bytes) else self.state
        self.last = int(self.file["status"].attrs["last_step"])

    def series(self, name):
        data = self.file["series"][name]
        value = np.array(data, float)
        axis = data.dims[0][0]
        return np.array(axis[: len(value)], float), value.reshape(len(value), -1)

    def tensors(self):
        return [x.decode() if isinstance(x, bytes) else x for x in self.file["series/weight/svd_entropy"].dims[1][0]]

    def parameter(self, name):
        return float(self.file["parameters"].attrs[name])

    counts = property(lambda self: self.state != "diverged")


def runs(where):
    return [Run(path) for path in sorted(glob.glob(f"{folder}/{where}/*.h5"))]


def told(*words):
    out = subprocess.run([program, *words], capture_output=True, text=True)
    if out.returncode:
        sys.exit(f"{words}: exit {out.returncode}: {out.stderr}")
    return out.stdout


class Script:
    """What gnuplot would get: blocks of numbers, and names with their values."""

    def __init__(self, *words):
        text = told("plot", "--script", "--scripts", scripts, *words)
        self.block, self.value = {}, {}
        for name, body in re.findall(r"\$(\w+) << EOD\n(.*?)EOD\n", text, re.S):
            groups = re.split(r"\n\n\n", body.strip("\n") + "\n") if body.strip() else []
            self.block[name] = [
                np.array([[float(x) for x in line.split()] for line in group.splitlines() if line and line[0] != "#"])
                for group in groups
            ]
        for name, value in re.findall(r"^(?:array )?(\w+)(?:\[\d+\])? = (.*)$", text, re.M):
            self.value[name] = [float(x) for x in re.findall(r"(?<![\w.])-?(?:\d[\d.]*(?:e[-+]?\d+)?|NaN|Inf)", value) if x.count(".") < 2]
        if not text.strip().endswith("'"):
            sys.exit(f"{words}: no whole script")


def interval(values, geometric=False, edges=True):
    x = np.log(values) if geometric else np.array(values, float)
    if geometric and not np.all(np.array(values) > 0):
        return [np.nan] * 3
    mean, n = x.mean(), len(x)
    half = T[n - 1] * x.std(ddof=1) / np.sqrt(n) if n > 1 else (0 if edges else np.nan)
    out = np.array([mean, mean - half, mean + half])
    return list(np.exp(out) if geometric else out)


def band(group, columns, geometric):
    """step n (mean lo hi) ...: an interval over the runs, column by column."""
    step = group[0][0]
    rows = []
    for i in range(len(step)):
        row = [step[i], len(group)]
        for c in range(columns):
            row += interval([values[i, c] for _, values in group], geometric)
        rows.append(row)
    return np.array(rows)


# --- figures of the registry ---------------------------------------------------------------------------------


def largest(run):
    step, value = run.series("attn/max_logit")
    return step, value.max(axis=1, keepdims=True)


def means(run, bins):
    """Rows bins[b] to bins[b+1] become one."""
    step, value = run.series("loss")
    cut = [b * len(step) // bins for b in range(bins + 1)]
    return (np.array([step[i:j].mean() for i, j in zip(cut, cut[1:])]),
            np.array([[value[i:j].mean()] for i, j in zip(cut, cut[1:])]))


def figures():
    arms = [runs("a"), runs("b")]
    where = [f"{folder}/a", f"{folder}/b"]
    s = Script("--figure", "logits", *where)
    for g, arm in enumerate(arms):
        check(f"logits of group {g}", s.block["data"][g], band([largest(r) for r in arm], 1, True))
        check("the last of a curve", s.value["last"][g], band([largest(r) for r in arm], 1, True)[-1, 2])
    check("tau", s.value["tau"], 4)
    every = np.concatenate([band([largest(r) for r in arm], 1, True)[:, 2:] for arm in arms])
    check("upper edge", s.value["high"], np.minimum(every[:, 2], 2 * every[:, 0]).max())
    s = Script("--figure", "heads", *where)
    for g, arm in enumerate(arms):
        check(f"heads of group {g}", s.block["data"][g], band([r.series("attn/max_logit") for r in arm], 4, True))
    s = Script("--figure", "heatmap", *where)
    for g, arm in enumerate(arms):
        step, value = arm[0].series("attn/max_logit")
        span = (step[-1] - step[0]) / len(step)
        want = [[step[0] + span * (i + 0.5), c, value[i, c]] for i in range(len(step)) for c in range(4)]
        check(f"map of heads of group {g}", s.block["data"][g], want, 1e-5)
    s = Script("--figure", "loss", *where)
    for g, arm in enumerate(arms):
        check(f"training loss of group {g}", s.block["train"][g], band([means(r, 40) for r in arm], 1, False))
        check(f"validation loss of group {g}", s.block["val"][g], band([r.series("val_loss") for r in arm], 1, False))
        final = [r.series("val_loss")[1][-1, 0] for r in arm]
        check(f"ends of group {g}", s.block["final"][g], [[x] for x in final])
        for i, name in enumerate(["final_mean", "final_lo", "final_hi"]):
            check(name, s.value[name][g], interval(final)[i])
    check("rows that one point is of", s.value["bin_steps"], round(90 / 40))
    s = Script("--figure", "spectra", *where)
    kinds = [{"w_q", "w_k"}, {"w_v", "w_o"}, {"w_gate", "w_up", "w_down"}, {"embed", "head"}]
    for g, arm in enumerate(arms):
        each = []
        for r in arm:
            ends = [name.split(".")[-1] for name in r.tensors()]
            columns = []
            for measure in ["spectral_norm", "svd_entropy", "stable_rank"]:
                step, value = r.series("weight/" + measure)
                columns += [value[:, [e in k for e in ends]].mean(axis=1) for k in kinds] + [np.full(len(step), np.nan)]
            each.append((step, np.array(columns).T))
        check(f"spectra of group {g}", s.block["data"][g], band(each, 15, False))
    # what is not finite is drawn as a gap, and a run that diverged is in no mean
    r = Run(f"{folder}/odd/nan.h5")
    step, value = r.series("attn/max_logit")
    lost = ~np.isfinite(value.max(axis=1))
    assert lost.any() and not lost.all(), "the run that goes on has no NaN"
    got = Script("--figure", "logits", r.path).block["data"][0]
    check("a gap for what is not finite", np.isnan(got[:, 2]), ~(value.max(axis=1) > 0) | lost)
    check("the rest of it", got[~lost, 2], value.max(axis=1)[~lost])
    floor = [Script("--figure", "loss", f"{folder}/a/1.h5", path).value["loss_floor"][0]
             for path in (f"{folder}/a/2.h5", f"{folder}/other/recall.h5")]
    check("a floor that all runs share, and one that they do not", np.isnan(floor), [False, True])
    script = told("plot", "--script", "--scripts", scripts, "--figure", "loss", f"{folder}/late")
    check("unfinished runs are told", "array note[1] = [' (2 of 2 unfinished)']" in script, True)
    pair = [f"{folder}/odd/diverged.h5", f"{folder}/odd/lasting.h5"]
    got = Script("--figure", "logits", "--by", "optimizer", *pair).block["data"]
    check("without the run that diverged", got[0][:, :3], band([largest(Run(pair[1]))], 1, True)[:, :3])


# --- a metric over parameters, and differences of arms ----------------------------------------------------------


def peak(r):
    return r.series("attn/max_logit")[1].max()


def over_parameters():
    grid = runs("grid")
    rates = sorted({r.parameter("train.lr") for r in grid})
    decays = sorted({r.parameter("train.weight_decay") for r in grid})
    s = Script("--x", "train.lr", "--y", "peak", "--by", "optimizer", f"{folder}/grid")
    assert len(rates) == 3 and len(decays) == 2
    logs = s.value["log_y"][0] == 1
    want = []
    for lr in rates:
        some = [peak(r) for r in grid if r.parameter("train.lr") == lr]
        want.append([lr, 4, *interval(some, logs), 0])
    check("a metric over a parameter", s.block["curves"][0], want)
    dots = s.block["runs"][0]
    check("its runs", sorted(map(tuple, dots)), sorted((r.parameter("train.lr"), peak(r)) for r in grid))
    s = Script("--x", "train.lr", "--y", "train.weight_decay", "--of", "val", f"{folder}/grid")
    cells = {}
    for r in grid:
        at = (rates.index(r.parameter("train.lr")), decays.index(r.parameter("train.weight_decay")))
        cells.setdefault(at, []).append(r.series("val_loss")[1][-1, 0])
    logs = s.value["log_z"][0] == 1
    want = sorted((x, y, interval(v, logs)[0], 2, 0) for (x, y), v in cells.items())
    check("a map of a metric", sorted(map(tuple, s.block["cells"][0])), want)
    check("its colours", [s.value["low"][0], s.value["high"][0]], [min(w[2] for w in want), max(w[2] for w in want)])


def differences():
    a, b = runs("a"), runs("b")
    for name, of in [("loss", "loss"), ("logits", "attn/max_logit")]:
        s = Script("--diff", "--of", of, f"{folder}/a", f"{folder}/b")
        pairs = []
        for x, y in zip(a, b):
            if name == "logits":
                pairs.append((largest(x)[0], np.log(largest(y)[1] / largest(x)[1])))
            else:
                pairs.append((x.series(of)[0], y.series(of)[1] - x.series(of)[1]))
        want = band(pairs, 1, False)
        if name == "logits":
            want[:, 2:] = np.exp(want[:, 2:])
        block = next(v for k, v in s.block.items() if v and v[0].shape == want.shape)
        check(f"difference of {name}", block[0], want, 1e-5)


# --- reductions ---------------------------------------------------------------------------------------------------


def window(r, step, text):
    last = np.inf
    if text == "all":
        first = 0
    elif text.endswith("%"):
        first = (1 - float(text[4:-1]) / 100) * r.last
    elif text.startswith("last"):
        n = int(text[4:] or 1)
        rows = np.arange(len(step)) >= len(step) - n
        at = np.flatnonzero(rows)
        if n > 1 and len(at) > 1 and step[at[0]] == 0:
            rows[at[0]] = False
        return rows
    else:
        first, last = map(float, text.split("-"))
    return (step >= first) & (step <= last)


def reduced(r, series, rows, how):
    step, value = r.series(series)
    keep = window(r, step, rows)
    step, value = step[keep], value[keep]
    if not len(step):
        return None
    flat = value.ravel()
    if how == "":
        return flat.mean()
    if how in ("mean", "max", "min", "median"):
        return getattr(np, how)(flat)  # of these numpy's, too, are NaN where one is
    kind, level = how.split("=") if "=" in how else (how, "nan")
    above = ~(flat <= float(level))  # a NaN is above every level
    if kind == "over":
        return above.mean()
    if kind == "above":
        rows = (~(value <= float(level))).any(axis=1)
        return step[rows][0] if rows.any() else ("censored", step[-1])
    later = step > 0
    x, y = step[later], value[later].max(axis=1)
    if len(x) < 2 or not np.all(y > 0) or not np.isfinite(y).all():
        return np.nan
    return np.polyfit(np.log(x), np.log(y), 1)[0]


def number(x):
    return float(x) if not isinstance(x, dict) else float(x["value"])


def reductions():
    windows = ["last", "last1", "last3", "last500", "last10%", "last100%", "all", "0-0", "3-7", "1000-2000"]
    hows = ["mean", "max", "min", "median", "slope", "over=3.2", "above=3.2", "above=1e9", "over=-1"]
    texts = [f"{s}:{w}:{h}" for s in ["attn/max_logit", "weight/stable_rank", "val_loss"] for w in windows for h in hows]
    texts += [f"loss:{w}" for w in windows] + ["loss", "val_loss"]
    some = [runs("a")[0], runs("b")[1], *runs("odd")]
    seen = {"nan": 0, "empty": 0, "censored": 0}
    for from_ in range(0, len(texts), 16):
        part = texts[from_ : from_ + 16]
        rows = json.loads(told("show", "--json", "--of", ",".join(part), *[r.path for r in some]))
        metrics = {row["file"]: row["metrics"] for row in rows}
        for r in some:
            for text in part:
                name, rows_, how = (text.split(":") + ["last", ""][len(text.split(":")) - 1 :])[:3]
                want, got = reduced(r, name, rows_, how), metrics[r.path][text]
                what = f"{os.path.relpath(r.path, folder)} {text}"
                if want is None:
                    seen["empty"] += 1
                    check(what + " (no row)", got is None, True)
                elif isinstance(want, tuple):
                    seen["censored"] += 1
                    check(what + f" (never: {got})", got == {"value": want[1], "censored": True}, True)
                else:
                    seen["nan"] += bool(np.isnan(want))
                    check(what, number(got) if got is not None else -12345, want, 1e-5)
    assert all(seen.values()), seen


# --- the largest logit and where: one rule for all who tell it: a NaN is above all, of equal ones the first -------


def place_of_largest(r):
    step, value = r.series("attn/max_logit")
    flat = value.ravel()
    at = int(np.flatnonzero(np.isnan(flat))[0] if np.isnan(flat).any() else np.flatnonzero(flat == flat.max())[0])
    row, head = divmod(at, value.shape[1])
    return flat[at], step[row], head // 2, head % 2


def peaks():
    some = [runs("a")[0], *runs("odd")]
    for row in json.loads(told("show", "--json", *[r.path for r in some])):
        r = next(r for r in some if r.path == row["file"])
        value, step, layer, head = place_of_largest(r)
        top = row["peak_max_logit"]
        check(f"peak of {r.path}", [number(top["value"]), top["step"], top["layer"], top["head"]],
              [value, step, layer, head])
        metric = json.loads(told("show", "--json", "--of", "peak", r.path))[0]["metrics"]["peak"]
        check(f"the metric of {r.path}", number(metric), value)
    for name in ["nan", "lasting"]:  # what run itself has said, and a sweep of it
        value, step, layer, head = place_of_largest(Run(f"{folder}/odd/{name}.h5"))
        said = re.search(r"peak (\S+) at step (\d+) \(layer (\d+), head (\d+)", open(f"{folder}/odd/{name}.txt").read())
        check(f"what run says of {name}", [float(x) for x in said.groups()], [value, step, layer, head], 1e-3)
        columns = open(f"{folder}/odd/{name}.sweep").read().split("\n")[1].split()
        check(f"what sweep says of {name}", float(columns[3]), value, 1e-3)


# --- comparisons of arms, and losses at other contexts ------------------------------------------------------------


def tail(t):
    """P(T > t) with two degrees of freedom."""
    return 0.5 - t / (2 * np.sqrt(2 + t * t))


def comparisons():
    a, b = runs("a"), runs("b")
    margin = {False: 0.2, True: 1.5}
    for ratio in (False, True):
        words = ["compare", "--json", "--of", "loss,peak,val", "--margin", str(margin[ratio])] + ["--ratio"] * ratio
        lines = json.loads(told(*words, f"{folder}/a", f"{folder}/c"))
        ps = []
        for line, of in zip(lines, [lambda r: r.series("loss")[1][-1, 0], peak, lambda r: r.series("val_loss")[1][-1, 0]]):
            x, y = np.array([of(r) for r in a]), np.array([of(r) for r in b])
            d = np.log(y / x) if ratio else y - x
            back = np.exp if ratio else (lambda v: v)
            error = d.std(ddof=1) / np.sqrt(3)
            what = f"{line['metric']} {'as a ratio' if ratio else ''}"
            for name, want in [("a", interval(x, ratio)), ("b", interval(y, ratio)), ("effect", back(interval(d)))]:
                check(f"{what}: {name}", [line[name][k] for k in ("mean", "lo", "hi")], want)
            ps.append(2 * tail(abs(d.mean()) / error))
            check(f"{what}: p", line["p"], ps[-1], 1e-4)
            check(f"{what}: could see", line["detectable"], back(error * (T[2] + 0.6 * np.sqrt(2 / 0.64))), 1e-5)
            within = (np.log(margin[True]) if ratio else margin[False]) - abs(d.mean())
            check(f"{what}: equivalence", line["equivalence_p"], tail(within / error), 1e-4)
            check(f"{what}: pairs", [[p["seed"], p["start"] == "equal"] for p in line["pairs"]], [[1, 1], [2, 1], [3, 1]])
            check(f"{what}: alone", line["no_partner"] == [f"{folder}/c/9.h5"], True)
        holm, least = {}, 0
        for rank, i in enumerate(np.argsort(ps)):
            least = holm[i] = max(least, min(1, ps[i] * (3 - rank)))
        for i, line in enumerate(lines):
            check("Holm's p", line["p_holm"], holm[i], 1e-4)
            verdict = ("B is higher" if line["effect"]["mean"] > ratio else "B is lower") if holm[i] < 0.05 else \
                "equivalent within the margin" if line["equivalence_p"] < 0.05 else "undecided"
            check(f"verdict: {line['verdict']}, not {verdict}", line["verdict"] == verdict, True)
    text = told("compare", f"{folder}/a", f"{folder}/c")
    check("who has no partner", f"no partner   B: {folder}/c/9.h5 (seed 9)" in text, True)
    one = json.loads(told("compare", "--json", "--of", "val", f"{folder}/a/1.h5", f"{folder}/b/1.h5"))[0]
    check("one pair has no interval", [one[k][e] is None for k in ("a", "b", "effect") for e in ("lo", "hi")], [True] * 6)
    text = told("compare", "--of", "val", f"{folder}/odd/nan.h5", f"{folder}/a/1.h5")
    check("a pair is left out", "left out     1 pair without a finite value" in text, True)
    for name, shape in [("lag", "markov.lag"), ("from", "the weights of train.init_from"), ("recall", "data")]:
        line = json.loads(told("compare", "--json", "--of", "val", f"{folder}/a/1.h5", f"{folder}/other/{name}.h5"))[0]
        check(f"no same batches: {line['differ_in_shape']}, not {shape}", line["differ_in_shape"] == shape, True)


def evaluations():
    """At a multiple of the context: as many tokens a batch, as many more batches."""
    at = json.loads(told("eval", "--json", "-c", "1x,2x", f"{folder}/a/1.h5"))
    said = json.loads(told("eval", "--json", "-c", "2x", f"{folder}/a/1.h5", "train.batch=2", "train.val_batches=2"))
    losses = lambda x: [r["loss"] for r in (x["contexts"] if isinstance(x, dict) else x)]
    check("the run's own last validation", losses(at)[0], Run(f"{folder}/a/1.h5").series("val_loss")[1][-1, 0], 1e-5)
    check("twice the context", losses(at)[1], losses(said)[0], 0)
    check("which is another loss", losses(at)[0] != losses(at)[1], True)


figures()
over_parameters()
differences()
reductions()
peaks()
comparisons()
evaluations()
print(f"{checked} numbers made again, {wrong} wrong")
sys.exit(wrong != 0)
