# shellcheck shell=sh disable=SC2034 # sourced by the experiments' run.sh, which use what is set here
# lib.sh - what the experiments share: their command line, the sweep, the runs' parameters, figures, keeping
#
#   run.sh [--keep] [TEXT [DIR]]
#
# TEXT: what to train on (default demo/kjv.txt, which `./bootstrap demo` leaves). DIR: runs, table.txt and figures
# (default: the experiment's name); runs that are done are not repeated. An experiment that sets builtin=1 has no TEXT. --keep: also replace the figures beside
# run.sh and the table in its README.md. MAXLOGIT names the program (default ./maxlogit), JOBS the runs at a time
# (default 1), KEYS further key=value of all runs (to try a script on small ones).
set -eu
here=$(cd "$(dirname "$0")" && pwd)
name=$(basename "$here" | sed 's/^[0-9]*-//')
maxlogit=${MAXLOGIT:-./maxlogit}
keep=0
case ${1:-} in
  --keep) keep=1; shift ;;
  -*) echo "usage: $0 [--keep] [TEXT [DIR]]" >&2; exit 2 ;;
esac
if [ -n "${builtin:-}" ]; then
  text='' dir=${1:-$name}
else
  text=${1:-demo/kjv.txt} dir=${2:-$name}
fi
for tool in "$maxlogit" jq gnuplot; do
  command -v "$tool" >/dev/null || { echo "$0: $tool is not there" >&2; exit 2; }
done
[ -n "${builtin:-}" ] || [ -s "$text" ] || { echo "$0: $text is not there: give a text, or run ./bootstrap demo, which makes it" >&2; exit 2; }
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
LC_ALL=C.UTF-8 # numbers with a point, letters for gnuplot
export LC_ALL

# sweep FILE [key=value ...]: train all of it into $dir, on $text where that is not empty
sweep() {
  file=$1
  shift
  # shellcheck disable=SC2086 # a list of settings
  "$maxlogit" sweep "$here/$file" ${text:+data=bytes data.path="$text"} sweep.dir="$dir" -j "${JOBS:-1}" ${KEYS:-} "$@" \
    >"$work/sweep"
}

# tuned NAME [key=value ...]: the rates of NAME.conf's arms, by validation loss on SEEDS (default 3) seeds of their own, in
# $dir/NAME; then its runs at them, in $dir, with these settings
tuned() {
  file=$1
  shift
  mkdir -p "$dir"
  # shellcheck disable=SC2086 # a list of settings
  "$maxlogit" tune "$here/$file.conf" --over train.lr --seeds "${SEEDS:-3}" -j "${JOBS:-1}" -o "$dir/$file.tuned.conf" -q \
    ${text:+data=bytes data.path="$text"} sweep.dir="$dir/$file" ${KEYS:-} >"$work/tune"
  cp "$dir/$file.tuned.conf" "$work/"
  # shellcheck disable=SC2086
  "$maxlogit" sweep "$work/$file.tuned.conf" ${text:+data=bytes data.path="$text"} sweep.dir="$dir" -j "${JOBS:-1}" ${KEYS:-} "$@" \
    >"$work/sweep"
}

# runs [DIR] JQ: a line a run, of what JQ makes of it; p("train.seed") is a parameter as text
runs() {
  from=$dir
  if [ $# = 2 ]; then from=$1; shift; fi
  "$maxlogit" show --json --parameters "$from" >"$work/runs.json"
  jq -r "def p(key): .parameters[key] | tostring; .[] | $1" "$work/runs.json"
}

# told DIR METRIC,... JQ: a line a finished run, of what JQ makes of its parameters (p("train.lr")) and of the metrics
told() {
  "$maxlogit" show --json --parameters "$1" >"$work/parameters"
  "$maxlogit" show --json --where 'state=finished,blown-up' --of "$2" "$1" >"$work/metrics"
  jq -r --arg of "$2" --slurpfile all "$work/parameters" "def number: if type == \"number\" then . else \"NaN\" end;
    (\$all[0] | map({(.id): .parameters}) | add) as \$of_run | .[] | . as \$run | def p(key): \$of_run[\$run.id][key];
    [($3), (\$of | split(\",\")[] | \$run.metrics[.] | number)] | @tsv" "$work/metrics"
}

# group JQ FILE...: mean and interval over the runs of one group, as JQ shows them
group() {
  filter=$1
  shift
  "$maxlogit" show --json --group "$@" >"$work/group.json"
  jq -r "def number: if type == \"number\" then . else nan end; .[] | $filter" "$work/group.json"
}

# rows RUN SERIES ...: columns without a header. median N RUN SERIES ...: of the last N rows
rows() {
  "$maxlogit" export "$@" >"$work/export"
  grep -v '^#' "$work/export"
}
median() {
  count=$1
  shift
  rows "$@" >"$work/rows.all"
  tail -n "$count" "$work/rows.all" | awk '{ print $2 }' | sort -g |
    awk '{ x[NR] = $1 } END { print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'
}

# curve RUNS CONDITION: step, geometric mean over seeds of the largest head, and the extremes of the seeds; a block
curve() {
  runs "$1" "select((.state == \"finished\" or .state == \"blown-up\") and $2) | .file" >"$work/of"
  while read -r run; do rows "$run" probe/max_logit --reduce=max; done <"$work/of" |
    awk '$2 > 0 {
        if (!($1 in n)) { at[++k] = $1; low[$1] = high[$1] = $2 }
        n[$1]++; sum[$1] += log($2); if ($2 < low[$1]) low[$1] = $2; if ($2 > high[$1]) high[$1] = $2
      }
      END { for (i = 1; i <= k; i++) print at[i], exp(sum[at[i]] / n[at[i]]), low[at[i]], high[at[i]]; print "\n" }'
}

# draw SCRIPT NAME [VARIABLE=VALUE ...]: $dir/NAME.png and .svg; the script finds term, out, style and the
# variables, all of them text
draw() {
  script=$1 figure=$2
  shift 2
  for term in png svg; do
    {
      for pair in "term=$term" "out=$dir/$figure.$term" "style=$here/../../plots/style.gp" "$@"; do
        echo "${pair%%=*} = '${pair#*=}'"
      done
      echo "load '$here/$script'"
    } | gnuplot - >&2
  done
}

# finish [-t NAME] FIGURE...: show $dir/NAME.txt (default: table); with --keep into README.md (the block after the line
# <!-- NAME -->)
finish() {
  table=table
  if [ "$1" = -t ]; then table=$2; shift 2; fi
  { echo; "$maxlogit" --version; } >>"$dir/$table.txt"
  cat "$dir/$table.txt"
  [ $keep = 1 ] || return 0
  for figure; do cp "$dir/$figure" "$here/"; done
  awk -v table="$dir/$table.txt" -v mark="<!-- $table -->" '
    /^```/ && wait { print; while ((getline line < table) > 0) print line; wait = 0; skip = 1; next }
    /^```/ { skip = 0 }
    !skip { print }
    index($0, mark) == 1 { wait = 1 }' "$here/README.md" >"$work/README.md"
  cat "$work/README.md" >"$here/README.md"
}
