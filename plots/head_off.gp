# head_off.gp - the head is drawn once, with the first of several panels
unset for [k=100:139] label k
if (legend) { do for [g=1:groups] { unset label 150+g; unset arrow 150+g } }
