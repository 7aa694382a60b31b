# heads.awk - what a run's export says of each head: growth of its logits, and what may have made it
# In: one run's `maxlogit export` of the series in run.sh. Set: name (SET-OPTIMIZER), rate, seed, decay, from (step that growth
# is measured from), span (steps that a logarithm is meaned over). Out, a line a head: set optimizer rate seed layer head last(1|0)
# y ySigned drive gain rates rms norm path drive+gain forward(drive without decay) lnSigma lnGain lnLogit lnBound lnRotated
function value(name) { return (name in at) ? $(at[name]) : "NaN" }
function known(x) { return x != "NaN" && x == x + 0 }
function log_of(x) { return log(x > 1e-3 ? x : 1e-3) }
/^# step/ {
  for (i = 3; i <= NF; i++) {
    at[$i] = i - 1
    if ($i ~ /^probe\/max_logit:/) { head[++heads] = substr($i, 17) }
  }
  next
}
/^#/ { next }
{
  last_step = $1 > last_step ? $1 : last_step
  row[++rows] = $0
}
END {
  for (r = 1; r <= rows; r++) { # spectra: when, and how many steps each stands for
    $0 = row[r]
    if (known(value("drive/gain:" head[1]))) when[++n] = $1
  }
  for (i = 1; i <= n; i++) steps_of[when[i]] = (i < n ? when[i + 1] : last_step) - when[i]
  for (r = 1; r <= rows; r++) {
    $0 = row[r]
    if (known(value("lr"))) lr = value("lr") # rows of spectra may be others
    early = $1 > from - span && $1 <= from; late = $1 > last_step - span
    for (i = 1; i <= heads; i++) {
      h = head[i]; split(h, part, /[lh]/); q = "blocks." part[2] ".attn.w_q"; k = "blocks." part[2] ".attn.w_k"
      if ((early || late) && known(value("probe/max_logit:" h))) {
        count[h, late]++
        large[h, late] += log_of(value("probe/max_abs_logit:" h)); signed[h, late] += log_of(value("probe/max_logit:" h))
      }
      if (part[2] > top) top = part[2]
      tight = value("attn/bound_tightness:" h)
      if ((early || late) && known(tight) && tight != 0) {
        ratio = value("attn/max_logit:" h) / tight / (value("head_q/spectral_norm:" h) * value("head_k/spectral_norm:" h))
        if (ratio > 0) { looks[h, late]++; gain[h, late] += log(ratio); sigma[h, late] += log(value("head_qk/spectral_norm:" h))
          bound[h, late] += log(value("head_q/spectral_norm:" h) * value("head_k/spectral_norm:" h)); rotated[h, late] += log(value("head_qk/rotated_norm:" h)) }
      }
      if ($1 >= from && ($1 in steps_of) && known(value("drive/gain:" h))) {
        d = steps_of[$1]; s = value("head_qk/spectral_norm:" h)
        forward[h] += value("drive/gain:" h) / s * d; path[h] += value("drive/norm:" h) / s * d
        decayed[h] += 2 * lr * decay * d; rates[h] += lr * d
        rms[h] += lr * d * (value("update/frobenius_norm:" q) / value("weight/frobenius_norm:" q) + value("update/frobenius_norm:" k) / value("weight/frobenius_norm:" k))
        norm[h] += lr * d * (value("update/spectral_norm:" q) / value("weight/spectral_norm:" q) + value("update/spectral_norm:" k) / value("weight/spectral_norm:" k))
      }
    }
  }
  dash = index(name, "-")
  for (i = 1; i <= heads; i++) {
    h = head[i]; split(h, part, /[lh]/)
    if (!count[h, 0] || !count[h, 1] || !looks[h, 0] || !looks[h, 1]) continue
    y = large[h, 1] / count[h, 1] - large[h, 0] / count[h, 0]
    g = gain[h, 1] / looks[h, 1] - gain[h, 0] / looks[h, 0]
    drive = forward[h] - decayed[h]
    print substr(name, 1, dash - 1), substr(name, dash + 1), rate, seed, part[2], part[3], part[2] == top, y,
      signed[h, 1] / count[h, 1] - signed[h, 0] / count[h, 0], drive, g, rates[h] + 0, rms[h] + 0, norm[h] + 0, path[h] + 0, drive + g, forward[h] + 0,
      sigma[h, 1] / looks[h, 1], gain[h, 1] / looks[h, 1], large[h, 1] / count[h, 1],
      bound[h, 1] / looks[h, 1], rotated[h, 1] / looks[h, 1]
  }
}
