#!/bin/sh
# The page that trains, as built by `make browser`, in Chromium and once in Firefox. MAXLOGIT_PLAY names another file.
program=${MAXLOGIT:-./maxlogit}
page=${MAXLOGIT_PLAY:-page/play.html}
[ -f "$page" ] || { echo "page.sh: skipped, no $page here: make browser builds it"; exit 77; }
python=$(command -v "${PYTHON:-python3}") || { echo "page.sh: skipped, no python3 here"; exit 77; }
chromium=$(command -v chromium || command -v chromium-browser) || { echo "page.sh: skipped, no chromium here"; exit 77; }
dir=$(mktemp -d "${TMPDIR:-/tmp}/maxlogit-test.XXXXXX") || exit 99
trap 'rm -rf "$dir"' EXIT
"$python" "$top_srcdir/tests/play/page.py" "$program" "$page" "$dir" "$chromium" 2>&1
status=$?
[ -z "$PAGE_PICTURES" ] || cp "$dir"/*.png "$PAGE_PICTURES"
if command -v firefox-esr > "$dir/out"; then
  "$python" "$top_srcdir/tests/play/firefox.py" "$page" "$dir" 2>&1 || status=1
else echo "no firefox-esr: not seen there"; fi
exit $status
