"""A run once more, by PyTorch's autograd and the formulas of the papers, written without looking at the C code:
model, gradients, optimizers, stabilizers, and every series and event that a run file holds.

A batch is never cut into micro-batches here: what a run records of a step is a property of the whole batch.
"""
import fnmatch
import math

import numpy as np
import torch
import torch.nn.functional as F

SUMMARIES = ("spectral_norm", "frobenius_norm", "svd_entropy", "effective_rank_p", "effective_rank_r", "stable_rank")
KELLER = (3.4445, -4.7750, 2.0315)
# Polar Express as its paper's appendix lists it (arXiv 2505.16932); all but the last polynomial are slowed by 1.01
POLAR_EXPRESS = [(8.28721201814563, -23.595886519098837, 17.300387312530933),
                 (4.107059111542203, -2.9478499167379106, 0.5448431082926601),
                 (3.9486908534822946, -2.908902115962949, 0.5518191394370137),
                 (3.3184196573706015, -2.488488024314874, 0.51004894012372),
                 (2.300652019954817, -1.6689039845747493, 0.4188073119525673),
                 (1.891301407787398, -1.26799582719459, 0.37680408948525), (1.875, -1.25, 0.375), (1.875, -1.25, 0.375)]
SETS = {
    "keller": [KELLER] * 5,
    "quintic": [(4.0848, -6.8946, 2.9270), (3.9505, -6.3029, 2.6377), (3.7418, -5.5913, 2.3037), (2.8769, -3.1427, 1.2046),
                (2.8366, -3.0525, 1.2012)],  # NVIDIA Emerging-Optimizers
    "taylor": [(15 / 8, -10 / 8, 3 / 8)] * 10,
    "su_fixed": [(3.3748, -4.6969, 2.1433)] * 5,  # this and the next: kexue.fm/archives/10922
    "su": [(4.6182, -12.9582, 9.3299), (3.8496, -7.9585, 4.3052), (3.5204, -7.2918, 4.0606), (3.2067, -6.8243, 4.2802),
           (3.2978, -5.7848, 3.8917)],
    "youjiacheng": [tuple(x / 1024 for x in p) for p in ((3955, -8306, 5008), (3735, -6681, 3463), (3799, -6499, 3211),
                                                         (4019, -6385, 2906), (2677, -3029, 1162), (2172, -1833, 682))],
    "polar_express": [tuple(x / 1.01 ** (2 * k + 1) for k, x in enumerate(p)) for p in POLAR_EXPRESS[:-1]] + POLAR_EXPRESS[-1:],
    "polar_express_5": [(8.156554524902461, -22.48329292557795, 15.878769915207462),
                        (4.042929935166739, -2.808917465908714, 0.5000178451051316),
                        (3.8916678022926607, -2.772484153217685, 0.5060648178503393),
                        (3.285753657755655, -2.3681294933425376, 0.46449024233003106),
                        (2.3465413258596377, -1.7097828382687081, 0.42323551169305323)],  # modded-nanogpt
    "cans": [(8.4703, -25.1081, 18.6293), (4.1828, -3.1087, .5806), (3.9619, -2.9541, .5630), (3.2866, -2.4647, .5074),
             (2.2737, -1.6447, .4162)],  # arXiv 2506.10935
    "cubic": [(3.3656576, -3.3420992, 0), (2.5744352, -1.4957376, 0), (2.5368962, -1.4312570, 0), (2.4418906, -1.2764040, 0),
              (2.2230472, -0.9630650, 0)],  # arXiv 2606.00371
    "deepseek_v4": [KELLER] * 8 + [(2, -1.5, 0.5)] * 2,  # arXiv 2606.19348
    "aol": [(4.0098, -7.0585, 2.4635), (3.4585, -5.5479, 2.5959), (2.7573, -3.2939, 1.4254), (2.7215, -3.0494, 1.3169)],
    "svd": None,  # the polar factor itself
    "none": None,  # the momentum, as long as that
}

MATRIX_OPTIMIZERS = ("adamuon", "compositional", "dion", "klshampoo", "muon", "namo", "normuon", "polargrad", "soap")  # other tensors than hidden matrices go to adam
OPTIMIZERS = ("adam", "lion", "none", "scion", "sgd", "signum") + MATRIX_OPTIMIZERS

# --- random numbers ---------------------------------------------------------------------------------------


def philox(counter, key):
    c = [np.asarray(x, dtype=np.uint64) for x in counter]
    k0, k1 = key
    mask = np.uint64(0xFFFFFFFF)
    for _ in range(10):
        p0, p1 = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & mask, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1), p0 & mask]
        k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
    return c


def words(seed, stream, step, blocks):
    blocks = np.asarray(blocks, dtype=np.uint64)
    one = np.ones_like(blocks)
    return philox((blocks & np.uint64(0xFFFFFFFF), blocks >> np.uint64(32), one * np.uint64(step & 0xFFFFFFFF),
                   one * np.uint64(stream << 24)), (seed & 0xFFFFFFFF, seed >> 32))


def normals(seed, stream, step, n, first=0):
    """n draws of N(0,1), from index `first` on, a multiple of 4."""
    w = words(seed, stream, step, first // 4 + np.arange((n + 3) // 4))
    out = np.empty((len(w[0]), 4))
    for pair in (0, 1):
        r = np.sqrt(-2 * np.log((w[2 * pair].astype(float) + 0.5) * 2.0 ** -32))
        a = 2 * np.pi * 2.0 ** -32 * w[2 * pair + 1].astype(float)
        out[:, 2 * pair], out[:, 2 * pair + 1] = r * np.cos(a), r * np.sin(a)
    return out.ravel()[:n]


def below(seed, stream, step, index, n):
    """A draw from 0..n-1."""
    w = words(seed, stream, step, [index // 2])
    low, high = int(w[index % 2 * 2][0]), int(w[index % 2 * 2 + 1][0])
    return (high << 32 | low) * n >> 64


# --- batches ----------------------------------------------------------------------------------------------

VAL, PROBE = 3, 4  # streams of random numbers; both are drawn with seed 0, whatever the run's


def span(p):
    """Targets of a row: those of the context, and what modules predict beyond it."""
    return int(p["model.context"]) + int(p.get("model.mtp", 0))


class Text:
    """data = bytes: windows of the last part of a text; with packing, documents end with the separator."""

    def __init__(self, p, path):
        text = open(path, "rb").read()
        symbols = sorted(set(text)) if p["data.vocab"] == "char" else range(256)
        number = {s: i for i, s in enumerate(symbols)}
        self.token = [number[b] for b in text]
        self.start = len(text) - int(float(p["data.val_fraction"]) * len(text))
        self.packed = p["data.packing"] == "documents"
        self.ends = set()
        mark = p["data.separator"].encode().replace(b"\\n", b"\n").replace(b"\\t", b"\t")
        at = text.find(mark)
        while at >= 0:
            self.ends.add(at + len(mark) - 1)
            at = text.find(mark, at + len(mark))
        self.B, self.T = int(p["train.batch"]), span(p)

    def batch(self, stream, index):
        B, T = self.B, self.T
        tokens, mask, document = np.zeros((B, T + 1), int), np.ones((B, T)), np.zeros((B, T), int)
        for b in range(B):
            at = self.start + below(0, stream, index, b, len(self.token) - self.start - T)
            tokens[b] = self.token[at:at + T + 1]
            d = 0
            for t in range(T if self.packed else 0):
                document[b, t] = d
                if at + t in self.ends:
                    mask[b, t] = 0
                    d += 1
        return tokens, mask, document


class Copy:
    """data = copy: a prefix of T/4 to T/2 symbols, repeated."""

    def __init__(self, p):
        self.B, self.T, self.symbols = int(p["train.batch"]), span(p), int(p["copy.symbols"])
        if int(p["copy.distinct"]):
            raise Unknown("copy.distinct = 1")

    def batch(self, stream, index):
        B, T = self.B, self.T
        tokens, mask = np.zeros((B, T + 1), int), np.ones((B, T))
        for b in range(B):
            length = T // 4 + below(0, stream, index, b << 32, T // 2 - T // 4 + 1)
            prefix = [below(0, stream, index, (b << 32) + 1 + t, self.symbols) for t in range(length)]
            tokens[b] = [prefix[t % length] for t in range(T + 1)]
            mask[b, :length] = 0
        return tokens, mask, np.zeros((B, T), int)


class Recall:
    """data = recall: pairs of a key and its value, drawn anew for every row."""

    def __init__(self, p):
        self.keys = int(p["recall.symbols"]) // 2
        self.B, self.T = int(p["train.batch"]), span(p)

    def batch(self, stream, index):
        B, T, K = self.B, self.T, self.keys
        tokens, mask = np.zeros((B, T + 1), int), np.ones((B, T))
        for b in range(B):
            at = iter(range(b << 32, (b << 32) + 10 ** 9))
            key, value, seen, used = list(range(K)), {}, set(), min(T // 4, K)
            for i in range(used):
                pick = i + below(0, stream, index, next(at), K - i)
                key[i], key[pick] = key[pick], key[i]
                value[i] = K + below(0, stream, index, next(at), K)
            for t in range(0, T + 1, 2):
                i = below(0, stream, index, next(at), used)
                tokens[b, t] = key[i]
                if t < T:
                    tokens[b, t + 1], mask[b, t] = value[i], i in seen
                if t + 1 < T:
                    mask[b, t + 1] = 0
                seen.add(i)
        return tokens, mask, np.zeros((B, T), int)


def uniform(seed, stream, step, index):
    return int(words(seed, stream, step, [index // 4])[index % 4][0]) * 2.0 ** -32


class Markov:
    """data = markov: the next symbol hangs on the one before and on the class of one at a fixed distance."""

    def __init__(self, p):
        def option(key):
            return int(p["markov." + key])
        self.symbols, self.branches, self.lag, self.classes, self.mean = map(
            option, ("symbols", "branches", "lag", "classes", "document"))
        self.packed = p["data.packing"] == "documents"
        self.first = self.law(self.symbols, 1)
        self.turns = self.law(self.branches, float(p["markov.exponent"]))
        self.next, draws = [], 0
        for _ in range(self.symbols):
            follow = []
            while len(follow) < self.branches:
                n = self.pick(self.first, uniform(option("language"), 5, 0, draws))
                draws += 1
                if n not in follow:
                    follow.append(n)
            self.next.append(follow)
        self.B, self.T = int(p["train.batch"]), span(p)

    @staticmethod
    def law(n, exponent):
        p = np.arange(1, n + 1) ** -float(exponent)
        return np.append(np.cumsum(p / p.sum())[:-1], 1.0)

    @staticmethod
    def pick(law, x):
        return int(np.searchsorted(law, x, side="right"))

    def batch(self, stream, index):
        B, T = self.B, self.T
        tokens, mask, document = np.zeros((B, T + 1), int), np.ones((B, T)), np.zeros((B, T), int)
        for b in range(B):
            def draw(i):
                return uniform(0, stream, index, (b << 32) + i)

            def length(t):
                return 1 + int(draw(2 * t + 1) * (2 * self.mean - 1))
            x, start, d, end = tokens[b], 0, 0, length(0) if self.packed else T + 1
            for t in range(T + 1):
                if t == end:
                    mask[b, t - 1] = 0
                    start, d, end = t, d + 1, t + length(t)
                if t == start:
                    x[t] = self.pick(self.first, draw(2 * t))
                else:
                    c = x[t - self.lag] % self.classes if t - self.lag >= start else 0
                    turn = self.branches // self.classes * c
                    x[t] = self.next[x[t - 1]][(self.pick(self.turns, draw(2 * t)) - turn) % self.branches]
                if t < T:
                    document[b, t] = d
        return tokens, mask, document


# --- spectra ----------------------------------------------------------------------------------------------


def spectrum(w, n=None):
    """The six summaries of SUMMARIES (science of names: arXiv 2502.16982; Roy and Vetterli 2007); n: singular values
    that count, where the matrix is known to have no more."""
    w = w.detach().to(torch.float64)
    if not w.isfinite().all():
        return [math.nan] * 6
    sigma = torch.linalg.svdvals(w)[:n]
    p, r = sigma ** 2 / (sigma ** 2).sum(), sigma / sigma.sum()
    energy = float(torch.special.entr(p).sum())
    return [float(sigma[0]), float(sigma.pow(2).sum().sqrt()), energy / math.log(len(sigma)), math.exp(energy),
            math.exp(float(torch.special.entr(r).sum())), float((sigma ** 2).sum() / sigma[0] ** 2)]


def largest(w):
    """Its spectral norm, NaN where it is not finite."""
    return spectrum(w)[0]


# --- a run ------------------------------------------------------------------------------------------------

HANDLED = {"soft_cap", "hard_cap", "qk_norm", "qk_norm_partial", "k_norm", "qk_clip", "bound_clip", "max_output_clip", "quack", "spectral_clip",
           "spectral_decay", "sigma_reparam", "hyperball", "spectral_sphere", "spectral_tangent", "stiefel",
           "learned_sink", "output_gate", "ssmax", "pointwise", "sigmoid", "softpick", "none"}


class Unknown(Exception):
    """The run has something that this program does not know."""


def matches(glob, name):
    """Does the pattern fit the name, or its end after one of its dots?"""
    parts = name.split(".")
    return any(fnmatch.fnmatchcase(".".join(parts[i:]), glob) for i in range(len(parts)))


class Run:
    """One run replayed in PyTorch; `p` is the dictionary of options as the run file tells them, `data` gives its
    validation and probe batches (or is None)."""

    def __init__(self, p, names, dtype, data=None):
        self.p, self.dtype, self.data = p, dtype, data
        self.layers, self.D, self.H, self.T = (int(p["model." + k]) for k in ("layers", "width", "heads", "context"))
        self.M = int(p.get("model.mtp", 0))
        self.L = self.layers + self.M  # blocks: those of the modules are told like all others
        self.G, self.Dh = int(p["model.kv_heads"]), int(p["model.head_dim"])
        self.F, self.V = int(p["model.ffn_width"]), int(p["model.vocab"])
        self.stack = p["stabilizers"].split("+")
        self.mla = p["model.attention"] == "mla"
        self.Rq, self.Rkv, self.Dr, self.Dv = (int(p["model." + k]) for k in ("q_rank", "kv_rank", "rope_dim", "value_dim"))
        self.group = torch.tensor([h * self.G // self.H for h in range(self.H)])
        self.moe = p.get("model.ffn") == "moe"
        if self.moe:
            self.E, self.K, self.S, self.Fe = (int(p["moe." + k]) for k in ("experts", "active", "shared", "hidden"))
        self.check_known()
        self.w, self.fixed, self.losses, drawn = {}, {}, [], 0
        for name in names:
            shape, kind = self.shape(name)
            if kind == "gain":
                v = np.ones(shape) * self.initial_gain(name)
            elif kind == "bias" or name.endswith(("sigma_v", "router_bias")):
                v = np.zeros(shape)
            else:
                std = 1.0 if kind == "state" or kind == "embed" and "head" in names else shape[1] ** -0.5  # tied: a head as well
                v = normals(int(p["train.seed"]), 1, drawn, int(np.prod(shape))).reshape(shape) * std
                drawn += 1
            if kind == "state":
                self.fixed[name] = torch.tensor(v, dtype=dtype)
            else:
                self.w[name] = torch.tensor(v, dtype=dtype, requires_grad=True)
        self.state = {n: {} for n in self.w}
        with torch.no_grad():
            for part in filter(None, p["train.plant"].split("+") if names else []):  # a checkpoint's weights have it
                self.plant(*part.split(":"))
            for _ in range(100):  # so many before the first step
                self.sigma_reparam()
            for _ in range(50 if names and "spectral_sphere" in self.stack else 0):
                self.spectral_sphere()
            if names and "stiefel" in self.stack:
                self.to_stiefel()
            if names and "bound_clip" in self.stack:
                self.bound_clip(-1, {}, lambda *what: None)
            if names and "hyperball" in self.stack:
                for l in range(self.L):
                    self.fixed[f"blocks.{l}.hyperball.radius"] = torch.stack([b.norm() for b in self.held("hyperball", l)])

    def plant(self, l, h, factor):
        """The logits of a head start factor^2 times as large: its queries take what a key that others share does not."""
        a, h, f = f"blocks.{l}.attn.w_", int(h), float(factor)
        own = self.G == self.H
        for c, rows, times in ([("qc", self.Dh, f), ("kc", self.Dh, f), ("qr", self.Dr, f * f)] if self.mla else
                               [("q", self.Dh, f), ("k", self.Dh, f)] if own else [("q", self.Dh, f * f)]):
            self.w[a + c][h * rows:(h + 1) * rows] *= times

    def number(self, key):
        return float(self.p[key])

    def check_known(self):
        p = self.p
        unknown = set(self.stack) - HANDLED
        if unknown:
            raise Unknown("stabilizers = " + "+".join(unknown))
        wanted = {"precision.scores": "f32", "precision.qk": "f32", **{o + ".coefficients": tuple(SETS) for o in MATRIX_OPTIMIZERS}, "spectral_clip.method": "svd",
                  "model.ffn": ("swiglu", "moe"), "model.rope_scale": ("1", "1.0")}
        for key, value in wanted.items():
            if key in p and p[key] not in value:
                raise Unknown(f"{key} = {p[key]}")
        if p["optimizer"] not in OPTIMIZERS:
            raise Unknown("optimizer = " + p["optimizer"])

    def load(self, params, states):
        """Weights and states from a checkpoint of the run."""
        for name in sorted(params, key=declared):
            v = torch.tensor(params[name], dtype=self.dtype)
            if name.endswith(("quack.start", "hyperball.radius")):
                self.fixed[name] = v.flatten()
            elif name.split(".")[-1] in ("sigma_u", "sigma_v", "spectral_decay", "spectral_sphere", "router_bias"):
                self.fixed[name] = v
            else:
                self.w[name] = v.requires_grad_(True)
        self.state = {n: {} for n in self.w}
        for name, v in states.items():
            _, moment, tensor = (name + ".").split(".", 2)
            if moment in ("m", "v"):
                self.state[tensor[:-1]][moment] = torch.tensor(v, dtype=self.dtype)

    def initial_gain(self, name):
        for last, key in ((".sink", "learned_sink.start"), (".ssmax", "ssmax.start")):
            if name.endswith(last):
                return float(self.p[key])
        if name.endswith("qk_scale"):
            return math.log2(self.T * self.T - self.T)  # Henry et al. 2020, arXiv 2010.04245 sec. 3
        of_stack = name.split(".")[-1] in ("norm", "norm_h", "norm_e", "q_norm", "kv_norm")
        return float(not (of_stack and self.p.get("model.norm_gain") == "zero_centered"))

    def shape(self, name):
        D, H, G, Dh, Fw, V = self.D, self.H, self.G, self.Dh, self.F, self.V
        last = name.split(".")[-1]
        if name in ("embed", "head"):
            return (V, D), name
        if last in ("spectral_decay", "spectral_sphere"):
            return (self.shape(name[:-len("." + last)])[0][0],), "state"
        if last in ("sigma_u", "sigma_v"):
            return (self.shape(name[:-len(".sigma_u")])[0][last == "sigma_v"],), "state"
        if last == "sigma_gain":
            return (1,), "gain"
        full = "qk_norm" in self.stack and self.p.get("qk_norm.kind") == "rms_full"
        table = {"w_q": (H * Dh, D), "w_k": (G * Dh, D), "w_v": (G * Dh, D), "w_o": (D, H * Dh),
                 "w_gate": (Fw, D), "w_up": (Fw, D), "w_down": (D, Fw)}
        Rq, Rkv, Dr, Dv = self.Rq, self.Rkv, self.Dr, self.Dv
        latent = {"w_dq": (Rq, D), "w_qc": (H * Dh, Rq or D), "w_qr": (H * Dr, Rq or D), "w_dkv": (Rkv, D),
                  "w_kc": (H * Dh, Rkv), "w_kr": (Dr, D), "w_v": (H * Dv, Rkv), "w_o": (D, H * Dv)}
        if self.mla:
            table.update(latent)
        if last == "w_join":
            return (D, 2 * D), "matrix"
        if last == "router_bias":
            return (self.E,), "state"
        if self.moe:
            E, S, Fe = self.E, self.S, self.Fe
            for part, size in {"w_router": (E, D), "experts.w_gate": (E * Fe, D), "experts.w_up": (E * Fe, D),
                               "experts.w_down": (E * D, Fe), "shared.w_gate": (S * Fe, D), "shared.w_up": (S * Fe, D),
                               "shared.w_down": (D, S * Fe)}.items():
                if name.endswith("." + part):
                    return size, "matrix"
        if last == "w_output_gate":
            return (H if self.p["output_gate.by"] == "head" else H * (Dv if self.mla else Dh), D), "matrix"
        if last in table:
            return table[last], "matrix"
        if last[:2] == "b_":
            return ({"b_q": H * Dh, "b_k": G * Dh, "b_v": G * Dh, "b_o": D}[last],), "bias"
        sizes = {"norm": D, "norm_h": D, "norm_e": D, "q_gain": H * Dh if full else Dh, "k_gain": G * Dh if full else Dh, "qk_scale": 1,
                 "q_norm": Rq, "kv_norm": Rkv, "qc_gain": Dh, "kc_gain": Dh, "qr_gain": Dr, "kr_gain": Dr, "sink": H, "ssmax": H}
        one = self.p.get("model.norm_gain") == "scalar" and "norm" in last
        return (1 if one else sizes[last],), "gain"

    def kind(self, name):
        return self.shape(name)[1]

    def matrices(self):
        """The tensor axis of a run file."""
        return [n for n in self.w if self.kind(n) in ("matrix", "embed", "head")]

    # --- forward --------------------------------------------------------------------------------------------

    def weight(self, name):
        """What the model multiplies with: under sigmaReparam (arXiv 2303.06296) gain / sigma(W) W."""
        w, gain = self.w[name], self.w.get(name + ".sigma_gain")
        if gain is None:
            return w
        return w * (gain / (self.fixed[name + ".sigma_u"] @ w @ self.fixed[name + ".sigma_v"]))

    def rounded(self, x):
        """What a stage of the calculation gives, as it is; for who asks how roundings grow from there."""
        return x

    def rms(self, x, g=None):
        y = x / torch.sqrt((x * x).mean(-1, keepdim=True) + self.number("model.norm_eps"))
        return self.rounded(y if g is None else y * g)

    def gain(self, name):
        """The factors of an RMSNorm of the stack, of which model.norm_gain selects the kind; None: it has none."""
        g = self.w.get(name)
        return 1 + g if g is not None and self.p.get("model.norm_gain") == "zero_centered" else g

    def rope(self, x):
        half = x.shape[-1] // 2
        f = self.number("model.rope_base") ** (-torch.arange(half, dtype=torch.float64) * 2 / x.shape[-1])
        a = torch.arange(x.shape[-2], dtype=torch.float64)[:, None] * f
        c, s = a.cos().to(self.dtype), a.sin().to(self.dtype)
        x1, x2 = x[..., :half], x[..., half:]
        return self.rounded(torch.cat([x1 * c - x2 * s, x1 * s + x2 * c], -1))

    def capped(self, s):
        if "soft_cap" in self.stack:
            c = self.number("soft_cap.cap")
            s = c * torch.tanh(s / c)
        if "hard_cap" in self.stack:
            s = s.clamp(max=self.number("hard_cap.cap"))
        return s

    def softmax(self, q, k, v, scale, l, x):
        """q, k, v [B,H,T,.] -> the heads' outputs side by side; keeps what every head has seen of its logits."""
        B, T = q.shape[0], q.shape[2]
        allowed = (self.windowed if self.has_window(l) else self.allowed)[:, None]
        a, n = f"blocks.{l}.attn.", allowed.sum(-1, keepdim=True).clamp(min=1)
        if a + "ssmax" in self.w:  # arXiv 2501.19399 eq. 5, n the keys that the row sees
            q = q * self.w[a + "ssmax"][:, None, None] * n.to(self.dtype).log()
        s = (q @ k.transpose(-1, -2)) * scale
        c = self.capped(s)
        if "pointwise" in self.stack or "sigmoid" in self.stack:  # arXiv 2202.10447, 2409.04431
            p = c.relu().square() if "pointwise" in self.stack else n * torch.sigmoid(c - n.to(self.dtype).log())
            p = p.masked_fill(~allowed, 0)
            with torch.no_grad():
                self.see(q, k, s, c, p / p.sum(-1, keepdim=True).clamp(min=torch.finfo(self.dtype).tiny), allowed)
            return self.gate((p / n) @ v, x, l)
        if "softpick" in self.stack:  # arXiv 2504.20966
            p = self.softpick(c, allowed)
            with torch.no_grad():
                self.see(q, k, s, c, p / p.sum(-1, keepdim=True).clamp(min=torch.finfo(self.dtype).tiny), allowed)
            return self.gate(p @ v, x, l)
        p = c.masked_fill(~allowed, -math.inf).softmax(-1)
        with torch.no_grad():
            self.see(q, k, s, c, p, allowed)
        if v.isfinite().all():
            o = p @ v
        else:  # what a query must not see does not reach it, NaN or not: 0 NaN would be NaN
            o = torch.where(allowed[..., None], p[..., None] * v[:, :, None], torch.zeros((), dtype=self.dtype)).sum(-2)
        if a + "sink" in self.w:  # gpt-oss: one more column, whose weight goes nowhere
            b = self.w[a + "sink"].view(1, -1, 1, 1).expand(B, -1, T, 1)
            o = torch.cat([c.masked_fill(~allowed, -math.inf), b], -1).softmax(-1)[..., :-1] @ v
        return self.gate(o, x, l)

    @staticmethod
    def softpick(c, allowed):
        """relu(e^c - 1) over the sum of |e^c - 1| and 1e-8, both times e^-m, m the row's largest c or 0 (arXiv 2504.20966)"""
        c = c.masked_fill(~allowed, 0)  # whose weight is 0
        m = c.detach().amax(-1, keepdim=True).clamp(min=0)
        e = (c - m).exp() - (-m).exp()
        return e.relu() / (e.abs().sum(-1, keepdim=True) + 1e-8 * (-m).exp())

    def gate(self, o, x, l):
        """The heads' outputs side by side, gated by attention's input (arXiv 2505.06708)."""
        B, H, T, _ = o.shape
        w = self.w.get(f"blocks.{l}.attn.w_output_gate")
        if w is not None:
            o = o * (x @ self.weight(f"blocks.{l}.attn.w_output_gate").T).sigmoid().view(B, T, H, -1).transpose(1, 2)
        return o.transpose(1, 2).reshape(B, T, -1)

    def see(self, q, k, s, c, p, allowed):
        def top(x):
            return x.masked_fill(~allowed, -math.inf).amax((0, 2, 3))
        T, seen = s.shape[-1], self.seen
        seen["max_logit"].append(top(s))
        seen["max_abs_logit"].append(top(s.abs()))
        seen["max_logit_capped"].append(top(c))
        seen["entropy"].append(torch.special.entr(p).sum(-1).mean((0, 2)))
        above = torch.where(s.isnan(), s, (s > self.number("record.level")).to(s.dtype))
        seen["share_above"].append(above.masked_fill(~allowed, 0).sum((0, 2, 3)) / allowed.sum())
        flat = s.masked_fill(~allowed, -math.inf).transpose(0, 1).reshape(self.H, -1).argmax(-1)
        b, i, j, h = flat // (T * T), flat // T % T, flat % T, torch.arange(self.H)
        query, key = q[b, h, i], k[b, h, j]
        seen["q_norm"].append(query.norm(dim=-1))
        seen["k_norm"].append(key.norm(dim=-1))
        seen["cosine"].append((query * key).sum(-1) / (query.norm(dim=-1) * key.norm(dim=-1)))

    def latent_attention(self, x, l):
        """Multi-head latent attention (DeepSeek-V2, arXiv 2405.04434): one rotary key for all heads."""
        a, w = f"blocks.{l}.attn.", self.w
        B, T, _ = x.shape

        def project(x, n):
            return x @ self.weight(a + n).T

        def heads(y, n):
            return y.view(B, T, n, -1).transpose(1, 2)
        cq = self.rms(project(x, "w_dq"), self.gain(a + "q_norm")) if self.Rq else x
        ckv = self.rms(project(x, "w_dkv"), self.gain(a + "kv_norm"))
        part = {"qc": heads(project(cq, "w_qc"), self.H), "qr": heads(project(cq, "w_qr"), self.H),
                "kc": heads(project(ckv, "w_kc"), self.H), "kr": heads(project(x, "w_kr"), 1)}
        for n in part:
            if a + n + "_gain" in w:
                part[n] = self.rms(part[n], w[a + n + "_gain"])
        q = torch.cat([part["qc"], self.rope(part["qr"])], -1)
        k = torch.cat([part["kc"], self.rope(part["kr"]).expand(B, self.H, T, self.Dr)], -1)
        return project(self.softmax(q, k, heads(project(ckv, "w_v"), self.H), (self.Dh + self.Dr) ** -0.5, l, x), "w_o")

    def attention(self, x, l):
        """x [B,T,D] normed -> [B,T,D]."""
        if self.mla:
            return self.latent_attention(x, l)
        a = f"blocks.{l}.attn."
        B, T, _ = x.shape

        def project(x, c):
            y = x @ self.weight(a + "w_" + c).T
            return y + self.w[a + "b_" + c] if a + "b_" + c in self.w else y
        q, k, v = project(x, "q"), project(x, "k"), project(x, "v")
        scale = self.Dh ** -0.5
        norm = "qk_norm" in self.stack and self.p["qk_norm.kind"]
        if norm == "rms_full":
            q, k = self.rms(q, self.w[a + "q_gain"]), self.rms(k, self.w[a + "k_gain"])

        def heads(y, n):
            return y.view(B, T, n, -1).transpose(1, 2)
        q, k, v = heads(q, self.H), heads(k, self.G), heads(v, self.G)
        if norm == "rms":
            q, k = self.rms(q, self.w[a + "q_gain"]), self.rms(k, self.w[a + "k_gain"])
        if "k_norm" in self.stack:
            k = self.rms(k, self.w[a + "k_gain"])
        if norm == "l2":
            # y / |y| is RMSNorm(y) / sqrt(Dh); recorded are the norms of the latter, both roots being in the scale
            q, k, scale = self.rms(q) * self.w[a + "qk_scale"], self.rms(k), 1 / self.Dh
        q, k = self.rope(q), self.rope(k)
        return project(self.softmax(q, k[:, self.group], v[:, self.group], scale, l, x), "o")

    def choose(self, score):
        """The K largest, of the groups that are kept (DeepSeek-V3, arXiv 2412.19437 sec. 2.1.2): [B,T,K]."""
        groups, kept = int(self.p["moe.groups"]), int(self.p["moe.groups_kept"])
        if groups > 1:
            of_group = score.unflatten(-1, (groups, -1)).topk(max(1, self.K // kept), -1)[0].sum(-1)
            keep = torch.zeros_like(of_group).scatter(-1, of_group.topk(kept, -1)[1], 1.0)
            score = score.masked_fill(keep.repeat_interleave(self.E // groups, -1) == 0, -math.inf)
        return score.topk(self.K, -1)[1]

    def experts(self, z, l):
        """z [B,T,D] normed -> what shared and chosen experts make of it; keeps what the router did."""
        f = f"blocks.{l}.ffn."

        def gated(x, gate, up, down):
            return (F.silu(x @ gate.T) * (x @ up.T)) @ down.T
        logits = z @ self.weight(f + "w_router").T
        s = logits.softmax(-1) if self.p["moe.score"] == "softmax" else logits.sigmoid()
        chosen = self.choose((s + self.fixed[f + "router_bias"]).detach())
        plain = self.choose(s.detach())
        g = s.gather(-1, chosen)
        if self.K > 1:
            g = g / (g.sum(-1, keepdim=True) + 1e-20)
        g = g * self.number("moe.route_scale")
        w = [self.w[f + "experts.w_" + n].chunk(self.E) for n in ("gate", "up", "down")]
        y = sum((g * (chosen == e)).sum(-1, keepdim=True) * gated(z, *(v[e] for v in w)) for e in range(self.E))
        if self.S:
            y = y + gated(z, *(self.weight(f + "shared.w_" + n) for n in ("gate", "up", "down")))
        share = s / (s.sum(-1, keepdim=True) + 1e-20)
        often = F.one_hot(s.detach().topk(self.K, -1)[1], self.E).to(self.dtype).sum((1, 2))
        often = often * self.E / (self.K * z.shape[1])  # eq. 18
        balance = self.number("moe.aux") * (often * share.mean(1)).sum(-1).mean() * (self.p["moe.balance"] in ("aux", "both"))
        same = (chosen.sort(-1)[0] == plain.sort(-1)[0]).all(-1)
        self.routes.append({"counts": F.one_hot(chosen, self.E).sum((0, 1, 2)).to(torch.float64), "balance": balance,
                            "entropy": float(torch.special.entr(share.detach()).sum(-1).mean()),
                            "moved": 1 - float(same.double().mean()), "top": float(logits.detach().abs().max())})
        return y

    def routers(self, row):
        """What is recorded of them."""
        layers = [r or {} for r in self.routes]
        none = torch.full((self.E,), math.nan, dtype=torch.float64)
        row["moe/load"] = torch.stack([r["counts"] / r["counts"].sum() if r else none for r in layers])
        row["moe/max_vio"] = torch.stack([r["counts"].max() / r["counts"].mean() - 1 if r else none[0] for r in layers])
        for name, key in (("entropy", "entropy"), ("max_abs_logit", "top")):
            row["moe/" + name] = torch.tensor([float(r.get(key, math.nan)) for r in layers])
        if self.p["moe.balance"] in ("bias", "both"):
            row["moe/bias"] = torch.stack([self.fixed[f"blocks.{l}.ffn.router_bias"].double().clone() if r else none
                                           for l, r in enumerate(layers)])
            row["moe/moved"] = torch.tensor([float(r.get("moved", math.nan)) for r in layers])
        if self.p["moe.balance"] in ("aux", "both"):
            row["moe/balance_loss"] = torch.tensor([float(r.get("balance", math.nan)) for r in layers])

    def move_biases(self):
        """Loss-free balancing (arXiv 2408.15664, Alg. 1), Moonlight's and Su's rules (arXiv 2502.16982, kexue.fm)."""
        for l, r in enumerate(self.routes):
            if not r or self.p["moe.balance"] not in ("bias", "both"):
                continue
            e = r["counts"].mean() - r["counts"]
            if self.p["moe.bias_rule"] == "rms":
                e = e / e.pow(2).mean().sqrt() if e.any() else e
            else:
                e = e.sign()
            if self.p["moe.bias_rule"] == "centred":
                e = e - e.mean()
            self.fixed[f"blocks.{l}.ffn.router_bias"].view(-1).add_(e.to(self.dtype), alpha=self.number("moe.bias_rate"))

    def forward(self, batch):
        """-> loss, loss with z-loss, what the heads have seen {name: [L,H]}, attention's largest outputs [L]."""
        tokens, mask, document = (torch.tensor(np.asarray(x)) for x in batch)
        T = tokens.shape[1] - 1 - self.M
        own = document[:, :T]
        same, t = own[:, :, None] == own[:, None, :], torch.arange(T)
        later, kind = t[None, :] > t[:, None], self.p.get("model.mask", "causal")
        place = torch.stack([t - (row[:, None] == row[None, :]).int().argmax(1) for row in own])  # in its document
        begins = (place < int(self.p.get("model.prefix", 0)))[:, None, :]
        self.allowed = same & (~later | (begins if kind == "prefix" else torch.tensor(kind == "full")))
        self.windowed = self.allowed & (t[None, :] > t[:, None] - int(self.p.get("model.window", 0)))
        # a token that is seen where it should be told does not count
        seen = torch.cat([self.allowed.diagonal(1, 1, 2), torch.zeros(len(own), 1, dtype=torch.bool)], 1)
        self.seen = {n: [] for n in ("max_logit", "max_abs_logit", "max_logit_capped", "entropy", "share_above", "q_norm",
                                     "k_norm", "cosine")}
        self.routes, self.outputs = [], []
        h = self.w["embed"][tokens[:, :T].long()]
        for l in range(self.layers):
            h = self.block(h, l)
        loss, z = self.cross_entropy(self.rms(h, self.gain("norm")), tokens[:, 1:T + 1], mask[:, :T] * ~seen)
        self.ahead = []
        for k in range(1, self.M + 1):  # DeepSeek-V3, arXiv 2412.19437 eq. 21 to 25
            m = f"mtp.{k}."
            e = self.w["embed"][tokens[:, k:T + k].long()]
            both = torch.cat([self.rms(h, self.gain(m + "norm_h")), self.rms(e, self.gain(m + "norm_e"))], -1)
            h = self.block(both @ self.weight(m + "w_join").T, self.layers + k - 1)
            counts = mask[:, k:T + k] * (document[:, k:T + k] == own) * ~seen
            self.ahead.append(self.cross_entropy(self.rms(h, self.gain(m + "norm")), tokens[:, k + 1:T + k + 1], counts)[0])
        seen = {n: torch.stack(v) for n, v in self.seen.items()}
        total = loss + self.number("model.z_loss") * z + sum(r["balance"] for r in self.routes if r)
        if self.M:
            total = total + self.number("model.mtp_weight") / self.M * sum(self.ahead)
        return loss, total, seen, torch.stack(self.outputs)

    def has_window(self, l):
        """Of window_every layers the last has none (Gemma 2: every other one has)."""
        every = int(self.p.get("model.window_every", 0))
        return self.p.get("model.mask") == "window" and (not every or (l + 1) % every != 0)

    def block(self, h, l):
        """The residual stream [B,T,D] behind block l."""
        b = f"blocks.{l}."
        y = self.attention(self.rms(h, self.gain(b + "attn.norm")), l)
        self.outputs.append(y.detach().abs().max())
        h = h + y
        z = self.rms(h, self.gain(b + "ffn.norm"))
        if b + "ffn.w_router" in self.w:
            return self.rounded(h + self.experts(z, l))
        self.routes.append(None)
        gate, up, down = (self.weight(b + "ffn.w_" + n) for n in ("gate", "up", "down"))
        return self.rounded(h + (F.silu(z @ gate.T) * (z @ up.T)) @ down.T)

    def cross_entropy(self, x, targets, mask):
        """Means over the targets that count: of -log p, of (log Z)^2."""
        logits = x @ self.w.get("head", self.w["embed"]).T
        share = mask.to(self.dtype).flatten() / float(mask.sum())
        lse = logits.logsumexp(-1)
        each = (lse - logits.gather(-1, targets.long()[..., None])[..., 0]).flatten()
        loss = torch.where(share > 0, each * share, torch.zeros_like(share)).sum()
        return loss, torch.where(share > 0, lse.flatten() ** 2 * share, torch.zeros_like(share)).sum()

    def of_modules(self, losses):
        """Told by layer; there are none in layers of the stack."""
        return torch.tensor([math.nan] * self.layers + [float(x) for x in losses], dtype=torch.float64)

    # --- updates --------------------------------------------------------------------------------------------

    def rate(self, step):
        steps, warmup = int(self.p["train.steps"]), int(self.p["train.warmup"])
        schedule = self.p["train.schedule"]
        floor = float(self.p.get(schedule + ".floor", 0))
        done = step / steps
        if schedule == "cosine":
            f = floor + (1 - floor) * (1 + math.cos(math.pi * done)) / 2
        elif schedule == "linear":
            f = 1 - (1 - floor) * done
        elif schedule == "wsd":
            decay = self.number("wsd.decay")
            f = 1 if 1 - done >= decay else floor + (1 - floor) * (1 - done) / decay
        else:
            f = 1
        return self.number("train.lr") * f * min(1.0, (step + 1) / max(1, warmup))

    def moment(self, name, which, like):
        return self.state[name].setdefault(which, torch.zeros_like(like))

    def adam(self, name, g, step):
        b1, b2, eps = (self.number("adam." + k) for k in ("beta1", "beta2", "eps"))
        m = self.moment(name, "m", g).mul_(b1).add_(g, alpha=1 - b1)
        v = self.moment(name, "v", g).mul_(b2).add_(g * g, alpha=1 - b2)
        return (m / (1 - b1 ** (step + 1))) / ((v / (1 - b2 ** (step + 1))).sqrt() + eps)

    def soap(self, name, g, step):
        """arXiv 2409.11321, algorithms 3 and 4; the first step in unit bases, the second in those of eigh."""
        b1, b2, eps, b = (self.number("soap." + k) for k in ("beta1", "beta2", "eps", "basis_beta"))
        m = self.moment(name, "m", g).mul_(b1).add_((1 - b1) * g)
        every, sides, blocks = int(self.p["soap.every"]), ("l", "r"), self.matrices_of(name, g)
        state, out = self.state[name], []
        for i, (x, mean) in enumerate(zip(blocks, self.matrices_of(name, m))):
            grams = dict(zip(sides, (x @ x.T, x.T @ x)))
            for s in sides:
                unit = torch.eye(len(grams[s]), dtype=g.dtype)
                cov = state.setdefault(f"{s}{i}", torch.zeros_like(unit))
                if step == 0:
                    state[f"q{s}{i}"] = unit
                elif every and step == 1:
                    state[f"q{s}{i}"] = torch.linalg.eigh(cov)[1].flip(1)
                elif every and step % every == 0:
                    state[f"q{s}{i}"] = torch.linalg.qr(cov @ state[f"q{s}{i}"])[0]
            ql, qr = state[f"ql{i}"], state[f"qr{i}"]
            v = state.setdefault(f"v{i}", torch.zeros_like(x)).mul_(b2).add_((1 - b2) * (ql.T @ x @ qr) ** 2)
            hat = ql.T @ mean @ qr / (1 - b1 ** (step + 1)) / ((v / (1 - b2 ** (step + 1))).sqrt() + eps)
            out.append(ql @ hat @ qr.T)
            for s in sides:
                state[f"{s}{i}"].mul_(b).add_((1 - b) * grams[s])
        return torch.cat(out)

    def compositional(self, name, g):
        """Compositional Muon, Tilde Research 2026: half split; a shared key has the sum of its heads' Gram matrices."""
        mu, damping, rms = (self.number("compositional." + k) for k in ("momentum", "damping", "rms"))
        m = self.moment(name, "m", g).mul_(mu).add_(g)
        x = g + mu * m if int(self.p["compositional.nesterov"]) else m

        def muon(b):
            return self.orthogonal(b, "compositional") * (rms * math.sqrt(max(b.shape)))
        blocks = self.heads_or_whole(name, x, "qk")
        if not name.endswith((".w_q", ".w_k")):
            return torch.cat([muon(b) for b in blocks])
        other = name[:-1] + ("k" if name.endswith("q") else "q")
        partners, out = self.w[other].detach().split(self.Dh), []
        for i, b in enumerate(blocks):
            own = [partners[int(self.group[i])]] if name.endswith("q") else [partners[h] for h in range(self.H) if self.group[h] == i]
            values, vectors = torch.linalg.eigh(sum(w @ w.T for w in own) + damping * torch.eye(self.Dh, dtype=g.dtype))
            inverse = (vectors / values.sqrt()) @ vectors.T
            out.append(inverse @ muon(inverse @ b) / (2 * len(own)))
        return torch.cat(out)

    def dion(self, name, g, step):
        """arXiv 2504.05295, algorithm 1, with QR for its orthonormalization; the first Q is Gaussian."""
        mu, out = self.number("dion.momentum"), []
        order = [n for n in self.w if self.kind(n) == "matrix"].index(name)
        for i, (x, m) in enumerate(zip(self.matrices_of(name, g), self.matrices_of(name, self.moment(name, "m", g)))):
            rank = math.ceil(self.number("dion.rank") * min(x.shape) - 1e-9)
            if step == 0:
                size = rank * x.shape[1]
                drawn = normals(int(self.p["train.seed"]), 6, 0, size * (i + 1), order << 32)[size * i:]
                self.state[name][f"q{i}"] = torch.tensor(drawn.reshape(rank, -1).T, dtype=g.dtype)
            b = m + x
            p = torch.linalg.qr(b @ self.state[name][f"q{i}"])[0]
            r = b.T @ p
            m.copy_(b - (1 - mu) * p @ r.T)
            q = self.state[name][f"q{i}"] = r / r.norm(dim=0)
            out.append(math.sqrt(x.shape[0] / x.shape[1]) * p @ q.T)
        return torch.cat(out)

    def klshampoo(self, name, g, step):
        """arXiv 2509.03378, with estimated eigenvalues and bases; the first step and the bases' renewal as doc/optimizers.md."""
        b1, b2, eps = (self.number("klshampoo." + k) for k in ("beta1", "beta2", "eps"))
        m = self.moment(name, "m", g).mul_(b1).add_((1 - b1) * g)
        every, state, out = int(self.p["klshampoo.every"]), self.state[name], []
        for i, (x, mean) in enumerate(zip(self.matrices_of(name, g), self.matrices_of(name, m))):
            s = state.setdefault(f"kl{i}", [{} for _ in x.shape])
            for own, n in zip(s, x.shape):
                if not own or not own["values"].any():
                    unit, size = torch.eye(n, dtype=g.dtype), x.pow(2).mean().sqrt()
                    own.update(q=unit, cov=size * unit, values=size * torch.ones(n, dtype=g.dtype))
                elif every and (step == 1 or step % every == 0) and own["q"].equal(torch.eye(n, dtype=g.dtype)):
                    values, q = torch.linalg.eigh(own["cov"])
                    own.update(q=q.flip(1), values=values.flip(0))
                elif every and step % every == 0:
                    own["q"] = torch.linalg.qr(own["cov"] @ own["q"])[0]
            was = [(own["q"], own["q"] / (own["values"].sqrt() + eps)) for own in s]
            for own, y, (q, _), (_, other) in zip(s, (x, x.T), was, was[::-1]):
                half = y @ other
                own["cov"] = b2 * own["cov"] + (1 - b2) * half @ half.T / half.shape[1]
                own["values"] = b2 * own["values"] + (1 - b2) * (q.T @ half).pow(2).mean(1)
            left, right = ((own["q"] / (own["values"].sqrt() + eps)) @ own["q"].T for own in s)
            out.append(left @ mean @ right / (1 - b1 ** (step + 1)))
        return torch.cat(out)

    def heads_or_whole(self, name, x, split):
        """The matrices that are orthogonalised one by one: heads, experts, or the whole tensor."""
        rows = {"w_q": self.Dh, "w_k": self.Dh, "w_v": self.Dv if self.mla else self.Dh, "w_qc": self.Dh, "w_qr": self.Dr,
                "w_kc": self.Dh}.get(name.split(".")[-1])
        if rows and (split == "qkv" or split == "qk" and not name.endswith("w_v")):
            return x.split(rows)
        return self.matrices_of(name, x)

    def muon(self, name, g):
        mu = self.number("muon.momentum")
        m = self.moment(name, "m", g).mul_(mu).add_(g)
        x = g + mu * m if int(self.p["muon.nesterov"]) else m
        return torch.cat([self.polar(b) for b in self.heads_or_whole(name, x, self.p["muon.per_head"])])

    def normuon(self, name, g):
        """arXiv 2510.05491, algorithm 1; Nesterov momentum as in the authors' code."""
        mu, b2, eps, rms = (self.number("normuon." + k) for k in ("momentum", "beta2", "eps", "rms"))
        m = self.moment(name, "m", g).mul_(mu).add_(g)
        x = g + mu * m if int(self.p["normuon.nesterov"]) else m
        o = [self.orthogonal(b, "normuon") for b in self.heads_or_whole(name, x, self.p["normuon.per_head"])]
        v = self.moment(name, "v", g[:, :1]).mul_(b2).add_((1 - b2) * (torch.cat(o) ** 2).mean(1, keepdim=True))
        out = []
        for b, rows in zip(o, v.split([len(b) for b in o])):
            hat = b / (rows.sqrt() + eps)
            out.append(hat * (rms * math.sqrt(b.numel()) / hat.norm()))
        return torch.cat(out)

    def adamuon(self, name, g):
        """arXiv 2507.11005, algorithm 1."""
        mu, b2, eps, rms = (self.number("adamuon." + k) for k in ("momentum", "beta2", "eps", "rms"))
        m = self.moment(name, "m", g).mul_(mu).add_(g)
        o = [self.orthogonal(b, "adamuon") for b in self.heads_or_whole(name, m.sign(), self.p["adamuon.per_head"])]
        v = self.moment(name, "v", g).mul_(b2).add_((1 - b2) * torch.cat(o) ** 2)
        hats = [b / (w.sqrt() + eps) for b, w in zip(o, v.split([len(b) for b in o]))]
        return torch.cat([hat * (rms * math.sqrt(hat.numel()) / hat.norm()) for hat in hats])

    def namo(self, name, g, step):
        """arXiv 2602.17080, algorithm 1, with Muon's scale and decoupled decay."""
        b1, b2, eps, rms = (self.number("namo." + k) for k in ("momentum", "beta2", "eps", "rms"))
        m = self.moment(name, "m", g).mul_(b1).add_((1 - b1) * g)
        out = []
        for i, (x, mean) in enumerate(zip(self.matrices_of(name, g), self.matrices_of(name, m))):
            v = self.state[name].setdefault(f"v{i}", torch.zeros((), dtype=g.dtype)).mul_(b2).add_((1 - b2) * x.pow(2).sum())
            alpha = math.sqrt(1 - b2 ** (step + 1)) / (1 - b1 ** (step + 1)) * mean.norm() / (v.sqrt() + eps)
            out.append(self.orthogonal(mean, "namo") * (alpha * rms * math.sqrt(max(x.shape))))
        return torch.cat(out)

    def polargrad(self, name, g):
        """arXiv 2505.21799, momentum first."""
        b = self.number("polargrad.momentum")
        m = self.moment(name, "m", g).mul_(b).add_((1 - b) * g)
        blocks = self.heads_or_whole(name, m, self.p["polargrad.per_head"])
        return torch.cat([(self.orthogonal(x, "polargrad") * x).sum() * self.orthogonal(x, "polargrad") for x in blocks])

    def matrices_of(self, name, x):
        """Every expert's matrix is one of its own."""
        return x.chunk(self.E) if ".experts." in name else [x]

    def polar(self, x):
        out, into = x.shape
        scale = {"moonlight": self.number("muon.rms") * math.sqrt(max(out, into)), "keller": math.sqrt(max(1, out / into)),
                 "mup": math.sqrt(out / into), "none": 1}[self.p["muon.scale"]]
        return self.orthogonal(x, "muon") * scale

    def orthogonal(self, x, section):
        choice = self.p[section + ".coefficients"]
        if choice == "svd":
            u, _, v = torch.linalg.svd(x, full_matrices=False)
            return u @ v
        if choice == "none":
            return x / x.norm() * math.sqrt(min(x.shape))
        x = x / (x.norm() * (1.02 if choice == "polar_express_5" else 1) + 1e-7)
        tall = x.shape[0] > x.shape[1]
        x = x.T if tall else x
        steps = SETS[choice]
        for i in range(int(self.p.get(section + ".ns_steps", 0)) or len(steps)):
            a, b, c = steps[min(i, len(steps) - 1)]
            y = self.rounded(x @ x.T)
            x = self.rounded(a * x + self.rounded(b * y + c * y @ y) @ x)
        return x.T if tall else x

    def override(self, key, name, otherwise):
        for part in filter(None, self.p["override." + key].split("+")):
            glob, value = part.rsplit(":", 1)
            if matches(glob, name):
                otherwise = value
        return otherwise

    def lion(self, name, g):
        """arXiv 2302.06675, algorithm 2."""
        b1, b2 = self.number("lion.beta1"), self.number("lion.beta2")
        m = self.moment(name, "m", g)
        c = b1 * m + (1 - b1) * g
        m.mul_(b2).add_((1 - b2) * g)
        return c.sign()

    def signum(self, name, g):
        """arXiv 1802.04434, algorithm 2."""
        b = self.number("signum.momentum")
        return self.moment(name, "m", g).mul_(b).add_((1 - b) * g).sign()

    def scion(self, name, g):
        """arXiv 2502.07529, algorithm 1; norms and scales of the authors' code: Spectral, Sign, BiasRMS."""
        b, kind = self.number("scion.momentum"), self.kind(name)
        m = self.moment(name, "m", g).mul_(b).add_((1 - b) * g)
        if kind == "matrix":
            return torch.cat([self.orthogonal(x, "scion") * (self.number("scion.radius") * math.sqrt(x.shape[0] / x.shape[1]))
                              for x in self.matrices_of(name, m)])
        if kind in ("embed", "head"):
            return m.sign() * (self.number("scion.radius_head") / m.shape[1])
        return m / m.pow(2).mean().sqrt() * self.number("scion.radius_gain")

    def direction(self, name, g, step):
        matrix = self.kind(name) == "matrix"
        standard = self.p["optimizer"]
        optimizer = self.override("optimizer", name, "adam" if standard in MATRIX_OPTIMIZERS and not matrix else standard)
        if optimizer == "none":
            return None
        if optimizer == "sgd":
            mu = self.number("sgd.momentum")
            m = self.moment(name, "m", g).mul_(mu).add_(g)
            d = (g + mu * m if int(self.p["sgd.nesterov"]) else m).clone()
        elif optimizer in ("adam", "dion", "klshampoo", "namo", "soap"):
            d = getattr(self, optimizer)(name, g, step)
        elif optimizer in OPTIMIZERS:
            d = getattr(self, optimizer)(name, g)
        else:
            raise Unknown("override.optimizer = " + optimizer)
        if matrix and self.p["override.match"] == "update_rms":
            d = d * (self.number("override.match_rms") / d.pow(2).mean().sqrt())
        elif matrix and self.p["override.match"] != "lr":
            d = torch.cat([b * (self.number("override.match_rms") * math.sqrt(max(b.shape)) / largest(b))
                           for b in self.matrices_of(name, d)])
        return d

    # --- stabilizers ----------------------------------------------------------------------------------------

    def blocks(self, l):
        """name -> rows of one head's block of the query and key weights."""
        a = f"blocks.{l}.attn."
        if self.mla:
            return {a + "w_qc": self.Dh, a + "w_kc": self.Dh, a + "w_qr": self.Dr, a + "w_kr": self.Dr}
        return {a + "w_q": self.Dh, a + "w_k": self.Dh}

    def block_norms(self, name, rows):
        return torch.stack([b.norm() for b in self.w[name].detach().split(rows)])

    def quack_partner(self, l):
        """QuacK (arXiv 2511.21377, sec. 3 and Alg. 2): what each block of rows is multiplied with."""
        a = f"blocks.{l}.attn."
        n = {c.split("_")[-1]: self.block_norms(c, rows) for c, rows in self.blocks(l).items()}
        if not self.mla:
            return {a + "w_q": n["k"][self.group], a + "w_k": torch.stack([n["q"][self.group == g].max() for g in range(self.G)])}
        dq = self.w[a + "w_dq"].detach().norm() if self.Rq else 1.0
        dkv = self.w[a + "w_dkv"].detach().norm()
        return {a + "w_qc": n["kc"] * dq * dkv, a + "w_kc": n["qc"] * dq * dkv, a + "w_qr": n["kr"].expand(self.H) * dq,
                a + "w_kr": n["qr"].max()[None] * dq}

    def quack_start(self, l):
        """The partners' sizes before step 0: of this run, or as a checkpoint of the run kept them, head after head,
        each block when its first head comes."""
        kept = self.fixed.get(f"blocks.{l}.quack.start")
        if kept is None:
            return self.__dict__.setdefault("quack_first", {}).setdefault(l, self.quack_partner(l))
        now, kept, start, seen = self.quack_partner(l), iter(kept.flatten()), {}, set()
        start = {n: torch.zeros_like(v) for n, v in now.items()}
        for h in range(self.H):
            for n, v in now.items():
                at = h * len(v) // self.H
                if (n, at) not in seen:
                    start[n][at] = next(kept)
                    seen.add((n, at))
        return start

    def quack_rates(self, row):
        """Factors on the rates, [rows, 1] by weight."""
        rates, tau = {}, self.number("quack.tau")
        of = {"q": [], "k": []}
        for l in range(self.L):
            start = self.quack_start(l)
            for (name, now), rows in zip(self.quack_partner(l).items(), [self.blocks(l)[n] for n in self.quack_partner(l)]):
                f = tau * start[name] / now
                rates[name] = f.repeat_interleave(rows)[:, None]
                last = name.split("_")[-1]
                if last in ("q", "qc"):
                    of["q"].append(f)
                elif last in ("k", "kc"):
                    of["k"].append(f[self.group] if not self.mla else f)
        row["quack/q_factor"], row["quack/k_factor"] = torch.stack(of["q"]), torch.stack(of["k"])
        return rates

    def scoped(self, name, rows, scope):
        return self.w[name].split(rows if scope == "head" else self.w[name].shape[0])

    def spectral_clip(self, step, row):
        bound = self.number("spectral_clip.bound")
        if (step + 1) % int(self.p["spectral_clip.every"]):
            return
        least = torch.ones(self.L, dtype=torch.float64)
        for l in range(self.L):
            for name, rows in self.blocks(l).items():
                for b in self.scoped(name, rows, self.p["spectral_clip.scope"]):
                    before = float(b.norm())
                    u, sigma, v = torch.linalg.svd(b, full_matrices=False)
                    b.copy_(u @ torch.diag(sigma.clamp(max=bound)) @ v)
                    least[l] = min(float(least[l]), float(b.norm()) / before)
        row["spectral_clip/kept"] = least

    def spectral_decay(self, lr, row):
        """kexue.fm/archives/10648: W - lr strength sigma u v^T, the pair by power iteration."""
        most = torch.zeros(self.L, dtype=torch.float64)
        for l in range(self.L):
            for name, rows in self.blocks(l).items():
                kept = self.fixed[name + ".spectral_decay"]
                blocks = self.scoped(name, rows, self.p["spectral_decay.scope"])
                for w, u in zip(blocks, kept.split(blocks[0].shape[0])):
                    for _ in range(int(self.p["spectral_decay.iterations"])):
                        v = u @ w
                        v = v / v.norm()
                        u.copy_(w @ v)
                        sigma = float(u.norm())
                        u.div_(sigma)
                    w.sub_(lr * self.number("spectral_decay.strength") * sigma * torch.outer(u, v))
                    most[l] = max(float(most[l]), sigma)
        row["spectral_decay/largest"] = most

    def held(self, stabilizer, l, of=None):
        """The blocks of a layer's matrices that a stabilizer holds the size of, views; of: other tensors of these names."""
        rows = {"w_q": self.Dh, "w_k": self.Dh, "w_v": self.Dv if self.mla else self.Dh, "w_qc": self.Dh, "w_kc": self.Dh, "w_qr": self.Dr}
        by_head, qk = self.p[stabilizer + ".scope"] == "head", self.p[stabilizer + ".tensors"] == "qk"
        for name in self.w:
            last = name.split(".")[-1]
            if not name.startswith(f"blocks.{l}.") or self.kind(name) != "matrix" or qk and name not in self.blocks(l):
                continue
            w = (self.w if of is None else of)[name].detach()
            yield from w.split(rows[last] if by_head and last in rows else w.shape[0])

    def spheres(self, stabilizer, l):
        """Sizes of a step's directions, Frobenius norms."""
        if stabilizer == "hyperball":
            return list(self.fixed[f"blocks.{l}.hyperball.radius"])
        c = self.number("spectral_sphere.radius")
        return [c * math.sqrt(b.shape[0] / b.shape[1] * min(b.shape)) for b in self.held(stabilizer, l)]

    def size_directions(self, stabilizer, directions):
        for l in range(self.L):
            for d, size in zip(self.held(stabilizer, l, directions), self.spheres(stabilizer, l)):
                d.mul_(size / d.norm())

    def hyperball(self, row):
        """Hyperball (arXiv 2606.16899): back to the norm of the start."""
        stretch = torch.zeros(self.L, dtype=torch.float64)
        for l in range(self.L):
            for b, radius in zip(self.held("hyperball", l), self.spheres("hyperball", l)):
                off = float(b.norm() / radius)
                b.div_(off)
                stretch[l] = max(float(stretch[l]), off)
        row["hyperball/stretch"] = stretch

    def spectral_sphere(self, row=None):
        """Back to the spectral sphere (arXiv 2601.08393, alg. 1), the norm by power iteration."""
        stretch = torch.zeros(self.L, dtype=torch.float64)
        for l in range(self.L):
            for b, u in zip(self.held("spectral_sphere", l), self.left_vectors(l)):
                for _ in range(int(self.p["spectral_sphere.iterations"])):
                    v = u @ b
                    v = v / v.norm()
                    u.copy_(b @ v)
                    sigma = float(u.norm())
                    u.div_(sigma)
                off = sigma / (self.number("spectral_sphere.radius") * math.sqrt(b.shape[0] / b.shape[1]))
                b.div_(off)
                stretch[l] = max(float(stretch[l]), off)
        if row is not None:
            row["spectral_sphere/stretch"] = stretch

    def along_sphere(self, directions, row):
        """SSO (arXiv 2601.08393, alg. 1): lambda by bisection with a decomposition for each; where it meets a lost rank,
        the step is between the two that msign has beside it."""
        told = torch.zeros(3, self.L, dtype=torch.float64)
        told[1] = -math.inf
        for l in range(self.L):
            for w, d in zip(self.held("spectral_tangent", l), self.held("spectral_tangent", l, directions)):
                u, _, v = torch.linalg.svd(w.to(torch.float64), full_matrices=False)
                t, m = torch.outer(u[:, 0], v[0]), d.to(torch.float64) / d.norm()

                def polar(x):
                    u, s, v = torch.linalg.svd(x, full_matrices=False)
                    return u, s, v, torch.einsum("ij,ik,kj->k", t, u, v)

                u, s, v, part = polar(m)
                told[1, l] = max(told[1, l], -part.sum())
                high = 2 * float(s.sum())
                low = -high
                for _ in range(60):
                    middle = (low + high) / 2
                    low, high = (middle, high) if polar(m + middle * t)[3].sum() < 0 else (low, middle)
                u, s, v, part = polar((m + high * t).to(self.dtype).to(torch.float64))
                lost = s < 2.0 ** -20 * s[0]
                sigma = torch.where(lost, (-part[~lost].sum() / part[lost].sum()).clamp(-1, 1), 1.0)
                d.copy_((u * sigma) @ v * (d.norm() / sigma.norm()))
                told[0, l] = max(told[0, l], abs(high))
                told[2, l] = max(told[2, l], abs(float((d * t).sum() / d.norm() * sigma.norm())))
        for i, name in enumerate(("lambda", "growth", "left")):
            row["spectral_tangent/" + name] = told[i]

    @staticmethod
    def msign(x):
        """Twelve steps of Polar Express."""
        y = (x.T if x.shape[0] > x.shape[1] else x) / x.norm()
        for i in range(12):
            a, b, c = SETS["polar_express"][min(i, 7)]
            z = y @ y.T
            y = a * y + (b * z + c * z @ z) @ y
        return y.T if x.shape[0] > x.shape[1] else y

    def to_stiefel(self):
        for l in range(self.L):
            for b in self.held("stiefel", l):
                b.copy_(self.msign(b))

    def along_stiefel(self, directions, row):
        """Manifold Muon (Thinking Machines, Modular manifolds, 2025), with the gradient's size divided out; no steps: SPEL."""
        alpha, steps = self.number("stiefel.alpha"), int(self.p["stiefel.steps"])
        most = torch.zeros(self.L, dtype=torch.float64)
        for l in range(self.L):
            for w, d in zip(self.held("stiefel", l), self.held("stiefel", l, directions)):
                wide = w.shape[0] < w.shape[1]
                tall, g = (w.T, d.T) if wide else (w, d)
                g = g / g.norm()
                multiplier = -(tall.T @ g + g.T @ tall) / 4 if steps else torch.zeros_like(tall.T @ g)
                for s in range(max(steps, 1)):
                    a = self.msign(g + 2 * tall @ multiplier)
                    h = tall.T @ a + a.T @ tall
                    multiplier = multiplier - alpha * (1 - s / max(steps, 1)) * h
                d.copy_(a.T if wide else a)
                most[l] = max(float(most[l]), float(h.norm()) / h.shape[0])
        row["stiefel/off_tangent"] = most

    def left_vectors(self, l):
        kept = {n: self.fixed[n + ".spectral_sphere"].reshape(-1, 1) for n in self.w if n + ".spectral_sphere" in self.fixed}
        whole = {n: kept.get(n, self.w[n]) for n in self.w}
        return [u[:, 0] for u in self.held("spectral_sphere", l, whole)]

    def sigma_reparam(self):
        """One power iteration for the spectral norm of every weight that is divided by it."""
        for name in self.w:
            if name + ".sigma_gain" in self.w:
                u, v, w = self.fixed[name + ".sigma_u"], self.fixed[name + ".sigma_v"], self.w[name].detach()
                v.copy_((u @ w) / (u @ w).norm())
                u.copy_((w @ v) / (w @ v).norm())

    def clip_latent(self, l, gamma, clip):
        """K2, arXiv 2507.20534, Algorithm 1 for MLA, and the naive rules that clip the shared key too."""
        alpha, rule, a = float(self.p.get(clip + ".alpha", 0.5)), self.p.get(clip + ".mla", "exact"), f"blocks.{l}.attn."
        one = torch.ones(1, dtype=gamma.dtype)
        qr, kr = {"exact": (gamma, one), "kr_layer": (gamma ** alpha, gamma.min()[None] ** (1 - alpha)),
                  "kr_head": (gamma ** alpha, gamma.prod()[None] ** (1 - alpha))}[rule]
        for c, f, rows in (("qc", gamma ** alpha, self.Dh), ("kc", gamma ** (1 - alpha), self.Dh), ("qr", qr, self.Dr),
                           ("kr", kr, self.Dr)):
            self.scale_rows(a + "w_" + c, f.to(self.dtype).repeat_interleave(rows)[:, None], clip)
        return gamma

    def scale_rows(self, name, factors, clip):
        if name in self.w:
            self.w[name].mul_(factors)
            if self.p.get(clip + ".momentum") == "scale" and "m" in self.state[name]:
                self.state[name]["m"].mul_(factors)

    def clip_heads(self, l, gamma, finite, clip="qk_clip"):
        """-> what becomes of the heads' logits. A head that is not finite keeps its queries."""
        if self.mla:
            return self.clip_latent(l, gamma, clip)
        alpha, rule, group = float(self.p.get(clip + ".alpha", 0.5)), self.p[clip + ".gqa"], self.group
        least = torch.stack([gamma[group == g].min() for g in range(self.G)])
        if self.G == self.H:
            q, k = gamma ** alpha, gamma ** (1 - alpha)
        elif rule == "group_max":
            q, k = least[group] ** alpha, least ** (1 - alpha)
        elif rule == "own_q_min_k":
            q, k = gamma ** alpha, least ** (1 - alpha)
        elif rule == "q_only":
            q, k = gamma, torch.ones_like(least)
        else:
            q, k = gamma * least[group] ** (alpha - 1), least ** (1 - alpha)
        q = torch.where(finite, q, torch.ones_like(q))
        for c, f in (("q", q), ("k", k)):
            f = f.to(self.dtype).repeat_interleave(self.Dh)
            self.scale_rows(f"blocks.{l}.attn.w_{c}", f[:, None], clip)
            self.scale_rows(f"blocks.{l}.attn.b_{c}", f, clip)
        logits = {"group_max": least[group], "own_q_min_k": gamma ** alpha * least[group] ** (1 - alpha)}
        factor = gamma if self.G == self.H else torch.where(finite, logits.get(rule, gamma), k[group])
        assert torch.allclose(q * k[group], factor)
        return factor

    def qk_clip(self, tops, row, event):
        """QK-Clip (K2, arXiv 2507.20534, Algorithm 1; per layer: kexue.fm/archives/11126)."""
        tau, factors = self.number("qk_clip.tau"), []
        for l in range(self.L):
            s = tops[l]
            finite = s.isfinite()
            for h in range(self.H):
                if not finite[h]:
                    event("nonfinite", l, h, float(s[h]))
            if self.p["qk_clip.scope"] == "layer":
                s = s.max().expand_as(s)
            gamma = torch.where((s > tau) & s.isfinite(), tau / s, torch.ones_like(s))
            factors.append(self.clip_heads(l, gamma, finite))
            for h in range(self.H):
                if factors[l][h] < 1:
                    event("clip", l, h, float(factors[l][h]))
        row["qk_clip/gamma"] = torch.stack(factors)

    def turns(self, l, n):
        """RoPE [n, n] between a query and every key that the mask of layer l allows, each distance once."""
        t, mask, half = range(self.T), self.p.get("model.mask"), n // 2
        apart = {j - i for i in t for j in t
                 if (j <= i or mask == "full" or mask == "prefix" and j < int(self.p["model.prefix"]))
                 and not (self.has_window(l) and i - j >= int(self.p["model.window"]))}
        f = self.number("model.rope_base") ** (-torch.arange(half, dtype=torch.float64) / half)
        a = torch.tensor(sorted(apart), dtype=torch.float64)[:, None] * f
        c, s = torch.diag_embed(a.cos()), torch.diag_embed(a.sin())
        return torch.cat([torch.cat([c, -s], 2), torch.cat([s, c], 2)], 1)

    def largest_logits(self, l):
        """Bounds of |logit| of every head, over all inputs that a norm can give: the norms of whole bilinear forms."""
        a = f"blocks.{l}.attn."

        def side(weight, rows, gain, at, bias="-"):
            g = self.gain(a + gain)
            w = self.w[a + weight].detach().split(rows)[at].double()
            parts = [w * (1 if g is None else g.detach().double()) * math.sqrt(w.shape[1])]
            return parts + ([self.w[a + bias].detach().split(rows)[at].double()[:, None]] if a + bias in self.w else [])

        def most(q, k, turns):
            return sum(float(torch.linalg.matrix_norm(x.T @ turns @ y, 2).max()) for x in q for y in k)
        out, q, one = [], "q_norm" if self.Rq else "norm", torch.eye(self.Dh, dtype=torch.float64)[None]
        for h in range(self.H):
            if not self.mla:
                out.append(self.Dh ** -0.5 * most(side("w_q", self.Dh, "norm", h, "b_q"), side("w_k", self.Dh, "norm", int(self.group[h]), "b_k"),
                                                  self.turns(l, self.Dh)))
                continue
            out.append((self.Dh + self.Dr) ** -0.5 * (most(side("w_qc", self.Dh, q, h), side("w_kc", self.Dh, "kv_norm", h), one)
                                                      + most(side("w_qr", self.Dr, q, h), side("w_kr", self.Dr, "norm", 0), self.turns(l, self.Dr))))
        return torch.tensor(out, dtype=torch.float64)

    def bound_clip(self, step, row, event):
        """As qk_clip (K2, arXiv 2507.20534, Algorithm 1), where S is the largest logit that the weights could make."""
        if (step + 1) % int(self.p["bound_clip.every"]):
            return
        tau, bounds, factors = self.number("bound_clip.tau"), [], []
        for l in range(self.L):
            s = self.largest_logits(l)
            gamma = torch.where(s > tau, tau / s, torch.ones_like(s))
            bounds.append(s)
            factors.append(self.clip_heads(l, gamma, s.isfinite(), "bound_clip"))
            for h in range(self.H):
                if factors[l][h] < 1:
                    event("clip", l, h, float(factors[l][h]))
        row["bound_clip/gamma"], row["bound_clip/bound"] = torch.stack(factors), torch.stack(bounds)

    def max_output_clip(self, outputs, row, event):
        """ "MaxOutput explosion -> clip W_o" (kexue.fm/archives/11126)."""
        tau = self.number("max_output_clip.tau")
        gamma = torch.where((outputs > tau) & outputs.isfinite(), tau / outputs, torch.ones_like(outputs))
        for l in range(self.L):
            if not outputs[l].isfinite():
                event("nonfinite", l, -1, float(outputs[l]))
            if gamma[l] < 1:
                event("clip", l, -1, float(gamma[l]))
                for name in (f"blocks.{l}.attn.w_o", f"blocks.{l}.attn.b_o"):
                    if name in self.w:
                        self.w[name].mul_(gamma[l])
        row["max_output"], row["max_output_clip/gamma"] = outputs, gamma

    # --- what is recorded -----------------------------------------------------------------------------------

    def head_rows(self, l, which):
        """Head h's rows of the content queries or keys."""
        a = f"blocks.{l}.attn.w_" + which + ("c" if self.mla else "")
        blocks = self.w[a].detach().split(self.Dh)
        return [blocks[h if self.mla or which == "q" else int(self.group[h])] for h in range(self.H)]

    def bound(self, l):
        """Of every head's logits: lengths of what goes in times spectral norms with its gain (kexue.fm/archives/11126)."""
        a = f"blocks.{l}.attn."

        def part(weight, rows, gain, at, bias=None):
            g = self.gain(a + gain)
            g = (torch.ones(1) if g is None else g.detach()).expand(self.w[a + weight].shape[1])
            b = self.w[a + bias].detach().split(rows)[at].norm() if a + (bias or "-") in self.w else 0.0
            return math.sqrt(len(g)) * largest(self.w[a + weight].split(rows)[at] * g) + float(b)
        out = []
        for h in range(self.H):
            if not self.mla:
                out.append(self.Dh ** -0.5 * part("w_q", self.Dh, "norm", h, "b_q")
                           * part("w_k", self.Dh, "norm", int(self.group[h]), "b_k"))
                continue
            q = "q_norm" if self.Rq else "norm"
            out.append((self.Dh + self.Dr) ** -0.5 * (part("w_qc", self.Dh, q, h) * part("w_kc", self.Dh, "kv_norm", h)
                                                      + part("w_qr", self.Dr, q, h) * part("w_kr", self.Dr, "norm", 0)))
        return torch.tensor(out, dtype=torch.float64)

    def tightness(self, tops):
        """Max logits over their bound by the weights that made them; NaN where these weights do not say it all."""
        if tops is None or {"qk_norm", "qk_norm_partial", "k_norm", "sigma_reparam"} & set(self.stack):
            return torch.full((self.L, self.H), math.nan)
        return torch.stack([tops[l].double() / self.bound(l) for l in range(self.L)])

    def spectra(self, directions, tight):
        """A row of the spectra axis; without directions after the last update."""
        row, nan = {}, [math.nan] * 6
        names = self.matrices()

        def put(group, values):
            for i, summary in enumerate(SUMMARIES):
                row[group + "/" + summary] = torch.tensor([v[i] for v in values], dtype=torch.float64)
        put("weight", [spectrum(self.w[n]) for n in names])
        known = directions or {}
        put("update", [spectrum(known[n]) if known.get(n) is not None else nan for n in names])
        q = [r for l in range(self.L) for r in self.head_rows(l, "q")]
        k = [r for l in range(self.L) for r in self.head_rows(l, "k")]
        put("head_q", [spectrum(x) for x in q])
        put("head_k", [spectrum(x) for x in k])
        put("head_qk", [spectrum(x.double().T @ y.double(), self.Dh) if x.shape == y.shape else nan for x, y in zip(q, k)])
        for part in ("gate", "up", "down") if self.moe else ():
            of = [self.w.get(f"blocks.{l}.ffn.experts.w_{part}") for l in range(self.L)]
            put("expert_" + part, [spectrum(w) if w is not None else nan for stack in of
                                   for w in (stack.chunk(self.E) if stack is not None else [None] * self.E)])
        align = []
        for n in names:
            w = self.w[n].detach().double()
            if known.get(n) is None or not w.isfinite().all():
                align.append(math.nan)
                continue
            u, _, v = torch.linalg.svd(w, full_matrices=False)
            align.append(float(u[:, 0] @ -known[n].double() @ v[0]))  # W moves by -lr times the direction
        row["update/alignment"] = torch.tensor(align, dtype=torch.float64)
        if int(self.p["record.bound"]):
            row["attn/bound_tightness"] = tight
        return row

    def validation(self):
        if self.data is None:
            return None
        with torch.no_grad():
            losses = []
            for b in range(int(self.p["train.val_batches"])):
                losses.append([float(self.forward(self.data.batch(VAL, b))[0])] + [float(x) for x in self.ahead])
        means = np.mean(losses, 0)
        return {"val_loss": float(means[0]), **({"mtp/val_loss": self.of_modules(means[1:])} if self.M else {})}

    def spike(self, loss):
        """Above the median of the 64 finite losses before by train.spike times their median absolute deviation?"""
        window, factor = np.array(self.losses[-64:]), self.number("train.spike")
        if not factor or len(window) < 64 or not math.isfinite(loss):
            return False
        return loss > np.median(window) + factor * np.median(np.abs(window - np.median(window)))

    def look(self, step):
        """Rows of the probe and validation axes, with the weights before the update; the probe's maxima."""
        rows, seen = {}, None
        every, val = int(self.p["record.probe_every"]), int(self.p["train.val_every"])
        recorded = every and step % every == 0
        if self.data and (recorded or "qk_clip" in self.stack and self.p["qk_clip.statistic"] == "probe"):
            with torch.no_grad():
                loss, _, seen, _ = self.forward(self.data.batch(PROBE, 0))
            if recorded:
                rows["probe"] = {"probe/loss": float(loss)}
                names = ["max_logit", "max_abs_logit"] + ["q_norm", "k_norm", "cosine"] * int(self.p["record.pairs"])
                rows["probe"].update({"probe/" + n: seen[n] for n in names})
        if val and step % val == 0:
            rows["val"] = self.validation()
        return rows, seen

    def step(self, step, batch):
        """-> rows {axis: {series: values}} and events [(kind, layer, head, value)] of this step; then updates."""
        events = []

        def event(*what):  # of one place, the first that is not finite
            if what[0] != "nonfinite" or what[:3] not in [e[:3] for e in events]:
                events.append(what)
        for w in self.w.values():
            w.grad = None
        rows, probe = self.look(step)
        loss, total, seen, outputs = self.forward(batch)
        total.backward()
        with torch.no_grad():
            lr, loss = self.rate(step), float(loss)
            norm = math.sqrt(sum(float(w.grad.double().pow(2).sum()) for w in self.w.values()))
            row = {"loss": loss, "lr": lr, "grad_norm": norm}
            names = ["max_logit", "max_abs_logit", "entropy"] + ["share_above"] * (self.number("record.level") > 0)
            names += ["max_logit_capped"] * bool({"soft_cap", "hard_cap"} & set(self.stack))
            row.update({"attn/" + n: seen[n] for n in names})
            if self.moe:
                self.routers(row)
            if self.M:
                row["mtp/loss"] = self.of_modules(self.ahead)
            for l in range(self.L):
                for h in range(self.H):
                    if not seen["max_abs_logit"][l, h].isfinite():
                        event("nonfinite", l, h, float(seen["max_abs_logit"][l, h]))
            if not math.isfinite(loss) or not math.isfinite(norm):
                event("nonfinite", -1, -1, norm if math.isfinite(loss) else loss)
            if self.spike(loss):
                event("spike", -1, -1, loss)
            if math.isfinite(loss):
                self.losses.append(loss)
            steps, every = int(self.p["train.steps"]), int(self.p["record.spectra_every"])
            self.diverged = bool({"nonfinite"} & {e[0] for e in events}) and self.p["train.on_nonfinite"] != "continue"
            if not self.diverged:
                rows.update(self.update(step, lr, norm, seen, outputs, probe, row, event, every))
            if step % int(self.p["record.every"]) == 0 or self.diverged or step + 1 == steps:
                rows["step"] = row
        return rows, events

    def update(self, step, lr, norm, seen, outputs, probe, row, event, every):
        rows, rates = {}, {}
        limit = self.number("train.grad_clip")
        factor = limit / norm if 0 < limit < norm else 1.0
        source = probe if self.p.get("qk_clip.statistic") == "probe" else seen
        tops = source and source["max_abs_logit" if self.p.get("qk_clip.maximum") == "absolute" else "max_logit"]
        due = every and step % every == 0
        tight = self.tightness(seen["max_logit"]) if due and int(self.p["record.bound"]) else None
        for s in self.stack:
            if s == "qk_clip" and self.p["qk_clip.when"] == "before":
                self.qk_clip(tops, row, event)
            elif s == "quack":
                rates = self.quack_rates(row)
        directions = {name: self.direction(name, w.grad * factor, step) for name, w in self.w.items()}
        if due:
            rows["spectra"] = self.spectra(directions, tight)
        for s in self.stack:
            if s == "spectral_tangent":
                self.along_sphere(directions, row)
            elif s in ("hyperball", "spectral_sphere"):
                self.size_directions(s, directions)
            elif s == "stiefel":
                self.along_stiefel(directions, row)
        for name, w in self.w.items():
            decays = self.kind(name) in ("matrix", "embed", "head") or int(self.p["train.decay_gains"])
            rate = lr * float(self.override("lr", name, 1)) * rates.get(name, 1.0)
            decay = self.number("train.weight_decay") * float(self.override("weight_decay", name, 1)) * bool(decays)
            shrink = lr / self.number("train.lr") if self.p["train.decay"] == "independent" else rate
            if directions[name] is not None:
                keep = (1 - shrink * decay) * torch.ones_like(w)
                if int(self.p.get("train.cautious_decay", 0)):
                    keep[w * directions[name] < 0] = 1
                w.mul_(keep).sub_(rate * directions[name])
        for s in self.stack:
            if s == "qk_clip" and self.p["qk_clip.when"] == "after":
                self.qk_clip(tops, row, event)
            elif s == "bound_clip":
                self.bound_clip(step, row, event)
            elif s == "max_output_clip":
                self.max_output_clip(outputs, row, event)
            elif s == "spectral_clip":
                self.spectral_clip(step, row)
            elif s == "spectral_decay":
                self.spectral_decay(lr, row)
            elif s == "sigma_reparam":
                self.sigma_reparam()
            elif s == "hyperball":
                self.hyperball(row)
            elif s == "spectral_sphere":
                self.spectral_sphere(row)
            elif s == "stiefel":
                self.to_stiefel()
        self.move_biases()
        return rows

    def finish(self):
        """The last rows: the state after the last update."""
        rows = {"val": self.validation()}
        if int(self.p["record.spectra_every"]):
            rows["spectra"] = self.spectra(None, self.tightness(None))
        return rows


def declared(name):
    """Sort key: the order in which the design lists the tensors, which is the order of drawing."""
    inner = ["attn.norm", "w_dq", "q_norm", "w_qc", "w_qr", "w_dkv", "kv_norm", "w_kc", "w_kr", "w_q", "w_k", "w_v",
             "w_o", "ffn.norm", "w_router", "router_bias", "experts.w_gate", "experts.w_up", "experts.w_down", "shared.w_gate",
             "shared.w_up", "shared.w_down", "w_gate", "w_up", "w_down"]
    if name.startswith("blocks."):
        l = int(name.split(".")[1])
        for i, part in enumerate(inner):
            if name.endswith("." + part):
                return (1, l, i)
        if name.endswith("spectral_decay"):
            return (2, l, ["w_q", "w_qc", "w_k", "w_kc", "w_qr", "w_kr"].index(name.split(".")[-2]))
        return (2, l, [i for i, part in enumerate(inner + [""]) if "." + part in name][0])
    if name.startswith("mtp."):  # behind all blocks
        parts = name.split(".")
        own = ["norm_h", "norm_e", "w_join", "norm"]
        return (1, math.inf, 4 * int(parts[1]) + own.index(parts[2])) if len(parts) == 3 else (2, math.inf, int(parts[1]))
    return (0, ["embed", "norm", "head"].index(name), 0)


# --- run files --------------------------------------------------------------------------------------------


def text(v):
    return v.decode() if isinstance(v, bytes) else str(v)


def datasets(group):
    import h5py
    found = {}
    group.visititems(lambda n, x: found.update({n: x[:]}) if isinstance(x, h5py.Dataset) else None)
    return found


class RunFile:
    """What a run has left: parameters, batches, series, events, checkpoints."""

    def __init__(self, path):
        import h5py
        self.folder = path[:-len(".h5")] + ".ckpt"
        with h5py.File(path) as f:
            self.p = {k: text(v) for k, v in f["parameters"].attrs.items()}
            batches = {k: v[:] for k, v in f["batches"].items()} if "batches" in f else {}
            self.series, self.steps, self.definition = {}, {}, {}
            for name, values in datasets(f["series"]).items():
                d = f["series"][name]
                if "definition" in d.attrs:
                    self.series[name], self.definition[name] = values, text(d.attrs["definition"])
                    self.steps[name] = f["series"][text(d.dims[0].label)][:].astype(int)
            self.events = [(int(e[0]), text(e[1]), int(e[2]), int(e[3]), float(e[4])) for e in f["events"][:]
                           if text(e[1]) in ("clip", "spike", "nonfinite")]
        if "tokens" not in batches:
            raise Unknown("no batches: it takes record.batches = 1")
        self.batches = []
        for i, tokens in enumerate(batches["tokens"]):
            shape = (tokens.shape[0], tokens.shape[1] - 1)
            self.batches.append((tokens.astype(np.int64), batches["mask"][i].astype(float) if "mask" in batches else np.ones(shape),
                                 batches["document"][i] if "document" in batches else np.zeros(shape, int)))

    def checkpoint(self, step):
        """-> parameters, states."""
        import h5py
        with h5py.File(f"{self.folder}/step-{step:08d}.h5") as f:
            return datasets(f["params"]), datasets(f["state"])

    def data(self):
        if self.p["data"] == "bytes" and "+" not in self.p["data.path"]:
            return Text(self.p, self.p["data.path"])
        sources = {"recall": Recall, "markov": Markov, "copy": Copy}
        return sources[self.p["data"]](self.p) if self.p["data"] in sources else None
