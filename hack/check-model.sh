#!/usr/bin/env bash
# Lets spin search every run of the protocol's model, tests/model/journal.pml, within its bounds:
# the protocol as it is must hold; each broken one must be found out. Prints a table; exit 1 if a
# row is not as expected.
#   hack/check-model.sh               all
#   hack/check-model.sh NAME…         only these rows
#   hack/check-model.sh --trail NAME  the steps that lead to what a broken one does wrong
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

model=$GPUQUOTA_ROOT/tests/model/journal.pml
transitions=$GPUQUOTA_ROOT/tests/model/transitions.txt
memory_mib=6000
three_pods='-DPODS=3 -DLIMIT=2 -DTAKEOVERS=1 -DTIMEOUTS=0 -DRELISTS=0 -DDOWNS=0 -DCLEANS=0'

# Name | what must come of it: holds, or the property that fails | macros. The first take longest.
rows=(
  "two-takeovers|holds|-DTAKEOVERS=2 -DTIMEOUTS=1 -DRELISTS=1"
  "every-run-ends-well|holds|-DQUIET -DTAKEOVERS=1 -DTIMEOUTS=1 -DRELISTS=1"
  "shared-writes|holds|$three_pods"
  "three-takeovers|holds|-DTAKEOVERS=3 -DTIMEOUTS=0 -DRELISTS=0"
  "lost-journal-ends-well|holds|-DQUIET -DLOSSES=1 -DTAKEOVERS=1 -DTIMEOUTS=1 -DRELISTS=0"
  "lost-journal|holds|-DLOSSES=1 -DTAKEOVERS=2 -DTIMEOUTS=0 -DRELISTS=0"
  "no-fence|never-over|-DNO_FENCE"
  "answer-before-write|never-over|-DANSWER_BEFORE_WRITE"
  "barrier-before-fence|never-over|-DBARRIER_BEFORE_FENCE"
  "barrier-of-before|never-over|-DOLD_BARRIER -DTAKEOVERS=3 -DTIMEOUTS=0 -DRELISTS=0"
  "clock-only-expiry|never-over|-DCLOCK_ONLY_EXPIRY"
  "get-begun-too-soon|never-over|-DSTALE_GET"
  "forget-reservations|never-over|-DFORGET_RESERVATIONS"
  "seq-used-again|never-over|-DSEQ_REUSED"
  "lost-without-wait|never-over|-DLOSS_WITHOUT_WAIT -DLOSSES=1 -DTIMEOUTS=0 -DRELISTS=0"
  "lost-barrier-first|never-over|-DLOSS_BARRIER_FIRST -DLOSSES=1 -DTIMEOUTS=0 -DRELISTS=0"
  "lost-without-mark|never-over|-DLOSS_WITHOUT_MARK -DLOSSES=1 -DTIMEOUTS=0 -DRELISTS=0"
  "no-expiry|never-stuck|-DNO_EXPIRY -DQUIET"
  "get-is-watch|never-stuck|-DGET_IS_WATCH -DQUIET"
  "charge-each-request|once|-DDOUBLE_CHARGE -DLIMIT=2"
)

usage() { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# find_row NAME: into $name, $wanted and $macros.
find_row() {
  local row
  for row in "${rows[@]}"; do
    IFS='|' read -r name wanted macros <<<"$row"
    [[ $name != "$1" ]] || return 0
  done
  die "no row \"$1\""
}

# verifier DIR: makes DIR/pan for $macros.
verifier() {
  local options=(-O2 -w -DNOREDUCE "-DMEMLIM=$memory_mib")
  # With -DNP it looks for runs without end as well: no step counts as progress.
  if [[ $macros == *-DQUIET* ]]; then options+=(-DNP); else options+=(-DSAFETY); fi
  mkdir -p "$1"
  # shellcheck disable=SC2086 # a list of options
  (cd "$1" && spin $macros -a "$model" >spin.log 2>&1) || die "$name: $(cat "$1/spin.log")"
  cc "${options[@]}" -o "$1/pan" "$1/pan.c"
}

# search DIR: into DIR/pan.log.
search() {
  local options=(-n -m10000 -w25)
  [[ $macros != *-DQUIET* ]] || options+=(-l)
  (cd "$1" && ./pan "${options[@]}" >pan.log 2>&1) || true
}

# outcome LOG: what the search found; anything but a whole search or a named property is an error.
outcome() {
  if grep -q 'assertion violated.*over' "$1"; then
    echo never-over
  elif grep -q 'assertion violated.*stuck' "$1"; then
    echo never-stuck
  elif grep -q 'assertion violated.*twice' "$1"; then
    echo once
  elif grep -q 'errors: 0$' "$1" &&
    ! grep -q 'not completed\|too small\|out of memory\|aborted' "$1"; then
    echo holds
  else
    echo error
  fi
}

# one NAME DIR: searches one row and writes its line of the table.
one() {
  local dir=$2 log=$2/pan.log since got states verdict=ok
  find_row "$1"
  verifier "$dir"
  since=$SECONDS
  search "$dir"
  got=$(outcome "$log")
  states=$(sed -nE 's/^ *([0-9.e+]+) states, stored.*/\1/p' "$log")
  [[ $got == "$wanted" ]] || verdict=BAD
  printf '%-23s %-12s %-12s %12s %5d s  %s\n' "$name" "$wanted" "$got" "${states:--}" \
    $((SECONDS - since)) "$verdict"
  [[ $verdict == ok ]] || {
    cat "$log" >&2
    return 1
  }
}

# Each event that the program traces is a step of the model by the name that the replay uses.
check_transitions() {
  local event steps step bad=
  while read -r event steps _; do
    [[ -n $event && $event != \#* ]] || continue
    for step in ${steps//,/ }; do
      grep -q "^inline $step(" "$model" || {
        echo "transitions.txt: $event: the model has no step $step" >&2
        bad=1
      }
    done
  done <"$transitions"
  [[ -z $bad ]]
}

# step_names: of what spin -p prints, the steps by their names in the model, and whose they are.
step_names() {
  awk '
    FNR == NR {
      if ($1 == "inline") { name = $2; sub(/\(.*/, "", name) }
      of[FNR] = name
      if ($0 == "}") name = ""
      next
    }
    !match($0, /^ *[0-9]+:/) { next }
    {
      number = substr($0, 1, RLENGTH - 1) + 0
      if (number != step) {
        if (step > 1) print step, who, did
        step = number; who = "-"; did = ""; last = ""
        if (match($0, /rep\[[01]\]/)) who = substr($0, RSTART, RLENGTH)
        else if (match($0, /create\[[0-2]\]/)) who = substr($0, RSTART, RLENGTH)
      }
      match($0, /\.pml:[0-9]+/)
      name = of[substr($0, RSTART + 5, RLENGTH - 5) + 0]
      if (name != "" && name != last) { did = did " " name; last = name }
    }
    END { print step, who, did }' "$model" -
}

case ${1:-} in
  -h | --help)
    usage
    exit
    ;;
  --one)
    one "$2" "$3"
    exit
    ;;
esac

command -v spin >/dev/null || die "spin not found; run hack/deps.sh"
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

if [[ ${1:-} == --trail ]]; then
  (($# == 2)) || die "--trail wants a name"
  find_row "$2"
  verifier "$dir"
  (cd "$dir" && ./pan -n -m120 -i >pan.log 2>&1) || true # -i: the shortest that it finds
  mv "$dir"/*.trail "$dir/it.trail" || die "$name: nothing was found: see what it prints as a row"
  # shellcheck disable=SC2086 # a list of options
  spin $macros -k "$dir/it.trail" -t -p "$model" | step_names
  exit
fi

check_transitions
names=("$@")
if ((${#names[@]} == 0)); then
  mapfile -t names < <(printf '%s\n' "${rows[@]}" | cut -d'|' -f1)
fi
printf '%-23s %-12s %-12s %12s %7s\n' variant expected found states time
printf '%s\n' "${names[@]}" |
  xargs -P "$(nproc)" -I{} "$GPUQUOTA_ROOT/hack/check-model.sh" --one {} "$dir/{}"
