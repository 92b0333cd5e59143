#!/usr/bin/env bash
# Holds the folders to their layers: who may include and link whom, and which library belongs where
# (ARCHITECTURE.md). Prints each breach as FILE:LINE; exit 1 if there is one.
#   hack/check-layers.sh [DIR]   of another tree than this one
set -euo pipefail
cd "${1:-$(dirname "${BASH_SOURCE[0]}")/..}"

layers=(base quota informer webhook controller)
declare -A may_include=(
  [base]="base"
  [quota]="quota base"
  [informer]="informer base"
  [webhook]="webhook quota base"
  [controller]="controller webhook informer quota base"
)
# Headers of libraries, by their beginning.
declare -A may_use=(
  [base]="json-c/ pthread.h"
  [quota]="json-c/ libfyaml.h pthread.h"
  [informer]="json-c/ libfyaml.h pthread.h curl/ openssl/"
  [webhook]="json-c/ pthread.h openssl/ libwebsockets.h llhttp.h"
  [controller]="json-c/ libfyaml.h pthread.h curl/ openssl/ libwebsockets.h llhttp.h"
)
libraries=(json-c/ json.h libfyaml.h pthread.h curl/ openssl/ libwebsockets.h llhttp.h cmocka.h)
# quota/ does no I/O and knows no clock: time is a parameter. Its command-line tools may print.
quota_headers=(sys/socket.h netdb.h poll.h sys/epoll.h fcntl.h sys/stat.h unistd.h dirent.h signal.h
  base/log.h)
quota_calls='gq_clock_[a-z_]+|clock_gettime|gettimeofday|time|nanosleep|usleep|sleep|fopen|fdopen|fread|fwrite|printf|fprintf|puts|getenv'

breaches=0
breach() {
  printf '%s\n' "$*" >&2
  breaches=$((breaches + 1))
}

# among WORD WORDS…: whether WORD is or begins with one of them.
among() {
  local word=$1 prefix
  shift
  for prefix in "$@"; do
    [[ $word == "$prefix" || $prefix == */ && $word == "$prefix"* ]] && return 0
  done
  return 1
}

check_include() {
  local layer=$1 at=$2 header=$3 folder
  for folder in "${layers[@]}" tests; do
    [[ $header == "$folder"/* ]] || continue
    # shellcheck disable=SC2086 # a list of words
    among "$folder" ${may_include[$layer]} || breach "$at: $layer/ may not include \"$header\""
  done
  if among "$header" "${libraries[@]}"; then
    # shellcheck disable=SC2086 # a list of words
    among "$header" ${may_use[$layer]} || breach "$at: $layer/ may not use <$header>"
  fi
  if [[ $layer == quota && $at != quota/tools/* ]] && among "$header" "${quota_headers[@]}"; then
    breach "$at: quota/ does no I/O and knows no clock: <$header>"
  fi
}

check_links() {
  local layer=$1 line target
  while IFS=: read -r line target; do
    # shellcheck disable=SC2086 # a list of words
    among "${target#gq_}" ${may_include[$layer]} ||
      breach "$layer/CMakeLists.txt:$line: $layer/ may not link $target"
  done < <(grep -noE "\\bgq_($(IFS='|'; printf '%s' "${layers[*]}"))\\b" "$layer/CMakeLists.txt")
}

for layer in "${layers[@]}"; do
  [[ -d $layer ]] || { breach "$layer/: no such folder"; continue; }
  while IFS=: read -r file line text; do
    header=$(sed -nE 's/^[[:space:]]*#[[:space:]]*include[[:space:]]*[<"]([^>"]+)[>"].*/\1/p' <<<"$text")
    [[ -z $header ]] || check_include "$layer" "$file:$line" "$header"
  done < <(grep -rnE '^[[:space:]]*#[[:space:]]*include' --include='*.[ch]' "$layer" || true)
  [[ ! -f $layer/CMakeLists.txt ]] || check_links "$layer"
done

while IFS= read -r hit; do
  breach "$(cut -d: -f1,2 <<<"$hit"): quota/ does no I/O and knows no clock"
done < <(grep -rnE "(^|[^_[:alnum:]\">.])($quota_calls)\\(" --include='*.[ch]' --exclude-dir=tools quota |
  grep -vE ':[[:space:]]*(\*|/\*|//)' || true)

((breaches == 0)) || exit 1
