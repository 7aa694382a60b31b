# clip.gp - the tug of war: how often QK-Clip acts, and what the logits do, with weight decay and without
# Called by run.sh with clips (a block a regime: step, share of heads and steps with a clip), regimes (a block for MuonClip, MuonClip
# with decay, Muon, Muon with decay: step, geometric mean over seeds, lowest, highest), steps, term, out, style.
width = 1000; height = 460
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
set multiplot
N = int(steps)
set label 100 "{/:Bold QK-Clip acts until the end; with weight decay less often}" at screen 0.03,0.94 font ",17" tc rgb ink
set label 101 "The copy task under Muon with QK-Clip, tau 30. Bands: lowest to highest seed; left: mean over seeds, heads and 1/40 of the run." \
    at screen 0.03,0.88 font ",10.5" tc rgb soft
set tmargin at screen 0.77; set bmargin at screen 0.15
array hue[2] = [0x0072B2, 0x009E73]
line(b) = b < 2 ? 1 : 11
array who[2] = ["no decay", "decay 0.1"]
set lmargin at screen 0.07; set rmargin at screen 0.48
set label 1 "share of heads and steps that are clipped" at graph 0,1.05 font ",13" tc rgb ink
set xrange [0:N]; set yrange [0:*]; set offsets graph 0, 0, graph 0.35, 0; set xlabel "training step"; set xtics 0, N / 4
set key at graph 0.03,0.97 left top Left reverse samplen 2 font ",11"
plot for [b=0:1] clips index b using 1:2 with lines lw 1.8 lc rgb hue[b + 1] title who[b + 1]
unset label 100; unset label 101; set offsets
set lmargin at screen 0.565; set rmargin at screen 0.965
set label 1 "max logit  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set logscale y; set yrange [*:2000]; set ytics (2, 5, 10, 20, 30, 50, 100, 200, 300, 500, 1000)
set key at graph 0.03,0.97 left top Left reverse samplen 2 font ",11"
plot for [b=0:3] regimes index b using 1:3:4 with filledcurves fc rgb hue[b % 2 + 1] + 0xDD000000 notitle, \
     for [b=0:3] regimes index b using 1:2 with lines lw 1.6 dt line(b) lc rgb hue[b % 2 + 1] \
       title (b < 2 ? "QK-Clip, " : "no clip, ").who[b % 2 + 1]
unset multiplot
set output
