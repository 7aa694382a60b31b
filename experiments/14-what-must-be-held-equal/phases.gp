# phases.gp - Muon's max logit over Adam's in the plane of rate and decay: a column a thing held equal, a row a horizon
# Called by run.sh with cells (x y ratio decided, a block a panel; ratio 0: none), edges (x y dx dy, likewise: where the
# ratio of decided cells passes 1), rates, decays (their values), horizons ("150 300 600"), seeds_are, term, out and style.
width = 1180; height = 1000
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style
set palette defined (-3 "#A33C00", -1.5 "#E8955A", 0 "#F4F4F2", 1.5 "#6FA8D6", 3 "#00518A")
set cbrange [-3:3]
set cbtics ("≤ 1/8" -3, "1/4" -2, "1/2" -1, "1" 0, "2" 1, "4" 2, "≥ 8" 3) scale 0.4 font ",11"
nx = words(rates); ny = words(decays)
held(c) = c == 1 ? "the rate alone" : c == 2 ? "the update's RMS" : "the update's spectral norm"
digits(z) = z >= 100 ? sprintf("%.0f", z) : z >= 10 ? sprintf("%.1f", z) : sprintf("%.2g", z)
dark(z) = z > 0 && abs(log(z) / log(2)) > 1.7
text(z, sure) = !(z > 0) ? "" : sure ? "{/:Bold ".digits(z)."}" : digits(z)
left(c) = 0.075 + 0.285 * (c - 1)
top(r) = 0.875 - 0.29 * (r - 1)
tall = 0.235
set multiplot
set label 100 "{/:Bold Max logit of Muon over Adam's, by what is held equal}" at screen 0.03,0.975 font ",17" tc rgb ink
set label 101 sprintf("Geometric mean over %s. Colored: the 95 %% interval excludes 1 (blue: Muon's is the higher, orange: Adam's). Hatched: undecided.", seeds_are) \
    at screen 0.03,0.947 font ",11" tc rgb soft
set label 102 "Black line: between decided cells, where one passes the other; ×: a run of every pair diverged. 2 layers, 4 heads, width 64, context 32." \
    at screen 0.03,0.928 font ",11" tc rgb soft
unset grid
set border 15 lw 0.8
set xrange [-0.5:nx-0.5]; set yrange [-0.5:ny-0.5]
set xtics () scale 0 font ",11"; do for [i=1:nx] { set xtics add (word(rates, i) i-1) }
set style fill solid border lc rgb "white"
do for [r=1:3] { do for [c=1:3] {
  p = (r - 1) * 3 + c
  set lmargin at screen left(c); set rmargin at screen left(c) + 0.255
  set tmargin at screen top(r); set bmargin at screen top(r) - tall
  set ytics () scale 0 font ",11"
  do for [i=1:ny] { set ytics add (c == 1 ? word(decays, i) : "" i-1) }
  if (c == 1) { set ylabel sprintf("%s steps\nweight decay", word(horizons, r)) offset 0.3,0 } else { unset ylabel }
  if (r == 3) { set xlabel "learning rate" offset 0,0.3 } else { unset xlabel }
  if (r == 1) { set label 1 "equal: ".held(c) at graph 0,1.06 font ",13" tc rgb ink } else { unset label 1 }
  if (p == 3) { # one for all
    set colorbox user origin 0.928,top(3) - tall size 0.012,top(1) - top(3) + tall noborder
  } else { unset colorbox }
  plot cells index p-1 using ($4 == 1 ? $1 : NaN):2:(0.5):(0.5):($3 > 0 ? log($3) / log(2) : NaN) with boxxyerror fc palette notitle, \
       cells index p-1 using ($3 > 0 && $4 != 1 ? $1 : NaN):2:(0.5):(0.5) with boxxyerror fill pattern 4 fc rgb "#C8C8C8" notitle, \
       cells index p-1 using 1:2:(text($3, $4 == 1)):($4 != 1 ? 0x555555 : dark($3) ? 0xFFFFFF : 0x111111) \
         with labels font ",12" tc rgb variable notitle, \
       cells index p-1 using 1:2:($3 > 0 ? "" : "×") with labels font ",15" tc rgb soft notitle, \
       edges index p-1 using 1:2:3:4 with vectors nohead lw 3 lc rgb ink notitle
  unset label 100; unset label 101; unset label 102
} }
unset multiplot
set output
