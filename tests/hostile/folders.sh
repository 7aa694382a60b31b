#!/bin/sh
# folders.sh - a folder that others can write to: links, pipes and programs that they have laid there
srcdir=${srcdir:-$(dirname "$0")/..}
. "$srcdir/tests/small_runs.sh"
mkdir "$dir/home" "$dir/shared"
cd "$dir" || exit 99
run="run --quiet train.steps=4 model.layers=1 model.width=16 model.heads=2 model.context=16 train.batch=4 device.threads=1"
# shellcheck disable=SC2086 # settings
"$program" $run record.path=y.h5 > /dev/null 2>&1 || fail "a run"

# link NAME COMMAND...: where somebody has laid a symbolic link to a file of ours, that file stays what it is
link() {
  name=$1; shift
  echo precious > home/victim
  rm -rf shared; mkdir shared
  ln -s ../home/victim "shared/$name"
  timeout 60 "$@" > out 2> err; status=$?
  test $status -le 2 || fail "$name: exit $status: $(cat err)"
  test "$(cat home/victim)" = precious || fail "$name: the file behind a link was written"
}
for name in x.h5.tmp x.lock x.ckpt x.h5 x.journal; do
  # shellcheck disable=SC2086
  link $name "$program" $run record.path=shared/x.h5
done
link x.lock true
"$program" $run record.path=shared/x.h5 > out 2> err && fail "a lock that is a link"
grep -q 'shared/x.lock: it is a symbolic link' err || fail "a lock that is a link: $(cat err)"
link index.html.tmp "$program" report y.h5 -o shared
link index.html "$program" report y.h5 -o shared
test -f shared/index.html && test ! -L shared/index.html || fail "the page takes the place of the link"
rm -rf shared; mkdir shared home/data; echo precious > home/data/index.js; ln -s ../home/data shared/data
"$program" report y.h5 -o shared > out 2> err && fail "a page's folder that is a link"
grep -q 'symbolic link' err && test "$(cat home/data/index.js)" = precious || fail "a page's folder that is a link: $(cat err)"
if command -v gnuplot > /dev/null; then link loss.svg "$program" plot y.h5 -o shared --figure=loss; fi

# hard links: a second name of a file of ours
rm -rf shared; mkdir shared; echo precious > home/victim; ln home/victim shared/x.lock
# shellcheck disable=SC2086
"$program" $run record.path=shared/x.h5 > out 2> err && fail "a lock with two names"
grep -q 'more than one hard link' err && test "$(cat home/victim)" = precious || fail "a lock with two names: $(cat err)"

# the folder of checkpoints is a link: nothing is written or removed behind it
rm -rf shared; mkdir shared home/ours; echo x > home/ours/step-00000001.h5; ln -s ../home/ours shared/x.ckpt
# shellcheck disable=SC2086
"$program" $run record.path=shared/x.h5 > out 2> err && fail "checkpoints behind a link"
grep -q 'x.ckpt is a symbolic link' err && test "$(ls home/ours)" = step-00000001.h5 || fail "checkpoints behind a link: $(cat err) $(ls home/ours)"

# a link that the user has named: the run behind it is changed, with its checkpoints, and the link stays
mkdir real; "$program" $run record.path=real/run.h5 checkpoint.every=2 > /dev/null 2>&1
chmod 600 real/run.h5; ln -s real/run.h5 named.h5
"$program" note named.h5 'a remark' && test -L named.h5 && "$program" note real/run.h5 | grep -q 'a remark' || fail "note of a link"
"$program" resume --quiet named.h5 train.steps=6 > out 2> err && test -L named.h5 || fail "resume of a link: $(cat err)"
"$program" show real/run.h5 | grep -q 'finished *6' || fail "resume of a link: $("$program" show real/run.h5)"
"$program" rerun --quiet named.h5 > out 2> err && test -L named.h5 || fail "rerun of a link: $(cat err)"
test "$(stat -c %a real/run.h5)" = 600 || fail "a private file is now of mode $(stat -c %a real/run.h5)"
# shellcheck disable=SC2086 # settings
(umask 022; "$program" $run train.init_from=real/run.h5 record.path=heir.h5) > out 2> err
test "$(stat -c %a heir.h5)" = 600 || fail "the weights of a private run go into one of mode $(stat -c %a heir.h5): $(cat err)"
test "$(find . -name '*.tmp')" = '' || fail "left behind: $(find . -name '*.tmp')"

# a link of another user in a folder of runs is left out and named; one of the reader's own is followed
if test "$(id -u)" = 0; then
  mkdir theirs-too mine; cp real/run.h5 mine/; ln -s ../real/run.h5 mine/own.h5; cp real/run.h5 theirs-too/
  ln -s ../home/private.h5 theirs-too/x.h5; cp real/run.h5 home/private.h5; chown -h nobody theirs-too/x.h5
  "$program" show theirs-too > out 2> err; status=$?
  test $status = 1 && grep -q 'theirs-too/x.h5 is a symbolic link of another user' err && ! grep -q 'x.h5' out || fail "a link to a run: exit $status, $(cat out err)"
  "$program" report theirs-too -o theirs-page > out 2> err && fail "report of a link to a run"
  grep -q 'x\.h5' theirs-page/data/index.js && fail "report publishes what a link leads to"
  "$program" show mine > out 2> err && grep -q own.h5 out || fail "show of an own link: $(cat err)"
  # so is one in place of the folder itself, where others can write beside it
  mkdir -m 777 common; ln -s ../theirs-too common/sweep; chown -h nobody common/sweep; cp y.h5 theirs-too/y.h5
  for command in "show common/sweep" "report common/sweep -o page2" "export common/sweep loss"; do
    # shellcheck disable=SC2086 # words
    "$program" $command > out 2> err
    test $? != 0 && grep -q 'common/sweep is a symbolic link that another user may have laid' err || fail "$command: $(cat out err)"
    test ! -e page2/data || fail "a page of the folder behind a link"
  done
  rm -r common
  mkdir -m 1777 sticky && mkdir sticky/x.ckpt && chown nobody sticky/x.ckpt # he could exchange its checkpoints
  "$program" run -q train.steps=2 model.width=16 model.heads=2 record.path=sticky/x.h5 > out 2> err && fail "checkpoints in another user's folder"
  grep -q 'x.ckpt is a folder of another user' err || fail "another user's folder: $(cat err)"
  (cd sticky && mkdir runs && chown nobody runs && "$program" run -q train.steps=1 model.width=16 model.heads=2 2> ../err; grep -c 'the folder runs is another user' ../err) | grep -qx 1 || fail "a folder laid in another: $(cat err)"
  # nothing that others have laid beside the program is run
  cp "$program" sticky/mine && mkdir -p sticky/share/maxlogit/plots && touch sticky/maxlogit_cuda.so sticky/share/maxlogit/plots/style.gp
  for owner in root nobody; do
    chown $owner sticky/maxlogit_cuda.so sticky/share
    (cd sticky && cp ../y.h5 . && env -u MAXLOGIT_PLOTS ./mine plot y.h5 -o figures; env -u MAXLOGIT_CUDA ./mine run device=cuda train.steps=1; rm -rf y.h5 figures) > out 2> err
    { grep -q 'sticky/share/maxlogit' err; grep -q 'cannot be loaded: .*sticky/maxlogit_cuda.so' err; } && laid=used || laid=left
    test "$owner $laid" = "root used" || test "$owner $laid" = "nobody left" || fail "what $owner has laid beside the program is $laid: $(cat err)"
  done
  chmod 777 sticky; "$program" run -q train.steps=2 model.width=16 model.heads=2 record.path=sticky/y.h5 2> err || fail "a shared folder: $(cat err)"
  rm -r sticky
  rm -r theirs-too mine home/private.h5
fi

# what replaces a private file has its mode, its owner and its attributes; nothing beside it is open to others, not even
# for a moment: the program is killed at each call that reaches the disk, and at the end it is not
rm -rf kept; mkdir kept first; cp real/run.h5 first/; cp -r real/run.ckpt first/; chmod -R go= first
(umask 022; test "$(id -u)" != 0 || chown nobody first/run.h5)
attribute() { python3 -c 'import os, sys
if sys.argv[1] == "set": os.setxattr(sys.argv[2], "user.project", b"x")
else: sys.exit(os.getxattr(sys.argv[2], "user.project") != b"x")' "$@" 2> /dev/null; }
attribute set first/run.h5 && has_attributes=1 || { has_attributes=0; echo "no extended attributes here: not tried"; }
owner=$(stat -c '%a %u' first/run.h5)
umask 022
for command in "note kept/run.h5 remark" "resume --quiet kept/run.h5 train.steps=9" "rerun --quiet kept/run.h5" "rerun --quiet kept/run.h5 -o kept/other.h5" \
    "$run train.steps=6 checkpoint.every=2 record.overwrite=1 record.path=kept/run.h5"; do
  for k in 1 2 3 4 6 8 11 14 18 22 27 33 40 1000; do
    rm -rf kept; cp -a first kept; rm -f kept/run.lock
    # shellcheck disable=SC2086 # words
    (MAXLOGIT_FAULT=io:$k:kill "$program" $command > out 2>&1); status=$?
    open=$(find kept -type f -perm /066 ! -size 0)
    test -z "$open" || { fail "$command, killed at call $k: others can read $open"; break; }
    test "$(stat -c '%a %u' kept/run.h5)" = "$owner" || fail "$command, killed at $k: run.h5 is $(stat -c '%a %u' kept/run.h5), was $owner"
    test $has_attributes = 0 || attribute get kept/run.h5 || fail "$command, killed at $k: its attributes are lost"
    test $status -ne 0 || break
  done
  test $status -eq 0 || fail "$command: $(cat out)"
done

# a file that another user puts in the run's place, while that is repeated, gives it no rights
rm -rf kept; mkdir kept
# shellcheck disable=SC2086 # settings
"$program" $run train.steps=4000 record.path=kept/run.h5 && chmod 600 kept/run.h5 || fail "a longer run"
"$program" rerun --quiet kept/run.h5 >out 2>&1 &
while [ ! -e kept/run.rerun.lock ] && kill -0 $! 2>/dev/null; do sleep 0.02; done
cp kept/run.h5 kept/open && chmod 666 kept/open && mv kept/open kept/run.h5
wait $! || fail "rerun: $(cat out)"
test "$(stat -c %a kept/run.h5)" = 600 || fail "a repeated run has the rights of another file: $(stat -c %a kept/run.h5)"

# pipes in place of files are refused at once, and the others of the folder are shown
mkdir pipes; cp y.h5 pipes/; for name in p.h5 p.csv p.jsonl p.conf p.safetensors; do mkfifo pipes/$name; done
pipe() { timeout 20 "$program" "$@" > out 2> err; status=$?; test $status -eq 1 || test $status -eq 2 && grep -q 'a named pipe' err || fail "$*: exit $status: $(cat err)"; }
pipe show pipes; grep -q y.h5 out || fail "a folder with a pipe: $(cat out)"
pipe report pipes -o page
pipe export pipes/p.h5 loss; pipe note pipes/p.h5; pipe note pipes/p.h5 text; pipe watch pipes/p.h5; pipe resume pipes/p.h5
if ! ldd "$program" 2> /dev/null | grep -q libasan; then # Python does not load a library with sanitizers
  pipe import pipes/p.csv -o z.h5; pipe import pipes/p.jsonl -o z.h5
fi
pipe run pipes/p.conf; pipe sweep pipes/p.conf; pipe spectra pipes/p.safetensors

# a lock that is a pipe is not waited for either
cp y.h5 pipes/z.h5; mkfifo pipes/z.lock pipes/z.journal
timeout 20 "$program" watch pipes/z.h5 > out 2> err < /dev/null; status=$?
test $status -ne 124 || fail "watch waits for a lock that is a pipe"

# what lies beside a stranger's run may be a link to a file of ours, which is not copied
mkdir theirs; cp real/run.h5 theirs/; cp -r real/run.ckpt theirs/; (umask 077; echo secret > home/secret); ln -s ../home/secret theirs/run.journal
"$program" rerun --quiet --from 6 theirs/run.h5 > out 2> err || fail "rerun beside a link: $(cat err)"
test "$(grep -rl secret theirs)" = '' || test "$(grep -rl secret theirs)" = theirs/run.journal || fail "a secret was copied: $(grep -rl secret theirs)"

# what waits ends with a signal, at once
for signal in TERM INT; do
  for command in "serve y.h5" "import /dev/stdin -o z.h5"; do
    # shellcheck disable=SC2086 # words
    tail -f /dev/null | timeout -k 60 -s $signal 1 "$program" $command > out 2> err; status=$?
    test $status -ne 137 || fail "$command: SIG$signal does not end it"
  done
done

# programs that are started run nothing of the current folder, and none of the user's settings changes a figure
mkdir here && cd here || exit 99
echo 'open("RAN", "w")' | tee json.py sitecustomize.py tensorboard.py > /dev/null
printf '#!/bin/sh\ntouch RAN\n' > gnuplot; cp gnuplot python3; chmod +x gnuplot python3
printf '\030\000\000\000\000\000\000\000aaaaeeeeeeeeeeeeeeeeeeeeeeeebbbb' > events.out.tfevents.1.host
PYTHONPATH=:. "$program" import events.out.tfevents.1.host -o z.h5 > out 2> err
if command -v gnuplot > /dev/null; then
  "$program" plot ../y.h5 -o plain > out 2> err || fail "plot: $(cat err)"
  echo 'set terminal dumb; set title "mine"' > .gnuplot
  HOME=$PWD XDG_CONFIG_HOME=$PWD GNUTERM=dumb GDFONTPATH=/nowhere GNUPLOT_LIB=. GNUPLOT_DRIVER_DIR=. GNUPLOT_PS_DIR=. FIT_LIMIT=1 \
    COLUMNS=40 LC_ALL=de_DE.UTF-8 LC_NUMERIC=de_DE.UTF-8 PATH=.:$PATH "$program" plot ../y.h5 -o mine > out 2> err || fail "plot: $(cat err)"
  diff -r plain mine > /dev/null || fail "the user's settings have changed a figure"
  # what a child finds in its environment
  mkdir fake && printf '#!/bin/sh\nenv > %s/found\n' "$PWD" > fake/gnuplot && chmod +x fake/gnuplot
  long=GNUPLOT_$(printf %080d 7)
  env "$long=1" GNUTERM=dumb GNUPLOT_DRIVER_DIR=. FIT_SCRIPT=x COLUMNS=40 LC_NUMERIC=de_DE.UTF-8 PYTHONSTARTUP=x PAGER=x \
    PATH="$PWD/fake:$PATH" "$program" plot ../y.h5 --figure=loss -o none > out 2> err && fail "a gnuplot without output is a success"
  grep -q 'it has drawn nothing' err || fail "a gnuplot without output: $(cat err)"
  grep -E '^(GNU|FIT_|COLUMNS|LC_N|PYTHONSTARTUP|PAGER)' found && fail "a child has the user's settings"
  grep -qx LC_ALL=C.UTF-8 found || fail "a child has another locale: $(cat found)"
fi
PATH=:.:$PATH "$program" doctor > /dev/null 2>&1
test ! -e RAN || fail "a program of the current folder ran"
finish
