# equal-loss.gp - Muon's max logit over Adam's where their losses are equal, a panel a loss, by the rates of either
# Called by run.sh with cells (a block a loss: x y ratio state, 2: decided, 1: not, 0: too few pairs), rates, levels, seeds_are,
# term, out and style.
width = 1180; height = 480
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [1]; array seeds[1] = [1]
load style
set palette defined (-3 "#A33C00", -1.5 "#E8955A", 0 "#F4F4F2", 1.5 "#6FA8D6", 3 "#00518A")
set cbrange [-3:3]
set cbtics ("≤ 1/8" -3, "1/4" -2, "1/2" -1, "1" 0, "2" 1, "4" 2, "≥ 8" 3) scale 0.4 font ",11"
n = words(rates)
short(i) = sprintf("%.2g", real(word(rates, i)))
digits(z) = z >= 100 ? sprintf("%.0f", z) : z >= 10 ? sprintf("%.1f", z) : sprintf("%.2g", z)
dark(z) = z > 0 && abs(log(z) / log(2)) > 1.7
set multiplot
set label 100 "{/:Bold At the same validation loss the rates decide whose max logit is the higher}" at screen 0.03,0.95 font ",17" tc rgb ink
set label 101 "Muon's over Adam's, each run at the step where its loss first is so low. Median over ".seeds_are.". Colored: its 95 % interval excludes 1" \
    at screen 0.03,0.895 font ",11" tc rgb soft
set label 102 "(blue: Muon's is the higher). Hatched: undecided. Empty: fewer than six pairs get there. 2 layers, 4 heads, width 64, context 32, built-in chain." \
    at screen 0.03,0.855 font ",11" tc rgb soft
unset grid
set border 15 lw 0.8
set xrange [-0.5:n-0.5]; set yrange [-0.5:n-0.5]
set xtics () scale 0 font ",11"; do for [i=1:n] { set xtics add (short(i) i-1) }
set tmargin at screen 0.74; set bmargin at screen 0.15
set xlabel "Adam's rate" offset 0,0.3
m = words(levels) < 3 ? words(levels) : 3 # those that most runs reach
do for [p=1:m] {
  set lmargin at screen 0.09 + 0.28 * (p - 1); set rmargin at screen 0.09 + 0.28 * (p - 1) + 0.26
  set ytics () scale 0 font ",11"
  do for [i=1:n] { set ytics add (p == 1 ? short(i) : "" i-1) }
  if (p == 1) { set ylabel "Muon's rate" offset 0.3,0 } else { unset ylabel }
  set label 1 "loss ".word(levels, p) at graph 0,1.06 font ",13" tc rgb ink
  if (p == m) { set colorbox user origin 0.93,0.15 size 0.012,0.59 noborder } else { unset colorbox }
  set style fill solid border lc rgb "white"
  plot cells index p-1 using ($4 == 2 ? $1 : NaN):2:(0.5):(0.5):($3 > 0 ? log($3) / log(2) : NaN) with boxxyerror fc palette notitle, \
       cells index p-1 using ($4 == 1 ? $1 : NaN):2:(0.5):(0.5) with boxxyerror fill pattern 4 fc rgb "#C8C8C8" notitle, \
       cells index p-1 using ($4 > 0 ? $1 : NaN):2:($4 == 2 ? "{/:Bold ".digits($3)."}" : digits($3)):($4 == 2 && dark($3) ? 0xFFFFFF : $4 == 2 ? 0x111111 : 0x555555) \
         with labels font ",13" tc rgb variable notitle
  unset label 100; unset label 101; unset label 102
}
unset multiplot
set output
