#!/usr/bin/env python3
# make_statistics.py > statistics.txt: values that tests/check_statistics.c compares with, by SciPy; times by lifelines.
# A line: what, list of numbers, list of numbers (or -), results. The numbers come out of a fixed generator.
import numpy as np, scipy, lifelines, warnings
from lifelines.utils import median_survival_times
from scipy import stats
from scipy.optimize import brentq
from datetime import date
r = np.random.default_rng(20260301)
every = stats.PermutationMethod(n_resamples=np.inf) # all of them: exact with ties, too
text = lambda v: ','.join('%.17g' % float(x) for x in v) if len(v) else '-'
def line(what, x, y, *results): print(what, text(x), text(y), text(results), sep='\t')
print('# by make_statistics.py, SciPy %s, NumPy %s, lifelines %s, %s' % (scipy.__version__, np.__version__, lifelines.__version__, date.today()))
samples = [r.normal(1, 2, n) for n in (2, 3, 5, 8, 13, 24)] + [r.lognormal(0, 1, n) for n in (4, 9, 20)]
for x in samples:
    n, m, s = len(x), np.mean(x), stats.sem(x)
    for level in (0.9, 0.95): line('interval', x, [level], m, *stats.t.interval(level, n - 1, m, s))
    line('mad', x, [], stats.median_abs_deviation(x, scale='normal'))
    if n >= 8: # of fewer the edges are those of few different means
        b = stats.bootstrap((x,), np.mean, n_resamples=400000, method='BCa', vectorized=True, batch=20000, random_state=r)
        line('bootstrap', x, [0.95], np.mean(x), *b.confidence_interval)
    if n >= 3:
        margin = abs(m) + s * 1.5
        both = max(stats.ttest_1samp(x, -margin, alternative='greater').pvalue, stats.ttest_1samp(x, margin, alternative='less').pvalue)
        line('equivalence', x, [margin], both); line('equivalence', -x, [margin], both)
        t = stats.t.ppf(0.975, n - 1) # the exact one: power over the distribution of the deviation
        power = lambda d: stats.chi2(n - 1).expect(lambda v: stats.norm.sf(t * np.sqrt(v / (n - 1)) - d)) - 0.8
        line('detectable', x, [], s * brentq(power, 0.1, 30))
    line('zero_mean', x, [], stats.ttest_1samp(x, 0).pvalue); line('zero_mean', -x, [], stats.ttest_1samp(x, 0).pvalue)
    line('signed_rank', x, [], np.sum(stats.rankdata(abs(x))[x > 0]), stats.wilcoxon(x, method='exact').pvalue)
for x, y in [(samples[1], samples[2]), (samples[3], samples[4]), (samples[5], samples[6]), (samples[4], samples[8]), (samples[1], samples[1] + 50)]:
    t = stats.mannwhitneyu(x, y, method='exact')
    line('rank_sum', x, y, t.statistic, t.pvalue)
tied = np.round(samples[5] * 2) / 2; other = np.round(samples[8] * 2) / 2
t = stats.mannwhitneyu(tied, other, method='asymptotic', use_continuity=True)
line('rank_sum', tied, other, t.statistic, t.pvalue)
d = np.round(samples[5])[:16]; kept = d[d != 0]
line('signed_rank', d, [], np.sum(stats.rankdata(abs(kept))[kept > 0]), stats.wilcoxon(kept, method=every).pvalue)
for n in (3, 6, 15):
    x = r.uniform(1, 100, n); y = 3 * x ** 1.7 * r.lognormal(0, 0.3, n)
    f = stats.linregress(np.log(x), np.log(y)); half = stats.t.ppf(0.975, n - 2) * f.stderr
    line('slope', x, y, f.slope, f.slope - half, f.slope + half, np.exp(f.intercept))
warnings.simplefilter('ignore') # lifelines' logarithm of zero, where a curve ends
def survival(time, late):
    curve = lifelines.KaplanMeierFitter().fit(time, 1 - late)
    low, high = median_survival_times(curve.confidence_interval_).values[0]
    line('survival', time, late, len(time) - sum(late), curve.median_survival_time_, low, high)
for n, share in ((5, 0), (12, 0.3), (20, 0.5), (9, 0.8), (30, 0.1)):
    time = np.round(r.exponential(100, n))
    survival(time, (r.uniform(size=n) < share).astype(int))
p = np.array([0.01, 0.04, 0.03, 0.005, 0.6])
order = np.argsort(p); adjusted = np.empty(5)
adjusted[order] = np.minimum(1, np.maximum.accumulate((5 - np.arange(5)) * p[order]))
line('holm', p, [], *adjusted)
line('false_discovery', p, [], *stats.false_discovery_control(p))
for x in ([0.5] * 5, [1, 1, 2, -1, 3], [-3, -2, -2, -1, -1, -1, -4, -4], [2, -1, 2, 1, -1, 1, 0.5, 3, -0.5, 2, 2, 1]):
    x = np.array(x)
    line('signed_rank', x, [], np.sum(stats.rankdata(abs(x))[x > 0]), stats.wilcoxon(x, method=every).pvalue)
x = np.round(np.random.default_rng(20261122).normal(0.4, 2, 64)) + 0.25 # too many to count all
line('signed_rank', x, [], np.sum(stats.rankdata(abs(x))[x > 0]), stats.wilcoxon(x, method='asymptotic', correction=True).pvalue)
more = np.random.default_rng(20261124) # every run has passed the level; where a curve is exactly a half lifelines goes by its rounding: not here
for time, late in [(more.exponential(100, n).round(), np.zeros(n, int)) for n in (3, 7, 9)] + \
    [(np.array([5, 5, 9, 9, 20, 31.]), np.zeros(6, int)), (np.array([3, 4, 4, 7, 8, 12, 15.]), np.array([0, 1, 0, 0, 1, 0, 0]))]:
    survival(time, late)
p = np.array([0.001, 0.2, 0.019, 0.03, 0.9, 0.012, 0.03])
line('false_discovery', p, [], *stats.false_discovery_control(p))
for n, k in ((6, 0), (12, 1), (24, 6), (23, 5)): line('sign', [n], [k], stats.binomtest(k, n, alternative='less').pvalue)
