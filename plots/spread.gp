# spread.gp - heights for labels at the ends of curves
# In: last[g], the end of each curve (axis units; log10 of them on a log axis), gap, bottom and top.
# Out: at[g], near last[g], in the same order, no two nearer than gap, inside [bottom, top].
array at[groups]
array order[groups]
do for [g=1:groups] { order[g] = g }
do for [i=2:groups] {
  do for [k=i:2:-1] {
    below = order[k-1]; above = order[k]
    if (last[above] < last[below]) { order[k-1] = above; order[k] = below }
  }
}
do for [g=1:groups] { at[g] = last[g] < bottom ? bottom : last[g] > top ? top : last[g] }
do for [turn=1:200] {
  do for [i=2:groups] {
    below = order[i-1]; above = order[i]
    lack = gap - (at[above] - at[below])
    if (lack > 0) { at[above] = at[above] + lack / 2; at[below] = at[below] - lack / 2 }
  }
  if (at[order[1]] < bottom) { at[order[1]] = bottom }
  if (at[order[groups]] > top) { at[order[groups]] = top }
}
