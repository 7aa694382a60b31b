#!/bin/sh
# The manual has every command, option and key that the program has, and is good mdoc.
cd "${top_builddir:-.}" || exit 99
missing=0 count=0

# appears WHAT PATTERN: a line of the page matches
appears() {
  count=$((count + 1))
  grep -qE -e "$2" maxlogit.1 || { echo "maxlogit.1 lacks $1"; missing=1; }
}

for command in $(./maxlogit list command | sed -n 's/^  \([^ ]*\) .*/\1/p'); do
  appears "the command $command" "^\.Ss $command( |\$)"
  ./maxlogit "$command" --help | tr -s '\n ' ' ' | grep -oE '\((at least )?[0-9][^()]*default -[^()]*\)' &&
    { echo "$command tells a default that it refuses itself"; missing=1; }
  for option in $(./maxlogit "$command" --help | sed -nE 's/^ .{1,6}--([a-z-]+).*/\1/p'); do
    case $option in help | usage | version) continue ;; esac
    appears "--$option of $command" "Fl .-$(echo "$option" | sed 's/-/\\\\-/g')( |\$)"
  done
done
for key in $(./maxlogit help config | sed -nE 's/^  ([a-z_.]+) = .*/\1/p'); do
  appears "the key $key" "^\.It Ic $key =( |\$)"
done
for what in '^\.It Pa RUN\.journal$' '^\.Ss Disk$' '^\.Sh ON A CLUSTER$' '^sbatch --array'; do appears "$what" "$what"; done
[ $count -gt 100 ] || { echo "looked for $count things only"; missing=1; }
if command -v mandoc >/dev/null 2>&1; then
  mandoc -T lint -W warning maxlogit.1 || missing=1
fi
exit $missing
