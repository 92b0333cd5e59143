#!/usr/bin/env bash
# Kills, freezes and cuts off gpuquota on a real control plane for long, under a workload, and checks
# all the while that nobody holds more than they may. In network namespaces of its own; as root, or
# where unprivileged user namespaces are allowed.
#   hack/soak.sh [MINUTES] [SEED]   30 minutes and a new seed, which is printed
# GPUQUOTA_BIN names another program than build/release/gpuquota. Logs, traces and etcd's data of the
# run are in build/soak.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
cd "$GPUQUOTA_ROOT"

usage() { sed -n '2,7s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

case ${1:-} in
  -h | --help)
    usage
    exit
    ;;
esac
minutes=${1:-30}
seed=${2:-$(($(date +%s) % 1000000))}
[[ $# -le 2 && $minutes =~ ^[1-9][0-9]{0,3}$ && $seed =~ ^[0-9]{1,9}$ ]] || {
  usage >&2
  exit 2
}

export GPUQUOTA_BIN=${GPUQUOTA_BIN:-$GPUQUOTA_ROOT/build/release/gpuquota}
[[ -x $GPUQUOTA_BIN ]] || die "no program: $GPUQUOTA_BIN (cmake --preset release && cmake --build --preset release)"
hack/controlplane.sh build
say "faults for $minutes minutes, seed $seed"
# The start and the end, which waits for reservations, come on top.
go test -C tests -v -count=1 -timeout "$((minutes + 15))m" -run 'TestFaultsLong|TestJournalBounds' ./faults \
  -seed "$seed" -duration "${minutes}m" -keep "$GPUQUOTA_ROOT/build/soak"
