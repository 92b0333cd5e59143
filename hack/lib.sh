# shellcheck shell=bash
# Sourced by the scripts in hack/: where the cache is and what is on PATH.

GPUQUOTA_ROOT=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
GPUQUOTA_CACHE=${GPUQUOTA_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/gpuquota}
GPUQUOTA_GO_WANTED=1.26
export GPUQUOTA_ROOT GPUQUOTA_CACHE

say() { printf '==> %s\n' "$*"; }
die() {
  printf 'error: %s\n' "$*" >&2
  exit 1
}

# go_is_new_enough GO: true when that go command is at least the version that we need.
go_is_new_enough() {
  local version
  version=$(cd / && GOTOOLCHAIN=local "$1" env GOVERSION 2>/dev/null) || return 1
  version=${version#go}
  [[ $(printf '%s\n%s\n' "$GPUQUOTA_GO_WANTED" "$version" | sort -V | head -n 1) == "$GPUQUOTA_GO_WANTED" ]]
}

gpuquota_path() {
  local wanted="$GPUQUOTA_CACHE/bin"
  if [[ -x $GPUQUOTA_CACHE/go/go/bin/go ]] && ! go_is_new_enough go; then
    wanted="$GPUQUOTA_CACHE/go/go/bin:$wanted"
  fi
  case ":$PATH:" in
    *":$wanted:"*) printf '%s' "$PATH" ;;
    *) printf '%s:%s' "$wanted" "$PATH" ;;
  esac
}

PATH=$(gpuquota_path)
export PATH
