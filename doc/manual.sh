#!/bin/sh
# manual.sh PROGRAM TEMPLATE: the manual page, its commands and keys as the program itself explains them
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
      if (i == n || word[i] ~ /[a-z)][.;]$/ || length(now) + length(word[i + 1]) > 76) { line(now); now = "" }
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

# page FILE.md: headings, paragraphs, lists and blocks between ``` as sections of the manual
page() {
  awk "$text"'
    /^```/ { print block ? ".Ed" : ".Bd -literal -offset indent"; block = !block; next }
    block { line(escape($0)); next }
    /^# / { close_list(); print ".Sh " toupper(substr($0, 3)); fresh = 1; next }
    /^## / { close_list(); print ".Ss " substr($0, 4); fresh = 1; next }
    /^- / {
      if (!in_list) { print ".Bl -tag -width Ds"; in_list = 1 }
      at = index($0, ": "); print ".It Pa " escape(substr($0, 3, at - 3)); text(substr($0, at + 2)); next
    }
    /^$/ { close_list(); next }
    { if (!fresh) print ".Pp"; fresh = 0; text($0) }
    END { close_list() }' "$1"
}

while IFS= read -r line; do
  case $line in
    @PAGES@) for f in "$(dirname "$2")"/files.md "$(dirname "$2")"/cluster.md "$(dirname "$2")"/page.md "$(dirname "$2")"/import.md; do page "$f"; done ;;
    @COMMANDS@) commands ;;
    @KEYS@) keys ;;
    *) printf '%s\n' "$line" ;;
  esac
done <"$2"
