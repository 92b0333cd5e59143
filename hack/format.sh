#!/usr/bin/env bash
# Formats the C files as .clang-format says.
#   hack/format.sh           write
#   hack/format.sh --check   only say what differs (exit 1 if anything does)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

args=(-i)
case ${1:-} in
  '') ;;
  --check) args=(--dry-run -Werror --ferror-limit=5) ;;
  -h | --help)
    sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
    exit
    ;;
  *)
    sed -n '2,4s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" >&2
    exit 2
    ;;
esac

command -v clang-format >/dev/null || {
  echo "error: clang-format not found; run hack/deps.sh" >&2
  exit 1
}
git ls-files -z --cached --others --exclude-standard '*.c' '*.h' |
  while IFS= read -r -d '' file; do
    [[ ! -e $file ]] || printf '%s\0' "$file"
  done |
  xargs -0 -r -n 16 -P "$(nproc)" clang-format "${args[@]}"
