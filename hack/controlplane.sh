#!/usr/bin/env bash
# The control plane that tests and the demo run, built from Go modules into the cache.
#   hack/controlplane.sh build   build what is missing or out of date (minutes at first, cached after)
#   hack/controlplane.sh up …    start it in the foreground (the options of tests/cmd/controlplane)
#   hack/controlplane.sh clean   remove the built programs
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

modules="$GPUQUOTA_ROOT/hack/controlplane"
bin="$GPUQUOTA_CACHE/bin"
stages="$GPUQUOTA_CACHE/kwok"
components=(etcd kube-apiserver kube-controller-manager kube-scheduler kubectl kwok)
child=

usage() { sed -n '2,5s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# with_clock LABEL COMMAND…: runs it, says how long it has been going on, shows its output if it fails.
with_clock() {
  local label=$1 start=$SECONDS log
  shift
  log=$(mktemp)
  set -m # a process group of its own, so that an interrupted build ends as a whole
  "$@" >"$log" 2>&1 &
  child=$!
  set +m
  local beat=0
  while kill -0 "$child" 2>/dev/null; do
    sleep 0.2
    beat=$((beat + 1))
    if [[ -t 1 ]]; then
      printf '\r    %-34s %4d s ' "$label" $((SECONDS - start))
    elif ((beat % 75 == 0)); then
      printf '    %-34s %4d s …\n' "$label" $((SECONDS - start))
    fi
  done
  local rc=0
  wait "$child" || rc=$?
  child=
  [[ -t 1 ]] && printf '\r'
  if ((rc != 0)); then
    printf '    %-34s failed after %d s\n' "$label" $((SECONDS - start))
    cat "$log" >&2
    rm -f "$log"
    return "$rc"
  fi
  rm -f "$log"
  printf '    %-34s %4d s\n' "$label" $((SECONDS - start))
}

hash_of() { cat "$1/go.mod" "$1/go.sum" | sha256sum | cut -c1-16; }

package_of() {
  case $1 in
    etcd) echo go.etcd.io/etcd/server/v3 ;;
    kwok) echo sigs.k8s.io/kwok/cmd/kwok ;;
    *) echo "k8s.io/kubernetes/cmd/$1" ;;
  esac
}

module_dir_of() {
  case $1 in
    kwok) echo "$modules/kwok" ;;
    *) echo "$modules" ;;
  esac
}

is_built() {
  local stamp
  stamp=$(hash_of "$(module_dir_of "$1")")
  [[ -x $bin/$1 && $(cat "$bin/.$1.hash" 2>/dev/null) == "$stamp" ]] || return 1
  [[ $1 != kwok || -f $stages/pod-ready.yaml ]]
}

# Without the version flags the API server calls itself v0.0.0.
compile() {
  local name=$1 dir version minor
  dir=$(module_dir_of "$name")
  cd "$dir"
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes 2>/dev/null || true)
  local flags="-s -w"
  if [[ $version == v1.* ]]; then
    minor=${version#v1.}
    minor=${minor%%.*}
    local at=k8s.io/component-base/version
    flags+=" -X $at.gitVersion=$version -X $at.gitMajor=1 -X $at.gitMinor=$minor"
  fi
  go build -buildvcs=false -ldflags="$flags" -o "$bin/.$name.new" "$(package_of "$name")"
  mv "$bin/.$name.new" "$bin/$name"
  [[ $name != kwok ]] || copy_stages
  hash_of "$dir" >"$bin/.$name.hash"
}

# What the simulated kubelets do is written in YAML files of the kwok module.
copy_stages() {
  local dir
  dir=$(go list -m -f '{{.Dir}}' sigs.k8s.io/kwok)/kustomize/stage
  mkdir -p "$stages"
  local file
  for file in node/fast/node-initialize pod/fast/pod-ready pod/fast/pod-complete pod/fast/pod-delete; do
    install -m 644 "$dir/$file.yaml" "$stages/"
  done
}

build() {
  command -v go >/dev/null || die "no Go; run hack/deps.sh"
  mkdir -p "$bin"
  # One build at a time: two at once would need twice the memory and replace each other's files.
  exec 9>"$GPUQUOTA_CACHE/.controlplane.lock"
  if command -v flock >/dev/null && ! flock -n 9; then
    say "waiting for another build of the control plane"
    flock 9
  fi
  local name dir wanted=()
  for name in "${components[@]}"; do
    is_built "$name" || wanted+=("$name")
  done
  ((${#wanted[@]} > 0)) || return 0
  say "building the control plane (${wanted[*]}); the first time takes minutes"
  for dir in $(for name in "${wanted[@]}"; do module_dir_of "$name"; done | sort -u); do
    with_clock "modules of ${dir#"$GPUQUOTA_ROOT/"}" go mod download -C "$dir"
  done
  for name in "${wanted[@]}"; do
    with_clock "$name" compile "$name"
  done
}

up() {
  build
  cd "$GPUQUOTA_ROOT/tests"
  mkdir -p "$bin"
  go build -buildvcs=false -o "$bin/.controlplane.$$" ./cmd/controlplane
  mv "$bin/.controlplane.$$" "$bin/controlplane"
  exec 9>&- # the lock must not outlive the build
  exec "$bin/controlplane" up "$@"
}

clean() {
  local name
  for name in "${components[@]}" controlplane; do
    rm -f "$bin/$name" "$bin/.$name.hash"
  done
  rm -rf "$stages"
}

trap '[[ -z $child ]] || kill -- "-$child" 2>/dev/null || true' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

case ${1:-} in
  build) build ;;
  up)
    shift
    up "$@"
    ;;
  clean) clean ;;
  -h | --help) usage ;;
  *)
    usage >&2
    exit 2
    ;;
esac
