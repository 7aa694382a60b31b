# spread.gp - heights for labels at the ends of curves
# In: end[i], i = 1..ends, the height of each curve's end (axis units; log10 of them on a log axis), gap,
# low_end and high_end. Out: at[i], near end[i], in the same order, no two nearer than gap, inside [low_end, high_end].
array at[ends]
array order[ends]
do for [i=1:ends] { order[i] = i }
do for [i=2:ends] {
  do for [k=i:2:-1] {
    below = order[k-1]; above = order[k]
    if (end[above] < end[below]) { order[k-1] = above; order[k] = below }
  }
}
do for [i=1:ends] { at[i] = clamp(end[i], low_end, high_end) }
do for [turn=1:200] {
  do for [i=2:ends] {
    below = order[i-1]; above = order[i]
    lack = gap - (at[above] - at[below])
    if (lack > 0) { at[above] = at[above] + lack / 2; at[below] = at[below] - lack / 2 }
  }
  if (at[order[1]] < low_end) { at[order[1]] = low_end }
  if (at[order[ends]] > high_end) { at[order[ends]] = high_end }
}
