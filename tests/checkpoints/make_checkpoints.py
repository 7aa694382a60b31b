#!/usr/bin/env python3
"""Small checkpoints in the naming of every family, and what `maxlogit spectra` is to say of them.

  make_checkpoints.py DIR        (Python 3, NumPy; the files beside this script were made by it with NumPy 2.4)

Nothing here knows the program: files are written byte by byte, the D x D forms are formed, and singular values are
NumPy's. Each bound is held against logits of random inputs, computed the long way: norm, projection, norm, rotation.
DIR/FAMILY/expected.tsv has a line a head and object, a line a bound, a line a matrix."""
import json
import os
import struct
import sys

import numpy as np

rng = np.random.default_rng(20261122)
D, H, G, DH, L = 12, 4, 2, 6, 2


# --- files ----------------------------------------------------------------------------------------------------
def to_bf16(x):
    bits = np.asarray(x, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype("<u2")


def e4m3_values():
    out = []
    for c in range(128):
        e, m = c >> 3, c & 7
        out.append(m / 8 * 2.0**-6 if e == 0 else (1 + m / 8) * 2.0 ** (e - 7))
    out[127] = np.nan
    return np.array(out)


E4M3 = e4m3_values()


def to_e4m3(x):
    x = np.asarray(x, float)
    return (np.abs(np.abs(x)[..., None] - E4M3[:127]).argmin(-1) + 128 * (x < 0)).astype(np.uint8)


def encode(x, dtype):
    """bytes, and the values that they stand for"""
    x = np.asarray(x, np.float64)
    if dtype == "F32":
        return x.astype("<f4").tobytes(), x.astype(np.float32).astype(float)
    if dtype == "F16":
        return x.astype("<f2").tobytes(), x.astype(np.float16).astype(float)
    if dtype == "BF16":
        b = to_bf16(x)
        return b.tobytes(), (b.astype(np.uint32) << 16).view(np.float32).astype(float)
    if dtype == "I64":
        return x.astype("<i8").tobytes(), x
    b = to_e4m3(x)
    return b.tobytes(), np.where(b >= 128, -1, 1) * E4M3[b & 127]


def write_file(path, entries):
    header, data = {"__metadata__": {"format": "pt"}}, b""
    for name, (dtype, shape, raw) in entries.items():
        header[name] = {"dtype": dtype, "shape": list(shape), "data_offsets": [len(data), len(data) + len(raw)]}
        data += raw
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + data)


class Store:
    """Tensors on their way into a file; what goes in comes back as it will be read."""

    def __init__(self, dtype="F32"):
        self.dtype, self.entries, self.value = dtype, {}, {}

    def put(self, name, x, dtype=None):
        dtype = dtype or self.dtype
        raw, value = encode(x, dtype)
        self.entries[name] = (dtype, np.shape(x), raw)
        self.value[name] = value.reshape(np.shape(x))
        return self.value[name]

    def put_blocks(self, name, x, block):
        """F8_E4M3 with a scale for every block"""
        rows, cols = x.shape
        scale = rng.uniform(0.5, 2, (-(-rows // block[0]), -(-cols // block[1])))
        full = np.kron(scale, np.ones(block))[:rows, :cols]
        raw, value = encode(x / full, "F8_E4M3")
        raw_scale, scale = encode(scale, "F32")
        full = np.kron(scale.reshape(-(-rows // block[0]), -1), np.ones(block))[:rows, :cols]
        self.entries[name] = ("F8_E4M3", x.shape, raw)
        self.entries[name + "_scale_inv"] = ("F32", scale.shape, raw_scale)
        self.value[name] = value.reshape(x.shape) * full
        return self.value[name]


# --- spectra --------------------------------------------------------------------------------------------------
def summary(w, n=None):
    s = np.linalg.svd(w, compute_uv=False)
    n = n or len(s)
    s = np.sort(s)[::-1][:n]
    p, r = s**2 / (s**2).sum(), s / s.sum()
    entropy = -(p[p > 0] * np.log(p[p > 0])).sum()
    return [s[0], np.sqrt((s**2).sum()), entropy / np.log(n) if n > 1 else np.nan, np.exp(entropy),
            np.exp(-(r[r > 0] * np.log(r[r > 0])).sum()), (s**2).sum() / s[0] ** 2]


def norm2(x):
    return np.linalg.norm(x, 2)


class Norm:
    def __init__(self, kind, gain, shift=None):
        self.kind, self.gain, self.shift = kind, gain, 0 if shift is None else shift

    def effective(self):
        return 1 + self.gain if self.kind == "rms1" else self.gain

    def __call__(self, x):
        if self.kind == "layer":
            x = x - x.mean(-1, keepdims=True)
        return x / np.sqrt((x**2).mean(-1, keepdims=True)) * self.effective() + self.shift


class Side:
    """queries or keys of a head: rows w, bias b, the norm before, the norm after (over `over` numbers)"""

    def __init__(self, w, before, b=None, after=None, over=None, label="w_q"):
        self.w, self.before, self.label = w, before, label
        self.b = np.zeros(len(w)) if b is None else b
        self.after, self.over = after, over or len(w)

    def bound(self):
        d = self.w.shape[1]
        a = self.w * self.before.effective()
        if self.before.kind == "layer":
            a = a @ (np.eye(d) - np.ones((d, d)) / d)
        c = self.w @ (np.zeros(d) + self.before.shift) + self.b
        return a, c, np.sqrt(d)

    def vectors(self, x, head=None):
        y = self.before(x) @ self.w.T + self.b
        return y if self.after is None else self.after(y)


def turn(x, position, rotary, size):
    """rotary position embedding of the last axis"""
    y = x.copy()
    for i in range(size // 2):
        a, b = (i, i + size // 2) if rotary == "halves" else (2 * i, 2 * i + 1)
        angle = position * 10000.0 ** (-2 * i / size)
        c, s = np.cos(angle), np.sin(angle)
        y[..., a], y[..., b] = c * x[..., a] - s * x[..., b], s * x[..., a] + c * x[..., b]
    return y


def pair_of(i, rotary, size):
    if rotary is None or i >= size:
        return i
    return i ^ 1 if rotary == "interleaved" else (i + size // 2) % size


def terms_of(parts, scale):
    """what the bound is the sum of, and the bound without rotation"""
    terms, still = {}, 0
    for name, q, k, rotary, size in parts:
        a, cq, dq = q.bound() if q.before else (None, 0, 0)
        b, ck, dk = k.bound() if k.before else (None, 0, 0)
        if q.after is not None:
            gq, gk = np.abs(q.after.effective()), np.abs(k.after.effective())
            best = [max(gq[i], gq[pair_of(i, rotary, size)]) * max(gk[i], gk[pair_of(i, rotary, size)])
                    for i in range(len(gq))]
            i = int(np.argmax(best))
            terms["gain %d" % i] = scale * np.sqrt(q.over * k.over) * best[i]
            still = np.nan
            continue
        inner = {"weights": norm2(a.T @ b) * dq * dk, "query bias": dk * norm2(b.T @ cq), "key bias": dq * norm2(a.T @ ck),
                 "biases": abs(cq @ ck)}
        still += scale * sum(inner.values())
        if not name and not rotary:
            terms = {key: scale * value for key, value in inner.items()}
            continue
        if name:
            terms[name] = scale * dq * norm2(a) * dk * norm2(b)
            continue
        terms["weights"] = scale * dq * norm2(a) * dk * norm2(b)
        if norm2(cq) > 0:
            terms["query bias"] = scale * norm2(cq) * dk * norm2(b)
        if norm2(ck) > 0:
            terms["key bias"] = scale * dq * norm2(a) * norm2(ck)
        if norm2(cq) > 0 and norm2(ck) > 0:
            terms["biases"] = scale * norm2(cq) * norm2(ck)
    return terms, still


def joined(parts, scale, apart):
    """terms of two parts of one normalized query: the least over w of |[A / sqrt(w), B / sqrt(1 - w)]| is sharp where a
    rotated key is any vector of its length (Brickman 1961); the same w are tried as by the program"""
    (_, qc, kc, _, _), (_, qr, kr, _, _) = parts
    (a, _, d), (b, _, e), (c, _, _), (f, _, g) = qc.bound(), kc.bound(), qr.bound(), kr.bound()
    first, second = d * a.T @ b * e, d * c.T * norm2(f) * g
    tried = {}

    def value(w):
        tried[w] = norm2(np.hstack([first / np.sqrt(w), second / np.sqrt(1 - w)]))
        return tried[w]

    products = d * norm2(a) * e * norm2(b), d * norm2(c) * norm2(f) * g
    value(products[0] / sum(products))
    golden, low, high = (np.sqrt(5) - 1) / 2, 0, 1
    at = [1 - golden, golden]
    values = [value(w) for w in at]
    for _ in range(10):
        if values[1] < values[0]:
            low, at[0], values[0] = at[0], at[1], values[1]
            at[1] = low + golden * (high - low)
            values[1] = value(at[1])
        else:
            high, at[1], values[1] = at[1], at[0], values[0]
            at[0] = high - golden * (high - low)
            values[0] = value(at[0])
    w = min(tried, key=tried.get)
    assert tried[w] < sum(products)
    return {name: apart[name] + scale * (share * tried[w] - product)  # biases as before
            for (name, *_), share, product in zip(parts, (w, 1 - w), products)}


def sampled(parts, scale, positions=(0, 1, 5, 40)):
    """the largest |logit| of random inputs"""
    most = 0
    x, z = rng.normal(size=(2, 200, 64))
    for shift in positions:
        total = 0
        for name, q, k, rotary, size in parts:
            u, v = q.vectors(x[:, :q.w.shape[1]]), k.vectors(z[:, :k.w.shape[1]])
            if rotary:
                u = turn(u, shift, rotary, size)
            total = total + u @ v.T
        most = max(most, np.abs(scale * total).max())
    return most


def fmt(x):
    return "nan" if np.isnan(x) else "%.12g" % x


class Model:
    def __init__(self, family, config, dtype="F32"):
        self.family, self.config, self.store, self.lines = family, config, Store(dtype), []

    def matrix(self, name, rows, cols, spread=1.0):
        return self.store.put(name, spread * rng.normal(size=(rows, cols)) / np.sqrt(cols))

    def vector(self, name, n, around=1.0, spread=0.3):
        return self.store.put(name, around + spread * rng.normal(size=n))

    def head(self, layer, head, parts, scale):
        at = "l%dh%d" % (layer, head)
        for name, q, k, rotary, size in parts:
            n = len(q.w)
            for what, w, count in ((q.label, q.w, None), (k.label, k.w, None), (q.label + "^T " + k.label, q.w.T @ k.w, n)):
                self.lines.append("%s\t%s\t%s" % (at, what, "\t".join(fmt(v) for v in summary(w, count))))
        terms, still = terms_of(parts, scale)
        if len(parts) == 2:
            terms = joined(parts, scale, terms)
        bound = sum(terms.values())
        still = min(still, bound)
        if all(q.after is None or q.over == len(q.w) for _, q, k, _, _ in parts):
            assert sampled(parts, scale) <= bound * (1 + 1e-9), (self.family, layer, head)
        largest = max(terms, key=terms.get)
        self.lines.append("%s\tbound\t%s\t%s\t%s\t%s\t%s" % (at, fmt(scale), fmt(bound), fmt(still), largest,
                                                             fmt(terms[largest] / bound)))

    def matrices(self):
        groups = {}
        for name, x in self.store.value.items():
            if x.ndim != 2 or min(x.shape) < 2 or name.endswith("_scale_inv"):
                continue
            if self.store.entries[name][0] == "I64":
                continue
            parts = name.split(".")
            if "experts" in parts and parts[parts.index("experts") + 1].isdigit():
                parts[parts.index("experts") + 1] = "*"
            key = ".".join(parts[:-1] if parts[-1] == "weight" else parts)
            groups.setdefault(key, []).append(summary(x))
        for key, all_ in groups.items():
            for q in range(5):
                self.lines.append("m\t%s\t%d\t%d\t%s" % (key, len(all_), q, "\t".join(
                    fmt(np.quantile(np.array(all_)[:, f], q / 4)) for f in range(6))))

    def save(self, folder, shards=1):
        path = os.path.join(folder, self.family)
        os.makedirs(path, exist_ok=True)
        self.matrices()
        with open(os.path.join(path, "config.json"), "w") as f:
            json.dump(self.config, f, indent=1)
            f.write("\n")
        with open(os.path.join(path, "expected.tsv"), "w") as f:
            f.write("# made by make_checkpoints.py\n" + "\n".join(self.lines) + "\n")
        names = list(self.store.entries)
        if shards == 1:
            write_file(os.path.join(path, "model.safetensors"), self.store.entries)
            return
        # scales go to the last shard, away from their weights
        where = {n: (shards - 1 if n.endswith("_scale_inv") else i % (shards - 1)) for i, n in enumerate(names)}
        files = ["model-%05d-of-%05d.safetensors" % (s + 1, shards) for s in range(shards)]
        for s in range(shards):
            write_file(os.path.join(path, files[s]), {n: self.store.entries[n] for n in names if where[n] == s})
        with open(os.path.join(path, "model.safetensors.index.json"), "w") as f:
            json.dump({"metadata": {}, "weight_map": {n: files[where[n]] for n in names}}, f, indent=0)
            f.write("\n")


# --- families -------------------------------------------------------------------------------------------------
def separate(family, kind="rms", bias=False, after=None, before=True, dh=DH, scale=None, config=None, gated=False,
             share=1.0, prefix="model.", dtype="F32", extra=(), skip=()):
    base = {"model_type": family, "hidden_size": D, "num_hidden_layers": L, "num_attention_heads": H,
            "num_key_value_heads": G, "head_dim": dh}
    base.update(config or {})
    m = Model(family, base, dtype)
    m.matrix(prefix + "embed_tokens.weight", 10, D)
    for l in range(L):
        p = prefix + "layers.%d." % l
        if l in skip:
            m.matrix(p + "linear_attn.in_proj.weight", 8, D)
            m.vector(p + "input_layernorm.weight", D, 0)
            continue
        center = 0 if kind == "rms1" else 1
        wq = m.matrix(p + "self_attn.q_proj.weight", H * dh * (2 if gated else 1), D)
        wk = m.matrix(p + "self_attn.k_proj.weight", G * dh, D, 1.5)
        m.matrix(p + "self_attn.v_proj.weight", G * dh, D)
        m.matrix(p + "self_attn.o_proj.weight", D, H * dh)
        bq = m.vector(p + "self_attn.q_proj.bias", H * dh, 0, 2) if bias else None
        bk = m.vector(p + "self_attn.k_proj.bias", G * dh, 0, 3) if bias else None
        norm = Norm(kind, m.vector(p + "input_layernorm.weight", D, center)) if before else None
        if not before:
            m.vector(p + "post_attention_layernorm.weight", D)
        for name in extra:
            m.vector(p + name, D, 0)
        gq = gk = None
        if after:
            gq = m.vector(p + "self_attn.q_norm.weight", H * dh if after == "all" else dh, center)
            gk = m.vector(p + "self_attn.k_norm.weight", G * dh if after == "all" else dh, center)
        for h in range(H):
            g = h * G // H
            at = h * dh * (2 if gated else 1)
            sq, sk = slice(h * dh, (h + 1) * dh), slice(g * dh, (g + 1) * dh)
            nq = nk = None
            if after:
                nq, nk = (Norm(kind, gq[sq]), Norm(kind, gk[sk])) if after == "all" else (Norm(kind, gq), Norm(kind, gk))
            q = Side(wq[at:at + dh], norm, None if bq is None else bq[sq], nq, H * dh if after == "all" else None)
            k = Side(wk[sk], norm, None if bk is None else bk[sk], nk, G * dh if after == "all" else None, "w_k")
            m.head(l, h, [("", q, k, "halves", int(share * dh) // 2 * 2)], scale or dh**-0.5)
    return m


def gpt_neox():
    dh = D // H
    m = Model("gpt_neox", {"model_type": "gpt_neox", "hidden_size": D, "num_hidden_layers": L,
                           "num_attention_heads": H, "rotary_pct": 0.67})
    for l in range(L):
        p = "gpt_neox.layers.%d." % l
        w = m.matrix(p + "attention.query_key_value.weight", 3 * D, D, 2)
        b = m.vector(p + "attention.query_key_value.bias", 3 * D, 0, 1)
        norm = Norm("layer", m.vector(p + "input_layernorm.weight", D), m.vector(p + "input_layernorm.bias", D, 0))
        m.store.put(p + "attention.bias", np.tri(4).reshape(1, 1, 4, 4))
        for h in range(H):
            a = 3 * dh * h
            q = Side(w[a:a + dh], norm, b[a:a + dh])
            k = Side(w[a + dh:a + 2 * dh], norm, b[a + dh:a + 2 * dh], label="w_k")
            m.head(l, h, [("", q, k, "halves", int(0.67 * dh) // 2 * 2)], dh**-0.5)
    return m


def gpt2():
    dh = D // H
    m = Model("gpt2", {"model_type": "gpt2", "n_embd": D, "n_layer": L, "n_head": H,
                       "scale_attn_by_inverse_layer_idx": True}, "F16")
    for l in range(L):
        p = "transformer.h.%d." % l
        w = m.matrix(p + "attn.c_attn.weight", D, 3 * D, 2)
        b = m.vector(p + "attn.c_attn.bias", 3 * D, 0, 1)
        norm = Norm("layer", m.vector(p + "ln_1.weight", D), m.vector(p + "ln_1.bias", D, 0))
        for h in range(H):
            q = Side(w[:, h * dh:(h + 1) * dh].T, norm, b[h * dh:(h + 1) * dh])
            k = Side(w[:, D + h * dh:D + (h + 1) * dh].T, norm, b[D + h * dh:D + (h + 1) * dh], label="w_k")
            m.head(l, h, [("", q, k, None, 0)], dh**-0.5 / (l + 1))
    return m


def bert():
    dh = D // H
    m = Model("bert", {"model_type": "bert", "hidden_size": D, "num_hidden_layers": L, "num_attention_heads": H})
    norm = Norm("layer", m.vector("bert.embeddings.LayerNorm.gamma", D), m.vector("bert.embeddings.LayerNorm.beta", D, 0))
    m.store.put("bert.embeddings.position_ids", np.arange(8).reshape(1, 8), "I64")
    for l in range(L):
        p = "bert.encoder.layer.%d." % l
        wq, wk = (m.matrix(p + "attention.self.%s.weight" % n, D, D, 2) for n in ("query", "key"))
        bq, bk = (m.vector(p + "attention.self.%s.bias" % n, D, 0, 1) for n in ("query", "key"))
        for h in range(H):
            s = slice(h * dh, (h + 1) * dh)
            m.head(l, h, [("", Side(wq[s], norm, bq[s]), Side(wk[s], norm, bk[s], label="w_k"), None, 0)], dh**-0.5)
        norm = Norm("layer", m.vector(p + "output.LayerNorm.gamma", D), m.vector(p + "output.LayerNorm.beta", D, 0))
    return m


def latent(family, q_latent):
    dn, dr, dv, rkv = 6, 4, 5, 8
    rope = {"type": "yarn", "factor": 40, "mscale": 1.0, "mscale_all_dim": 1.0}
    m = Model(family, {"model_type": "deepseek_v3", "hidden_size": D, "num_hidden_layers": L, "num_attention_heads": H,
                       "num_key_value_heads": H, "qk_nope_head_dim": dn, "qk_rope_head_dim": dr, "v_head_dim": dv,
                       "kv_lora_rank": rkv, "q_lora_rank": q_latent or None,
                       "rope_scaling": rope if q_latent else None,
                       "quantization_config": {"weight_block_size": [5, 3]} if q_latent else None})
    put = (lambda n, r, c: m.store.put_blocks(n, rng.normal(size=(r, c)) / np.sqrt(c), (5, 3))) if q_latent else m.matrix
    scale = (dn + dr) ** -0.5 * ((0.1 * np.log(40) + 1) ** 2 if q_latent else 1)
    for l in range(L):
        p = "model.layers.%d." % l
        a = p + "self_attn."
        x = Norm("rms", m.vector(p + "input_layernorm.weight", D))
        cq = x
        if q_latent:
            put(a + "q_a_proj.weight", q_latent, D)
            cq = Norm("rms", m.vector(a + "q_a_layernorm.weight", q_latent))
        wq = put(a + ("q_b_proj.weight" if q_latent else "q_proj.weight"), H * (dn + dr), q_latent or D)
        kva = put(a + "kv_a_proj_with_mqa.weight", rkv + dr, D)
        ckv = Norm("rms", m.vector(a + "kv_a_layernorm.weight", rkv))
        kvb = put(a + "kv_b_proj.weight", H * (dn + dv), rkv)
        for e in range(3 if l and q_latent else 0):
            for n in ("gate", "up"):
                put(p + "mlp.experts.%d.%s_proj.weight" % (e, n), 7, D)
        for h in range(H):
            q, k = h * (dn + dr), h * (dn + dv)
            m.head(l, h, [("content", Side(wq[q:q + dn], cq, label="w_qc"), Side(kvb[k:k + dn], ckv, label="w_kc"), None, 0),
                          ("rotary", Side(wq[q + dn:q + dn + dr], cq, label="w_qr"),
                           Side(kva[rkv:], x, label="w_kr"), "interleaved", dr)], scale)
    return m


def main():
    folder = sys.argv[1]
    separate("llama", dtype="BF16").save(folder)
    separate("qwen2", bias=True).save(folder)
    separate("qwen3", after="head").save(folder)
    separate("qwen3_next", kind="rms1", after="head", gated=True, dh=8, share=0.25, skip=(0,),
             config={"partial_rotary_factor": 0.25}).save(folder)
    separate("gemma2", kind="rms1", scale=20**-0.5, extra=("pre_feedforward_layernorm.weight",),
             config={"query_pre_attn_scalar": 20, "attn_logit_softcapping": 50.0}).save(folder)
    inner = separate("gemma3", kind="rms1", after="head", scale=10**-0.5, prefix="language_model.model.",
                     extra=("pre_feedforward_layernorm.weight",), config={"query_pre_attn_scalar": 10})
    inner.config = {"model_type": "gemma3", "text_config": dict(inner.config, model_type="gemma3_text")}
    inner.matrix("vision_tower.encoder.layers.0.self_attn.q_proj.weight", 3, 3)
    inner.save(folder)
    separate("olmo2", before=False, after="all").save(folder)
    gpt_neox().save(folder)
    gpt2().save(folder)
    bert().save(folder)
    latent("deepseek_v3", 9).save(folder, shards=3)
    latent("moonlight", 0).save(folder)


main()
