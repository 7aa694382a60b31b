# figure.gp - the largest logit of any head by step: a line a run, a color a model, models named in the order of the peak
# Called by run.sh with curves (a block a run), files (the model of each block), order (models by peak), term, out, style.
width = 1040; height = 560
groups = 1
array kind[1] = ["muon"]; array rest[1] = [""]; array note[1] = [""]; array clipped[1] = [0]; array seeds[1] = [1]
load style
title_of(m) = m eq "kimi_k2" ? "Kimi K2: Muon, QK-Clip" : m eq "deepseek_v3" ? "DeepSeek-V3: AdamW" : \
              m eq "moonlight" ? "Moonlight: Muon" : m eq "gemma2" ? "Gemma 2: AdamW, soft cap" : \
              m eq "qwen3" ? "Qwen3: AdamW, QK-Norm" : m eq "glm5" ? "GLM-5: Muon by heads" : m
color_of(m) = m eq "kimi_k2" ? 0x0072B2 : m eq "deepseek_v3" ? 0xD55E00 : m eq "moonlight" ? 0x56B4E9 : \
               m eq "gemma2" ? 0xE69F00 : m eq "qwen3" ? 0x009E73 : m eq "glm5" ? 0xCC79A7 : 0x222222
set label 100 "{/:Bold Small twins of six models: three pass 150, three are held below or near 100}" at screen 0.035,0.955 font ",16" tc rgb ink
set label 101 "Softmax input before any cap, largest of all heads; one line per seed. Learning rate 0.03, 300 steps; the rest by preset." \
    at screen 0.035,0.905 font ",11" tc rgb soft
set tmargin at screen 0.85; set bmargin at screen 0.12; set lmargin at screen 0.10; set rmargin at screen 0.66
set logscale y; set xlabel "training step" offset 0,0.3; set ylabel "max logit  (log scale)" offset 1,0
set key at screen 0.70,0.85 left top vertical Left reverse samplen 1.5 spacing 1.3
set ytics (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000)
set label 1 "100" at graph 1, first 100 offset 0.6,0 left font ",11" tc rgb soft
set arrow 1 from graph 0, first 100 to graph 1, first 100 nohead dt (8,6) lw 0.8 lc rgb soft
plot for [b=1:words(files)] curves index b-1 using 1:2 with lines lw 1.2 lc rgb color_of(word(files, b)) notitle, \
     for [g=1:words(order)] NaN with lines lw 2.5 lc rgb color_of(word(order, g)) title title_of(word(order, g))
