# figure.gp - the explosion: every head on a linear axis; all arms on a double logarithmic one; their exponents
# Called by run.sh with heads (a block for Muon, Adam and MuonClip: step and the heads of one run), curves (an arm a block: step,
# geometric mean over seeds, lowest, highest), arms (their names), exponents (arm, exponent, interval), steps, term, out, style.
width = 1280; height = 560
groups = 2
array kind[2] = ["adam", "muon"]; array rest[2] = ["", ""]; array note[2] = ["", ""]; array clipped[2] = [1, 1]; array seeds[2] = [1, 1]
load style
set multiplot
N = int(steps)
set label 100 "{/:Bold Without weight decay Muon's max logits grow like t, Adam's like √t}" at screen 0.03,0.945 font ",17" tc rgb ink
set label 101 "Copy task, 2 layers, 4 heads, width 64, constant rate; updates of one size (RMS). Largest logit on the probe batch. Bands, bars: lowest to highest seed." \
    at screen 0.03,0.89 font ",10.5" tc rgb soft
set tmargin at screen 0.79; set bmargin at screen 0.14
hue(a) = a eq "adam" ? 0xD55E00 : a eq "muon" ? 0x0072B2 : a eq "muonclip" ? 0x56B4E9 : a eq "polargrad" ? 0x009E73 : \
         a eq "normuon" ? 0xCC79A7 : a eq "lion" ? 0x8C6D31 : a eq "soap" ? 0x7A5195 : 0x555555
title_of(a) = a eq "adam" ? "Adam" : a eq "muon" ? "Muon" : a eq "muonclip" ? "MuonClip, tau 30" : a eq "polargrad" ? "PolarGrad" : \
         a eq "normuon" ? "NorMuon" : a eq "lion" ? "Lion" : a eq "soap" ? "SOAP" : a

set lmargin at screen 0.05; set rmargin at screen 0.31
set label 1 "every head of one run, max logit  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set xrange [0:N]; set yrange [0:*]; set xlabel "training step"; set xtics 0, N / 4
set key at graph 0.03,0.97 left top Left reverse samplen 1.5 spacing 1.15 font ",11"
plot for [b=0:2] for [c=2:9] heads index b using 1:c with lines lw 1.1 lc rgb hue(word("muon adam muonclip", b + 1)) \
    title (c == 2 ? title_of(word("muon adam muonclip", b + 1)) : "")
unset label 100; unset label 101; unset key

set lmargin at screen 0.37; set rmargin at screen 0.63
set label 1 "largest head, mean over seeds  [nat]" at graph 0,1.05 font ",13" tc rgb ink
set logscale xy; set xrange [N / 90.0 : N]; set yrange [*:*]
set xtics (10, 30, 100, 300, 1000, 3000, 10000); set ytics (3, 10, 30, 100, 300, 1000, 3000)
set key at graph 0.03,0.98 left top Left reverse samplen 1.5 spacing 1.05 font ",10"
plot for [i=1:words(arms)] curves index i-1 using 1:3:4 with filledcurves fc rgb hue(word(arms, i)) + 0xDD000000 notitle, \
     for [i=1:words(arms)] curves index i-1 using 1:2 with lines lw 1.8 lc rgb hue(word(arms, i)) title title_of(word(arms, i))
unset logscale; unset key

set lmargin at screen 0.785; set rmargin at screen 0.975
set label 1 "exponent of growth, last nine tenths" at graph -0.45,1.05 font ",13" tc rgb ink
stats exponents using 2 nooutput
rows = STATS_records
name_of(a) = (p = strstrt(a, "-"), base = p ? a[1:p-1] : a, tail = p ? a[p+1:*] : "", \
  (base eq "muonclip" ? "MuonClip" : title_of(base)).(tail eq "" ? "" : tail eq "noise" ? ", 10 % noise" : tail eq "decay" ? ", decay 0.1" : \
   tail eq "decay-0.01" ? ", decay 0.01" : tail eq "tuned" ? ", best rate" : ", ".tail))
set yrange [rows + 0.5 : 0.5]; set xrange [-0.2:2.6]; set xlabel "d ln S / d ln t"; set xtics 0.5
set ytics () ; unset grid; set grid x lc rgb faint lw 0.7
set arrow 1 from 1, graph 0 to 1, graph 1 nohead lc rgb soft dt 11 lw 1
set arrow 2 from 0.5, graph 0 to 0.5, graph 1 nohead lc rgb soft dt 11 lw 1
base_of(a) = (p = strstrt(a, "-"), p ? a[1:p-1] : a)
plot exponents using 2:($0 + 1):3:4:ytic(name_of(strcol(1))) with xerrorbars pt 7 ps 0.8 lw 1.3 lc rgb ink notitle, \
     exponents using 2:($0 + 1):(hue(base_of(strcol(1)))) with points pt 7 ps 1.1 lc rgb variable notitle
unset multiplot
set output
