#!/usr/bin/env bash
# Installs what is missing, builds, and runs every test. A failure stops it and shows the log; all
# logs are in build/test-logs.
#   hack/test.sh             everything
#   hack/test.sh --quick     without the control plane and what needs it
#   hack/test.sh -k PATTERN  only tests whose name matches (an extended regular expression)
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/process.sh
source "$GPUQUOTA_ROOT/hack/process.sh"
cd "$GPUQUOTA_ROOT"

logs=$GPUQUOTA_ROOT/build/test-logs
quick=
pattern=
passed=0
failed=0
stage_number=0
begin=$SECONDS

usage() { sed -n '2,6s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

while (($# > 0)); do
  case $1 in
    --quick) quick=1 ;;
    -k)
      (($# > 1)) || die "-k wants a pattern"
      pattern=$2
      shift
      ;;
    -h | --help)
      usage
      exit
      ;;
    *)
      usage >&2
      exit 2
      ;;
  esac
  shift
done

summary() {
  local skipped_note=
  [[ -z $pattern ]] || skipped_note=" (only tests that match \"$pattern\")"
  printf '\n%d passed, %d failed, %d s%s\n' "$passed" "$failed" $((SECONDS - begin)) "$skipped_note"
}

# The last log once more, so that a reader of a long output finds it at the end.
stop() {
  local title=$1 log=$2
  printf '\n--- %s: the end of %s\n' "$title" "${log#"$GPUQUOTA_ROOT/"}" >&2
  tail -n 80 "$log" >&2
  summary
  exit 1
}

# ctest says "98% tests passed, 1 tests failed out of 61"; go test -v "--- PASS: TestName".
# Counts into $stage_passed and $stage_failed.
count_tests() {
  local log=$1 bad all
  stage_passed=0
  stage_failed=0
  while read -r bad all; do
    stage_passed=$((stage_passed + all - bad))
    stage_failed=$((stage_failed + bad))
  done < <(sed -nE 's/^[0-9]+% tests passed, ([0-9]+) tests? failed out of ([0-9]+).*/\1 \2/p' "$log")
  all=$(grep -cE '^--- PASS: ' "$log" || true)
  bad=$(grep -cE '^--- FAIL: ' "$log" || true)
  stage_passed=$((stage_passed + all))
  stage_failed=$((stage_failed + bad))
}

# stage TITLE COMMAND…: a program or function; its output goes to a log.
stage() {
  local title=$1 log since=$SECONDS rc=0 counts=
  shift
  stage_number=$((stage_number + 1))
  log=$logs/$(printf '%02d-%s' "$stage_number" "${title//[^a-zA-Z0-9]/-}").log
  printf '==> %2d  %s\n' "$stage_number" "$title"
  start_group "$log" "$@"
  watch_group "$started" "   " || rc=$? # in line with the result
  count_tests "$log"
  passed=$((passed + stage_passed))
  failed=$((failed + stage_failed))
  if ((stage_passed + stage_failed > 0)); then
    counts=", $stage_passed passed, $stage_failed failed"
  fi
  if ((rc != 0)); then
    printf '        failed after %d s%s\n' $((SECONDS - since)) "$counts"
    ((stage_failed > 0)) || failed=$((failed + 1)) # a failure without a test is one
    stop "$title" "$log"
  fi
  printf '        %d s%s\n' $((SECONDS - since)) "$counts"
}

build() {
  cmake --preset "$1" -DGQ_WERROR=ON
  cmake --build --preset "$1" "${@:2}"
}

# c_tests PRESET CTEST-OPTION…
c_tests() {
  local options=(--test-dir "build/$1" --output-on-failure --parallel "$(nproc)")
  shift
  [[ -z $pattern ]] || options+=(-R "$pattern")
  [[ -n $pattern ]] || options+=(--no-tests=error)
  ASAN_OPTIONS=detect_leaks=1 UBSAN_OPTIONS=print_stacktrace=1 \
    TSAN_OPTIONS=halt_on_error=1 ctest "${options[@]}" "$@"
}

tidy() {
  git ls-files -z --cached --others --exclude-standard 'base/*.c' 'quota/*.c' 'informer/*.c' \
    'webhook/*.c' 'controller/*.c' |
    xargs -0 -r -n 4 -P "$(nproc)" clang-tidy -p build/release --quiet 2> >(
      grep -v ' warnings\? generated' >&2 || true
    )
}

go_vet() { go vet -C tests ./...; }

# One package after the other: several of them start a control plane.
go_tests() {
  local options=(-v -count=1 -p 1 -timeout 50m)
  [[ -z $pattern ]] || options+=(-run "$pattern")
  GPUQUOTA_BIN=$GPUQUOTA_ROOT/build/release/gpuquota go test -C tests "${options[@]}" ./...
}

trap end_groups EXIT
exit_on_signals
rm -rf "$logs"
mkdir -p "$logs"

hack/deps.sh # may ask for a password, so it is no stage

if [[ -z $pattern ]]; then
  stage "style" hack/check-style.sh
  stage "format" hack/format.sh --check
  stage "layers" hack/check-layers.sh
  stage "model" hack/check-model.sh
fi
stage "build release" build release
[[ -n $pattern ]] || stage "manifests match the source" hack/generate-manifests.sh --check
stage "unit tests and fuzz corpora, release" c_tests release
stage "build asan" build asan
stage "unit tests and fuzz corpora, asan" c_tests asan
stage "build tsan" build tsan
stage "unit tests, tsan" c_tests tsan -E '^fuzz/'
if [[ -z $pattern ]]; then
  stage "clang-tidy" tidy
  stage "build fuzz" build fuzz # clang's warnings, and fuzzers that link
fi
if [[ -z $quick ]]; then
  stage "build control plane" hack/controlplane.sh build
  [[ -n $pattern ]] || stage "go vet" go_vet
  [[ -n $pattern ]] || stage "manifests on a real API server" hack/check-manifests.sh
  stage "go tests" go_tests
fi

if ((passed == 0)); then
  echo "error: no test matches \"$pattern\"" >&2
  exit 1
fi
summary
