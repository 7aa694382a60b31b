#!/bin/sh
# manual.sh PROGRAM TEMPLATE CHAPTER.md ...: the manual page, its commands and keys as the program itself explains them,
# and chapters of the manual
program=$1
export COLUMNS=2000

# functions of awk: text to roff, a sentence a line, no long lines
text='
  function escape(s) { gsub(/\\/, "\\\\e", s); return s }
  function line(s) { sub(/^[.\047]/, "\\\\\\&&", s); print s }
  function text(s,   n, word, i, now) {
    n = split(escape(s), word, " ")
    for (i = 1; i <= n; i++) {
      now = now (now == "" ? "" : " ") word[i]
      if (i == n || word[i] ~ /[A-Za-z0-9)%][.;]$/ || length(now) + length(word[i + 1]) > 76) { line(now); now = "" }
    }
  }
  function close_list() { if (in_list) print ".El"; in_list = 0 }
'

commands() {
  "$program" list command | sed -n 's/^  \([^ ]*\) .*/\1/p' | while read -r command; do
    "$program" "$command" --help
  done | awk "$text"'
    function flags(s,   n, part, i, out, name, value) {
      n = split(s, part, ", ")
      for (i = 1; i <= n; i++) {
        name = part[i]; value = ""
        if (match(name, /\[?=/)) { value = (name ~ /\[=/ ? "[=" : "=") " Ns Ar " substr(name, RSTART + RLENGTH)
          sub(/]$/, " ]", value); name = substr(name, 1, RSTART - 1) }
        gsub(/-/, "\\-", name)
        out = out (i > 1 ? " , " : "") "Fl " substr(name, 3) (value == "" ? "" : " Ns " value)
      }
      return out
    }
    /^Usage: / {
      close_list()
      sub(/^Usage: maxlogit /, ""); sub(/\[OPTION\.\.\.\] ?/, "")
      print ".Ss " $0; next
    }
    /^ +-/ {
      sub(/^ +/, ""); at = match($0, /  +/); rest = substr($0, RSTART + RLENGTH)
      head = at ? substr($0, 1, at - 1) : $0
      if (head ~ /--(help|usage|version)$/) next
      if (!in_list) { print ".Bl -tag -width Ds"; in_list = 1 }
      print ".It " flags(head)
      if (at) text(rest)
      next
    }
    /^ / && in_list { sub(/^ +/, ""); text($0); next }
    /^Mandatory or optional arguments/ { next }
    /^$/ { close_list(); blank = 1; next }
    { if (blank || in_list) print ".Pp"; else if (/^maxlogit /) print ".br"; close_list(); blank = 0; text($0) }
    END { close_list() }
  ' | awk '!(/^\.Pp$/ && (last ~ /^\.(Pp|Ss)/)) { print } { last = $0 }'
}

keys() {
  "$program" help config | awk "$text"'
    /^\[/ { close_list(); at = index($0, "]"); print ".Ss " ($1 == "[]" ? "Top level:" : substr($0, 1, at)) substr($0, at + 1)
            print ".Bl -tag -width Ds -compact"; in_list = 1; next }
    /^  [a-z]/ && in_list {
      sub(/^ +/, ""); at = match($0, /   +/)
      head = at ? substr($0, 1, at - 1) : $0
      print ".It Ic " escape(head)
      if (at) text(substr($0, RSTART + RLENGTH))
      next
    }
    /^ / && in_list { sub(/^ +/, ""); text($0); next }
    END { close_list() }'
}

# page FILE.md: headings, paragraphs, lists, tables and blocks between ``` as sections of the manual
page() {
  awk "$text"'
    function plain(s) { gsub(/<!--.*-->|`/, "", s); while (match(s, /\[[^][]*\]\([^)]*\)/)) s = substr(s, 1, RSTART - 1) \
      label(substr(s, RSTART, RLENGTH)) substr(s, RSTART + RLENGTH); gsub(/\*/, "", s); return s }
    function label(s) { sub(/^\[/, "", s); sub(/\]\(.*/, "", s); return s }
    function open_list() { if (!in_list) { print ".Bl -tag -width Ds"; in_list = 1 } }
    function item(head, rest) { open_list(); print ".It Pa " escape(plain(head)); text(plain(rest)) }
    function flush(   at) { # a paragraph or an item, whose lines are joined
      if (pending == "") return
      if (pending ~ /^- /) {
        at = index(pending, ": ")
        if (at) item(substr(pending, 3, at - 3), substr(pending, at + 2)); else item("-", substr(pending, 3))
      } else { close_list(); if (!fresh) print ".Pp"; text(plain(pending)) }
      pending = ""; fresh = 0
    }
    function row(s,   n, part, i, rest) {
      n = split(s, part, / *\| */)
      for (i = 3; i < n; i++) rest = rest (rest == "" ? "" : "; ") part[i]
      item(part[2], rest)
    }
    /^<!--/ { next }
    /^```/ { flush(); if (!block) close_list(); print block ? ".Ed" : ".Bd -literal -offset indent"; block = !block; fresh = 0; next }
    block { line(escape($0)); next }
    /^# / { flush(); close_list(); print ".Sh " toupper(substr($0, 3)); fresh = 1; next }
    /^##+ / { flush(); close_list(); sub(/^#+ /, ""); print ".Ss " plain($0); fresh = 1; next }
    /^\|[-|]*\|$/ { next }
    /^\|/ { flush(); if (in_table) row($0); in_table = 1; next }
    { in_table = 0 }
    /^$/ { flush(); close_list(); next }
    /^- / { flush() }
    { sub(/^ +/, ""); pending = pending (pending == "" ? "" : " ") $0 }
    END { flush(); close_list() }' "$1"
}

template=$2
shift 2
while IFS= read -r line; do
  case $line in
    @PAGES@) for f in "$@"; do page "$f"; done ;;
    @COMMANDS@) commands ;;
    @KEYS@) keys ;;
    *) printf '%s\n' "$line" ;;
  esac
done <"$template"
