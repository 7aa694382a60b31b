# spread.gp - heights for labels at the ends of curves
# In: end[i], i = 1..ends, the height of each curve's end (axis units; log10 of them on a log axis), gap,
# bottom and top. Out: at[i], near end[i], in the same order, no two nearer than gap, inside [bottom, top].
array at[ends]
array order[ends]
do for [i=1:ends] { order[i] = i }
do for [i=2:ends] {
  do for [k=i:2:-1] {
    below = order[k-1]; above = order[k]
    if (end[above] < end[below]) { order[k-1] = above; order[k] = below }
  }
}
do for [i=1:ends] { at[i] = clamp(end[i], bottom, top) }
do for [turn=1:200] {
  do for [i=2:ends] {
    below = order[i-1]; above = order[i]
    lack = gap - (at[above] - at[below])
    if (lack > 0) { at[above] = at[above] + lack / 2; at[below] = at[below] - lack / 2 }
  }
  if (at[order[1]] < bottom) { at[order[1]] = bottom }
  if (at[order[ends]] > top) { at[order[ends]] = top }
}
