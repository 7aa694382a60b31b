# calls.awk - rules about the order of the calls that calls.c has recorded: THREAD PROCESS PARENT CALL PATH
# [OTHER]. "0 0 0 there PATH": a file from before. overwrite=1: the checkpoints of the run that is replaced go first.
function complain(what) { print FILENAME ":" FNR ": " what ": " $0; bad = 1 }
function folder(path) { sub(/\/[^\/]*$/, "", path); return path }
# RUN of RUN.h5, RUN.journal, RUN.ckpt/step-1.h5 and what is on its way to one of them; "" of any other file
function run_of(path) { return match(path, /\.(h5|journal|ckpt)([.\/]|$)/) ? substr(path, 1, RSTART - 1) : "" }
function is_temporary(path) { return path ~ /\.[0-9a-f]+\.tmp$/ }
function is_checkpoint(path) { return path ~ /\.ckpt\/step-[0-9]+\.h5$/ }
# A lock is a process's, or its parent's, where a child of it writes.
function holds(lock) { return lock in holder && (holder[lock] == $2 || holder[lock] == $3) }
# The run that takes the place of another is written under the lock of either.
function is_held(run,  of) { of = run; sub(/\.rerun$/, "", of); return holds(run ".lock") || holds(of ".lock") }
function check_lock(path) { if (run_of(path) != "" && !is_held(run_of(path))) complain("without the lock of the run") }

{ calls++ }
$4 != "close" && $4 != "sync" && $4 != "share" && $1 in unsettled { complain("before the folder of " unsettled[$1] " was synced"); delete unsettled[$1] }
$4 == "there" { there[$5] = 1; next }
$4 == "empty" { complain("a file that is there was emptied") }
$4 == "lock" && $5 ~ /\.lock$/ { holder[$5] = $2 }
$4 == "make" || $4 == "write" || $4 == "cut" {
  unsynced[$5] = 1
  if ($5 ~ /\.h5$/) complain("written in place")
  check_lock($5)
}
# rows follow a snapshot; those of a checkpoint are in one, or have been synced
$4 == "write" && $5 ~ /\.journal$/ && !(run_of($5) ".h5" in there) { complain("rows before the run file") }
# what follows a cut is its first line and the columns
$4 == "write" && $5 ~ /\.journal$/ { if ($5 in begun) delete begun[$5]; else appended[$5] = 1 }
$4 == "cut" { begun[$5] = 1 }
$4 == "cut" || $4 == "sync" || $4 == "remove" { delete appended[$5] }
$4 == "sync" { delete unsynced[$5]; if ($1 in unsettled && folder(unsettled[$1]) == $5) delete unsettled[$1] }
$4 == "rename" {
  renames++
  if ($5 in unsynced) complain("before it was synced")
  check_lock($5); check_lock($6)
  if (is_checkpoint($6) && !(run_of($6) ".h5" in there)) complain("before its run file")
  if (is_checkpoint($6) && run_of($6) ".journal" in appended) complain("before its rows were synced")
  delete there[$5]; there[$6] = 1; unsettled[$1] = $6; placed[$6] = NR
}
$4 == "remove" {
  check_lock($5)
  if ($5 ~ /\.lock$/ && !holds($5)) complain("a lock that it does not hold")
  if (is_checkpoint($5) && !overwrite && run_of($5) !~ /\.rerun$/) {
    others = 0
    for (path in there) others += path > $5 && is_checkpoint(path) && run_of(path) == run_of($5)
    if (!others) complain("no newer one is there")
  }
  # a repetition goes when its run has been replaced
  again = $5; sub(/\.rerun\.h5$/, ".h5", again)
  if (again != $5 && placed[again] > placed[$5]) delete there[$5]
  if ($5 in there && !is_checkpoint($5) && !is_temporary($5) && (!overwrite || $5 ~ /\.h5$/)) complain("nothing has taken its place")
  delete there[$5]
}
($4 == "close" || $4 == "remove") && $5 in holder && holder[$5] == $2 { delete holder[$5] }
END {
  for (thread in unsettled) { print FILENAME ": the folder of " unsettled[thread] " was never synced"; bad = 1 }
  if (!renames || calls < 5) { print FILENAME ": " calls + 0 " calls, nothing was renamed"; bad = 1 }
  exit bad
}
