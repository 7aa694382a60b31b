#!/bin/bash
# shellcheck disable=SC2016 # names of files with what a shell would expand
# The completion of the shell, asked as bash would ask it.
. "${top_srcdir:-.}/doc/completion/maxlogit" || exit 99
program=${top_builddir:-.}/maxlogit
failed=0

# expect WANTED LINE: completing LINE at its end offers WANTED
expect() {
  COMP_LINE=$2 COMP_POINT=${#2}
  IFS=' ' read -ra COMP_WORDS <<<"$2"
  [[ $2 == *' ' ]] && COMP_WORDS+=("")
  COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
  local word=${COMP_WORDS[COMP_CWORD]}
  _maxlogit "$program" "${word##*=}" ""
  case " ${COMPREPLY[*]} " in
    *" $1 "*) ;;
    *) echo "'$2' offers '${COMPREPLY[*]}', not '$1'"; failed=1 ;;
  esac
}

expect run "maxlogit r"
expect show "maxlogit "
expect --dry-run "maxlogit run --dr"
expect --where "maxlogit export --wh"
expect geometric "maxlogit export --band=geo"
expect png "maxlogit plot --format="
expect train.lr= "maxlogit run train.l"
expect muon "maxlogit run optimizer=mu"
expect adam.beta2= "maxlogit run adam.beta"
expect kimi_k2 "maxlogit run preset=ki"
expect qk_norm+qk_clip "maxlogit run stabilizers=qk_norm+qk"
expect cosine "maxlogit sweep x.conf train.schedule=c"
expect gqa "maxlogit run model.attention="
expect train.lr "maxlogit help train.l"
expect C-17 "maxlogit help C-1"
expect optimizer "maxlogit list o"
expect C-18 "maxlogit claims C-1"

# names of files are offered whole, and nothing in them is run
folder=$(mktemp -d) || exit 99
trap 'rm -rf "$folder"' EXIT
program=$(realpath "$program") || exit 99
cd "$folder" && touch 'a$(touch ran).h5' 'b`touch ran`.h5' 'c d.h5' || exit 99
for command in "show " "plot --output=" "run data.path="; do expect 'a$(touch ran).h5' "maxlogit $command"; done
expect 'b`touch ran`.h5' "maxlogit resume b"
mkdir 'a --x' && : > 'a --x/;1etouch${IFS}ran;#=z'
for line in "maxlogit show 'a --x/;1etouch\${IFS}ran;#=z" 'maxlogit show --x//;1etouch${IFS}ran;#a='; do
  COMP_LINE=$line COMP_POINT=${#line} COMP_WORDS=(maxlogit show "${line##* }") COMP_CWORD=2
  _maxlogit "$program" "${line##*=}" ""
done
COMP_LINE="maxlogit show c" COMP_POINT=15 COMP_WORDS=(maxlogit show c) COMP_CWORD=2
_maxlogit "$program" c ""
test "${COMPREPLY[*]} ${#COMPREPLY[@]}" = "c d.h5 1" || { echo "'c d.h5' is ${#COMPREPLY[@]} words"; failed=1; }
test ! -e ran || { echo "the name of a file was run"; failed=1; }
exit $failed
