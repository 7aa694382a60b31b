#!/bin/sh
# shellcheck disable=SC2046,SC2086,SC2044 # no name here has a blank
# What a reader should not have to check: line lengths, blanks, functions that overrun their buffers or hide
# errors, forgotten notes. Lines are 110 columns long at most, with some grace.
cd "${top_srcdir:-.}" || exit 99
awk '
  function complain(what) { print FILENAME ":" FNR ": " what; bad = 1 }
  FNR == 1 { files++ }
  length > 120 { complain("longer than 120 columns") }
  /\t/ { complain("a tab") }
  /[ \t]$/ { complain("blanks at the end") }
  FILENAME ~ /^src/ && /(^|[^A-Za-z0-9_])(strcpy|strcat|sprintf|vsprintf|gets|atoi|atol|atoll|atof|strtok|rand|srand|alloca|tmpnam|mktemp)[ ]*\(/ {
    complain("a function that this project does without (overruns, hidden errors, hidden state)")
  }
  /(TODO|FIXME)/ { complain("an unfinished note") }
  END { print files " files"; exit bad || files < 20 }
' $(find src tests notebooks-c -name '*.[ch]' ! -name build.h 2>/dev/null) || exit 1
# a test that begins as a program is one: without the right to run it fails wherever it is called by its name
unable=$(find tests -type f -name '*.sh' ! -perm -100 -exec awk 'FNR == 1 && /^#!/ { print FILENAME }' {} +)
test -z "$unable" || { echo "scripts without the right to be run: $unable"; exit 1; }
# an include guard is the file's path: two headers of one name must not hide each other
for f in $(find src tests cuda notebooks-c -name '*.h' ! -name build.h); do
  guard=MAXLOGIT_$(echo "$f" | sed 's,^src/,,; s,^library/,,; s,^maxlogit/,,' | tr 'a-z./-' 'A-Z___')
  grep -qx "#ifndef $guard" "$f" || { echo "$f: its include guard should be $guard"; exit 1; }
done
# a struct name has one meaning; `struct options` is, by the macros of app/command.h, that of each command
twice=$(grep -hoE '^(static |typedef )*struct [a-z_0-9]+ \{' $(find src cuda -name '*.[ch]') cuda/*.cu | sed 's/.*struct //' |
  sort | uniq -d | grep -v '^options')
test -z "$twice" || { echo "struct names with two meanings: $twice"; exit 1; }
case $(clang-format --version 2>/dev/null) in
  *version\ 14.*) find src tests notebooks-c -name '*.[ch]' ! -name build.h -exec clang-format --dry-run -Werror {} + ;;
  *) echo "clang-format 14 is not installed: the layout of the code is not checked" ;;
esac
