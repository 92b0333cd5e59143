#!/usr/bin/env bash
# Builds gpuquota and what it is measured beside, measures, and prints Markdown tables at the end.
#   tests/bench/run.sh [--rounds N] [--seconds S] [--out DIR] [--beside PROGRAM] [reviews] [sync]
#                      [decision] [parts] [rules] [ha]
# Without names, all but ha: about 25 minutes. --beside measures another build of gpuquota as well.
# Rounds of the programs are interleaved, figures are medians. Everything is on loopback and ends with
# the script; raw figures stay in DIR (build/bench-out). ha runs on a real control plane in a network
# namespace (hack/controlplane.sh build; root or user namespaces): about 8 minutes.
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/../../hack/lib.sh"
# shellcheck source=hack/process.sh
source "$GPUQUOTA_ROOT/hack/process.sh"
cd "$GPUQUOTA_ROOT"

rounds=3
seconds=4
out=$GPUQUOTA_ROOT/build/bench-out
build=${GPUQUOTA_BENCH_BUILD:-$GPUQUOTA_ROOT/build/bench}
wanted=()
beside=

usage() { sed -n '2,9s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

while (($# > 0)); do
  case $1 in
    --rounds) rounds=${2:?--rounds wants a number} && shift ;;
    --seconds) seconds=${2:?--seconds wants a number} && shift ;;
    --out) out=$(realpath -m "${2:?--out wants a directory}") && shift ;;
    --beside) beside=$(realpath -e "${2:?--beside wants a program}") && shift ;;
    reviews | sync | decision | parts | rules | ha) wanted+=("$1") ;;
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
((${#wanted[@]} > 0)) || wanted=(reviews sync decision parts rules)

wants() { [[ " ${wanted[*]} " == *" $1 "* ]]; }

# ---- building and starting ----

build_all() {
  say "building"
  cmake --preset release -B "$build" -DGQ_TESTS=OFF -DGQ_BENCH=ON >"$out/build.log"
  cmake --build "$build" >>"$out/build.log" || die "the build failed: see $out/build.log"
  (cd tests && go build -o "$out/" ./bench/load ./bench/peer ./bench/listserver ./bench/clientgo ./bench/ha)
  hack/make-certs.sh --out "$out/certs" --host localhost --host 127.0.0.1
}

# wait_for FILE TEXT ID: until the file holds the text; fails when the process is gone before.
wait_for() {
  local i
  for ((i = 0; i < 6000; i++)); do
    [[ -s $1 && $(<"$1") == *"$2"* ]] && return
    kill -0 "$3" 2>/dev/null || break
    sleep 0.05
  done
  tail -n 5 "$1" >&2
  die "$1 never said \"$2\""
}

serving=(-cert "$out/certs/tls.crt" -key "$out/certs/tls.key")

# start_printing_port NAME COMMAND…: its id is in $started, its port in $port.
start_printing_port() {
  local log=$out/$1.log
  shift
  : >"$log" # what an earlier run left would be taken for this one's
  start_group "$log" "$@"
  wait_for "$log" "" "$started" # any line
  read -r port _ <"$log"
}

# start_listserver ARGUMENTS…: its port is in $list_port, its id in $list_id.
start_listserver() {
  local port
  start_printing_port listserver "$out/listserver" "${serving[@]}" "$@"
  list_id=$started
  list_port=$port
  cat >"$out/kubeconfig" <<KUBECONFIG
apiVersion: v1
kind: Config
clusters: [{name: b, cluster: {server: "https://127.0.0.1:$list_port", certificate-authority: $out/certs/ca.crt}}]
users: [{name: b, user: {token: bench}}]
contexts: [{name: b, context: {cluster: b, user: b}}]
current-context: b
KUBECONFIG
}

# start_gpuquota PROGRAM: id, port and the time it took to sync in $gq_id, $gq_port, $gq_sync_ms.
start_gpuquota() {
  local log=$out/gpuquota.log begin end
  : >"$log"
  begin=$(date +%s%3N)
  start_group "$log" "$1" serve --kubeconfig "$out/kubeconfig" --listen 127.0.0.1:0 \
    --metrics-listen 127.0.0.1:0 --tls-cert "$out/certs/tls.crt" --tls-key "$out/certs/tls.key" \
    --leader-elect=false
  gq_id=$started
  wait_for "$log" "every cache has synced" "$gq_id"
  gq_cpu_ms=$(cpu_ms "$gq_id")
  wait_for "$log" " leads " "$gq_id" # it answers from then on
  end=$(date -d "$(sed -n 's/ .*every cache has synced.*//p' "$log")" +%s%3N)
  gq_sync_ms=$((end - begin))
  gq_port=$(sed -n 's/.*gpuquota serves.* port=\([0-9]*\).*/\1/p' "$log")
}

cpu_ms() {
  local stat fields
  stat=$(<"/proc/$1/stat")
  read -ra fields <<<"${stat##*) }"
  printf '%s' $(((fields[11] + fields[12]) * 10))
}

# memory ID FIELD: KiB of VmRSS or VmHWM.
memory() { awk -v field="$2:" '$1 == field { print $2 }' "/proc/$1/status"; }

record() { printf '%s\n' "$1" >>"$out/results.jsonl"; }

# ---- reviews ----

# The same requests to each, in turn. A real review's pod appears in the listserver's watch, for the
# peers in that of a listserver that nobody watches, so that the client does the same for each.
reviews() {
  local round load kind events name port
  local -A id ports lists
  local names=(gpuquota) started_lists=()
  say "reviews: $rounds rounds of 4 loads, 2 kinds, $seconds s each"
  start_listserver -pods 0 -nodes 100
  lists=([go]=$list_port [echo]=$list_port)
  started_lists+=("$list_id")
  [[ -z $beside ]] || names+=(beside)
  for name in "${names[@]}"; do
    start_listserver -pods 0 -nodes 5000
    lists[$name]=$list_port
    started_lists+=("$list_id")
    if [[ $name == beside ]]; then start_gpuquota "$beside"; else start_gpuquota "$build/gpuquota"; fi
    id[$name]=$gq_id ports[$name]=$gq_port
  done
  names+=(go echo)
  start_printing_port echo "$build/tests/bench/bench_echo" "$out/certs/tls.crt" "$out/certs/tls.key"
  id[echo]=$started ports[echo]=$port
  start_printing_port go "$out/peer" "${serving[@]}"
  id[go]=$started ports[go]=$port
  for ((round = 1; round <= rounds; round++)); do
    for kind in dry-run real; do
      for load in "1" "10" "50" "10 -big"; do
        say "round $round: $kind, $load connections"
        for name in "${names[@]}"; do
          events=(-dry-run)
          [[ $kind == dry-run ]] || events=(-events "https://127.0.0.1:${lists[$name]}")
          # shellcheck disable=SC2086 # $load is a number and perhaps a flag
          record "$("$out/load" -ca "$out/certs/ca.crt" -pid "${id[$name]}" -for "${seconds}s" \
            -url "https://127.0.0.1:${ports[$name]}/validate?timeout=10s" "${events[@]}" \
            -name "$kind $name" -connections $load)"
        done
      done
    done
  done
  for name in "${names[@]}"; do end_group "${id[$name]}"; done
  for name in "${started_lists[@]}"; do end_group "$name"; done
}

# ---- rules ----

# The same program under a policy without rules and under one with every rule, in turn.
rules() {
  local round load name
  local -A id ports
  local names=(none every) started_lists=()
  say "rules: $rounds rounds of 3 loads, $seconds s each"
  for name in "${names[@]}"; do
    start_listserver -pods 0 -nodes 5000 "-rules=$([[ $name == every ]] && echo true || echo false)"
    started_lists+=("$list_id")
    start_gpuquota "$build/gpuquota"
    id[$name]=$gq_id ports[$name]=$gq_port
  done
  for ((round = 1; round <= rounds; round++)); do
    for load in "1" "10" "10 -big"; do
      say "round $round: $load connections"
      for name in "${names[@]}"; do
        # shellcheck disable=SC2086 # $load is a number and perhaps a flag
        record "$("$out/load" -ca "$out/certs/ca.crt" -pid "${id[$name]}" -for "${seconds}s" \
          -url "https://127.0.0.1:${ports[$name]}/validate?timeout=10s" -dry-run \
          -name "rules $name" -connections $load)"
      done
    done
  done
  for name in "${names[@]}"; do end_group "${id[$name]}"; done
  for name in "${started_lists[@]}"; do end_group "$name"; done
}

# ---- sync ----

curl_sync() {
  curl -sS -o /dev/null --cacert "$out/certs/ca.crt" -H 'Bench-Close: 1' \
    -w '%{time_total}' "https://127.0.0.1:$list_port/api/v1/pods$1" | awk '{ printf "%d", $1 * 1000 }'
}

# sync_round CASE PODS
sync_round() {
  local about="\"case\":\"$1\",\"pods\":$2" streaming line
  streaming='?watch=1&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion='
  [[ $1 != *paged* ]] || streaming='?limit=0'
  record "{\"name\":\"sync curl\",$about,\"sync_ms\":$(curl_sync "$streaming")}"
  for line in "gpuquota" ${beside:+"beside"}; do
    if [[ $line == beside ]]; then start_gpuquota "$beside"; else start_gpuquota "$build/gpuquota"; fi
    sleep 5
    record "{\"name\":\"sync $line\",$about,\"sync_ms\":$gq_sync_ms,\"cpu_ms\":$gq_cpu_ms,\"rss_kib\":$(
      memory "$gq_id" VmRSS),\"peak_kib\":$(memory "$gq_id" VmHWM)}"
    end_group "$gq_id"
  done
  for line in "client-go" "client-go, trimmed"; do
    local flags=()
    [[ $line == client-go ]] || flags=(-strip)
    record "$("$out/clientgo" -server "https://127.0.0.1:$list_port" -ca "$out/certs/ca.crt" "${flags[@]}" |
      jq -c --arg name "sync $line" --argjson about "{$about}" '. + $about + {name: $name}')"
  done
}

# sync_case CASE PODS ROUNDS ARGUMENTS…
sync_case() {
  local case=$1 pods=$2 n=$3 round
  shift 3
  start_listserver -pods "$pods" -nodes 100 "$@"
  for ((round = 1; round <= n; round++)); do
    say "sync of $pods pods, $case: round $round"
    sync_round "$case" "$pods"
  done
  end_group "$list_id"
}

sync_all() {
  sync_case "all with GPUs" 10000 "$rounds"
  sync_case "all with GPUs" 100000 "$rounds"
  local fewer=$(((rounds + 1) / 2))
  sync_case "one in ten with GPUs" 100000 "$fewer" -gpu-every 10
  sync_case "all with GPUs, paged LIST" 100000 "$fewer" -watch-list=false
  sync_case "all with GPUs, server encodes each pod" 100000 "$fewer" -encode
}

# ---- high availability ----

# EndpointSlices take no loopback address, so others are put on the loopback interface of a network
# namespace that is gone with the last process in it.
high_availability() {
  local unshare=(unshare --net)
  ((EUID == 0)) || unshare+=(--map-root-user)
  # shellcheck disable=SC2016 # for the shell inside
  "${unshare[@]}" bash -euc '
    ip link set lo up
    for host in 1 11 12; do ip addr add "10.98.0.$host/32" dev lo; done
    exec "$@"' ha "$out/ha" -program "$build/gpuquota" -manifests manifests -dir "$out/ha-world" \
    -rounds "$rounds" >"$out/ha.md" || die "the measurement of high availability failed"
}

# ---- the end ----

medians='def med: sort | if length == 0 then null else .[length / 2 | floor] end;
  def r(d): if . == null then "–" else . * pow(10; d) | round / pow(10; d) | tostring end;'

# shellcheck disable=SC2016 # the $… are jq's
review_tables() {
  local kind
  for kind in dry-run real; do
    printf '\n#### Reviews: %s\n\n' "$kind"
    printf '| Load | Program | Reviews/s | p50 ms | p99 ms | CPU µs/review |\n|---|---|---|---|---|---|\n'
    jq -rs --arg kind "$kind" "$medians"'
      [.[] | select(.name | startswith($kind + " "))]
      | group_by([.body_bytes > 10000, .connections]) | .[] as $load
      | ["gpuquota", "beside", "go", "echo"][] as $name
      | [$load[] | select(.name == $kind + " " + $name)] as $runs | select($runs | length > 0)
      | "| \(if $load[0].body_bytes > 10000 then "64 KB" else "2 KB" end), \($load[0].connections) conn. | \($name) | \(
        [$runs[].per_second] | med | r(0)) | \([$runs[].p50_us] | med / 1000 | r(2)) | \(
        [$runs[].p99_us] | med / 1000 | r(2)) | \([$runs[].cpu_us] | med | r(1)) |"' "$out/results.jsonl"
    printf '\n| Load | rate / Go (goal 1.3; 64 KB: 3) | p99 / Go (goal 0.5) | rate / echo (goal 0.85) | CPU / Go | failed |\n|---|---|---|---|---|---|\n'
    jq -rs --arg kind "$kind" "$medians"'
      [.[] | select(.name | startswith($kind + " "))]
      | group_by([.body_bytes > 10000, .connections])[]
      | . as $load | def of(n; f): [$load[] | select(.name == $kind + " " + n) | f] | med;
      "| \(if .[0].body_bytes > 10000 then "64 KB" else "2 KB" end), \(.[0].connections) conn. | \(
        of("gpuquota"; .per_second) / of("go"; .per_second) | r(2)) | \(
        of("gpuquota"; .p99_us) / of("go"; .p99_us) | r(2)) | \(
        of("gpuquota"; .per_second) / of("echo"; .per_second) | r(2)) | \(
        of("gpuquota"; .cpu_us) / of("go"; .cpu_us) | r(2)) | \([.[].failed] | add) |"' "$out/results.jsonl"
  done
}

# shellcheck disable=SC2016
rules_table() {
  printf '\n#### Rules\n\n'
  printf '| Load | Rules | Reviews/s | p50 ms | p99 ms | CPU µs/review | p50 / none | CPU / none |\n|---|---|---|---|---|---|---|---|\n'
  jq -rs "$medians"'
    [.[] | select(.name | startswith("rules "))]
    | group_by([.body_bytes > 10000, .connections])[] | . as $load
    | def of(n; f): [$load[] | select(.name == n) | f] | med;
    ("rules none", "rules every") as $name
    | "| \(if .[0].body_bytes > 10000 then "64 KB" else "2 KB" end), \(.[0].connections) conn. | \($name[6:]) | \(
      of($name; .per_second) | r(0)) | \(of($name; .p50_us) / 1000 | r(3)) | \(of($name; .p99_us) / 1000 | r(2)) | \(
      of($name; .cpu_us) | r(1)) | \(of($name; .p50_us) / of("rules none"; .p50_us) | r(2)) | \(
      of($name; .cpu_us) / of("rules none"; .cpu_us) | r(2)) |"' "$out/results.jsonl"
}

# shellcheck disable=SC2016
sync_table() {
  printf '\n#### Sync and memory\n\n'
  printf '| Pods | Program | Sync ms | / curl (goal 1.2) | CPU ms | Resident MiB | Peak MiB |\n|---|---|---|---|---|---|---|\n'
  jq -rs "$medians"'
    [.[] | select(.name | startswith("sync "))] | group_by([.pods, .case])[] | . as $all
    | def of(n; f): [$all[] | select(.name == n) | f | values] | med;
    ["sync curl", "sync gpuquota", "sync beside", "sync client-go", "sync client-go, trimmed"][]
    | . as $name | select($all | any(.name == $name))
    | "| \($all[0].pods), \($all[0].case) | \($name[5:]) | \(of($name; .sync_ms)) | \(
      of($name; .sync_ms) / of("sync curl"; .sync_ms) | r(2)) | \(of($name; .cpu_ms) // "–") | \(
      of($name; .rss_kib) | if . then . / 1024 else . end | r(1)) | \(
      of($name; .peak_kib) | if . then . / 1024 else . end | r(1)) |"' "$out/results.jsonl"
}

program_output() {
  local name
  for name in "$@"; do
    [[ -x $build/tests/bench/$name ]] || continue
    say "$name"
    "$build/tests/bench/$name" >"$out/$name.txt" 2>&1 || say "$name failed"
  done
}

main() {
  local name
  mkdir -p "$out"
  : >"$out/results.jsonl"
  trap end_groups EXIT
  exit_on_signals
  build_all
  ! wants parts || program_output bench_entry bench_json_filter bench_nodes bench_review
  ! wants decision || program_output bench_decision
  ! wants reviews || reviews
  ! wants rules || rules
  ! wants sync || sync_all
  ! wants ha || high_availability

  printf '\n### %s, %s, %d CPUs, %s, load %s\n' "$(date +%F)" \
    "$(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1)" "$(nproc)" "$(uname -sr)" \
    "$(cut -d' ' -f1-3 /proc/loadavg)"
  ! wants reviews || review_tables
  ! wants rules || rules_table
  ! wants sync || sync_table
  ! wants ha || cat "$out/ha.md"
  local fence=\`\`\`
  for name in "$out"/bench_*.txt; do
    [[ ! -s $name ]] ||
      printf '\n#### %s\n\n%s\n%s\n%s\n' "$(basename "$name" .txt)" "$fence" "$(<"$name")" "$fence"
  done
}

main
