#!/usr/bin/env bash
# What no formatter sees: functions that we do not use, long lines and files, headers that do not
# compile alone, shell scripts. Prints each breach as FILE:LINE; exit 1 if there is one.
#   hack/check-style.sh
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$GPUQUOTA_ROOT"

banned='strtok|sprintf|vsprintf|strcpy|strcat|atoi|alloca|gets'
max_columns=100
max_lines=800

breaches=0
breach() {
  printf '%s\n' "$*" >&2
  breaches=$((breaches + 1))
}

# files PATTERN…: tracked or new, and there.
files() {
  local file
  git ls-files --cached --others --exclude-standard -- "$@" | while IFS= read -r file; do
    [[ ! -f $file ]] || printf '%s\n' "$file"
  done
}

# hits MESSAGE REGEX FILE…: each line that matches is a breach.
hits() {
  local message=$1 regex=$2 line
  shift 2
  (($# > 0)) || return 0
  while IFS= read -r line; do
    breach "$(cut -d: -f1,2 <<<"$line"): $message"
  done < <(LC_ALL=C.UTF-8 grep -HnIE -e "$regex" -- "$@" || true)
}

mapfile -t c_files < <(files '*.c' '*.h')
mapfile -t all_files < <(files . ':!*/corpus/*' ':!tests/data/*' ':!*/testdata/*')

hits "banned function" "(^|[^_[:alnum:]])($banned)[[:space:]]*\\(" "${c_files[@]}"
hits "space at the end of the line" '[[:blank:]]$' "${all_files[@]}"
hits "carriage return" $'\r' "${all_files[@]}"
# In two parts, so that this line is no hit.
hits "unfinished" "\\b(TO""DO|FIX""ME|XX""X)\\b" "${c_files[@]}"

for file in "${c_files[@]}"; do
  while IFS= read -r line; do
    breach "$file:$line: longer than $max_columns columns"
  done < <(expand -t 8 "$file" | LC_ALL=C.UTF-8 grep -nE "^.{$((max_columns + 1)),}" | cut -d: -f1)
  lines=$(wc -l <"$file")
  ((lines <= max_lines)) || breach "$file:$lines: longer than $max_lines lines: split it"
done

cflags=$(pkg-config --cflags json-c libcurl openssl libwebsockets libfyaml)
for file in "${c_files[@]}"; do
  [[ $file == *.h ]] || continue
  # shellcheck disable=SC2086 # a list of options
  cc -std=c11 -D_GNU_SOURCE -I. $cflags -fsyntax-only -x c "$file" 2>/dev/null ||
    breach "$file:1: does not compile alone"
done

mapfile -t scripts < <(files 'hack/*.sh' '.ci/run')
command -v shellcheck >/dev/null || die "shellcheck not found; run hack/deps.sh"
shellcheck -x "${scripts[@]}" || breach "shellcheck is not content"

if command -v gofmt >/dev/null && [[ -d tests ]]; then
  while IFS= read -r file; do
    breach "$file:1: not formatted: gofmt -w $file"
  done < <(gofmt -l tests)
fi

((breaches == 0)) || exit 1
