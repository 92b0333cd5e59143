#!/usr/bin/env bash
# Shows what gpuquota does, on a real control plane with simulated GPU nodes, all on this machine.
# Everything it starts stops with it. The first run builds the control plane, which takes minutes.
#   hack/demo.sh                    the demo
#   hack/demo.sh --keep             go on running afterwards, until Ctrl-C
#   hack/demo.sh --kubeconfig FILE  on a cluster whose API server runs on this machine
#   hack/demo.sh --no-pause         without the pauses for reading (the default when not on a terminal)
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/process.sh
source "$GPUQUOTA_ROOT/hack/process.sh"

keep=
kubeconfig=
pause=1.5
work=
# What the demo creates, in the order of creation. Namespaces take along what is in them; pods with
# GPUs are refused while a registration is there and the program is not, so that goes first.
ours=(namespace/gpuquota-system clusterrole/gpuquota clusterrole/gpuquota-reader
  clusterrole/gpuquota-operator clusterrole/gpuquota-environment clusterrolebinding/gpuquota
  prioritylevelconfiguration/gpuquota flowschema/gpuquota
  namespace/a-train namespace/a-serve validatingwebhookconfiguration/gpuquota)
touched= # whether any of it may exist in a cluster that is not ours
program=

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

if [[ -t 1 && -z ${NO_COLOR:-} ]]; then
  bold=$'\e[1m' dim=$'\e[2m' green=$'\e[32m' red=$'\e[31m' cyan=$'\e[36m' plain=$'\e[0m'
else
  bold='' dim='' green='' red='' cyan='' plain=''
fi
[[ -t 1 ]] || pause=0

rest() { sleep "$pause"; }

scene_number=0
# scene TITLE: a heading; standard input says what is shown and why.
scene() {
  rest
  scene_number=$((scene_number + 1))
  printf '\n%s%d. %s%s\n' "$bold" "$scene_number" "$1" "$plain"
  sed "s/.*/$dim&$plain/"
  rest
}

# echoed COMMAND: prints the line as if it were typed, then runs it.
echoed() {
  printf '\n%s$%s %s%s%s\n' "$dim" "$plain" "$cyan" "$1" "$plain"
  bash -c "$1"
}

failed() {
  printf '\n%s✗ %s%s\n' "$red" "$1" "$plain"
  if [[ -s $work/gpuquota.log ]]; then
    printf '%s\n' "--- the end of gpuquota's log"
    tail -n 20 "$work/gpuquota.log"
  fi
  exit 1
} >&2

passed() { printf '%s✓ %s%s\n' "$green" "$1" "$plain"; }

# allowed COMMAND / refused COMMAND: what has to happen, or the demo fails.
allowed() {
  echoed "$1" || failed "this was meant to pass"
}

refused() {
  local rc=0
  echoed "$1" 2>&1 || rc=$?
  ((rc != 0)) || failed "this was meant to be refused"
}

# until_true SECONDS COMMAND…: tries again and again.
until_true() {
  local since=$SECONDS most=$1 beat=0
  shift
  until "$@" >/dev/null 2>&1; do
    ((SECONDS - since < most)) || return 1
    ((SECONDS - since < 3)) || clock_beat "$since" "waiting" "$beat"
    beat=$((beat + 1))
    sleep 0.2
  done
  ((SECONDS - since < 3)) || clock_end
}

are_running() {
  local phases
  phases=$(kubectl get pods -A -l demo=gpuquota -o 'jsonpath={.items[*].status.phase}')
  [[ $phases == "Running Running" ]]
}

replicas() { kubectl -n a-serve get deployment llm -o 'jsonpath={.status.replicas}'; }
has_replicas() { [[ $(replicas) == "$1" ]]; }

# --- preparation

build_program() {
  cmake --preset release
  cmake --build --preset release --target gpuquota
}

prepare_machine() {
  hack/deps.sh # may ask for a password, so it runs in the foreground
  say "building gpuquota"
  start_group "$work/build.log" build_program
  # shellcheck disable=SC2154 # start_group sets it
  watch_group "$started" "compiling" || {
    tail -n 40 "$work/build.log" >&2
    die "the build failed"
  }
  [[ -n $kubeconfig ]] || run_group hack/controlplane.sh build
  command -v kubectl >/dev/null || run_group hack/controlplane.sh build
}

own_cluster() {
  say "starting etcd, kube-apiserver, controller-manager, scheduler and KWOK on loopback"
  start_control_plane "$work/cluster" "$work/controlplane.log" || die "the control plane did not start"
  grep -v '^ *==>' "$work/controlplane.log" || true
  export KUBECONFIG=$work/cluster/kubeconfig
}

# The registrations name this machine's loopback, which only an API server on this machine reaches.
their_cluster() {
  local server host thing
  export KUBECONFIG=$kubeconfig
  server=$(kubectl config view --minify -o 'jsonpath={.clusters[0].cluster.server}')
  kubectl get --raw /readyz >/dev/null || die "$server does not answer"
  host=${server#*://}
  host=${host%%/*}
  case $host in
    127.*:* | localhost:* | '[::1]':* | 127.* | localhost | '[::1]') ;;
    *)
      cat >&2 <<TEXT
error: $server is not on this machine, so its API server can't call a program that runs here.
In such a cluster gpuquota runs as a Deployment: docs/install.md says how (an image, manifests/,
a certificate). The files in hack/demo/ are what this demo would have applied.
TEXT
      exit 2
      ;;
  esac
  kubectl auth can-i create validatingwebhookconfigurations >/dev/null 2>&1 ||
    die "this kubeconfig may not create a ValidatingWebhookConfiguration"
  for thing in "${ours[@]}"; do
    ! kubectl get "$thing" >/dev/null 2>&1 ||
      die "$thing exists already; the demo changes nothing that it did not create"
  done
  [[ -n $(kubectl get nodes -l nvidia.com/gpu.product -o name) ]] ||
    say "no node has the label nvidia.com/gpu.product: pods stay Pending, which counts all the same"
}

# gpuquota's own credentials: the rights of manifests/rbac.yaml and no others.
write_program_kubeconfig() {
  local token
  token=$(kubectl -n gpuquota-system create token gpuquota --duration=24h)
  (
    umask 077
    kubectl config view --raw --minify --flatten -o json |
      jq --arg token "$token" '{apiVersion, kind, clusters, "current-context": "gpuquota",
        contexts: [{name: "gpuquota", context: {cluster: .clusters[0].name, user: "gpuquota"}}],
        users: [{name: "gpuquota", user: {token: $token}}]}' >"$work/gpuquota.kubeconfig"
  )
}

# One replica: several are told apart by a Service, which can't lead to loopback.
start_program() {
  local port metrics_port
  port=$(free_port) || die "no free port on loopback"
  metrics_port=$(free_port) || die "no free port on loopback"
  metrics=http://127.0.0.1:$metrics_port
  say "starting gpuquota (log: $work/gpuquota.log)"
  start_group "$work/gpuquota.log" "$GPUQUOTA_ROOT/build/release/gpuquota" serve \
    --kubeconfig "$work/gpuquota.kubeconfig" --leader-elect=false --identity gpuquota-demo \
    --listen "127.0.0.1:$port" --metrics-listen "127.0.0.1:$metrics_port" \
    --tls-cert "$work/tls/tls.crt" --tls-key "$work/tls/tls.key"
  program=$started
  until_true 30 curl -fsS "$metrics/healthz" || failed "gpuquota did not start"
  # The registrations of manifests/, with an address on this machine in place of the Service.
  kubectl create --dry-run=client -f manifests/webhooks.yaml -o json |
    jq --arg url "https://127.0.0.1:$port" --rawfile ca "$work/tls/ca.crt" \
      '.webhooks[].clientConfig |= {url: ($url + .service.path), caBundle: ($ca | @base64)}' \
      >"$work/webhooks.json"
}

# Whether the API server asks gpuquota; says why not when it can't.
is_asked() {
  local answer
  answer=$(sed 's/nvidia.com\/gpu: 4/nvidia.com\/gpu: 999/' hack/demo/evaluate.yaml |
    kubectl create --dry-run=server -f - 2>&1) || true
  printf '%s' "$answer" >"$work/asked"
  [[ $answer == *'"quota.gpuquota.io" denied the request'* ]]
}

set_up() {
  local namespace
  say "applying namespace, rights and flow schema of manifests/"
  touched=1
  kubectl apply -f manifests/00-namespace.yaml -f manifests/rbac.yaml \
    -f manifests/flowcontrol.yaml >/dev/null
  for namespace in a-train a-serve; do
    kubectl create namespace "$namespace" >/dev/null
    # A pod needs the account that the controller manager makes a moment later.
    until_true 30 kubectl -n "$namespace" get serviceaccount default ||
      die "no service account in $namespace"
  done
  hack/make-certs.sh --out "$work/tls" --host 127.0.0.1 --days 2
  write_program_kubeconfig
  start_program
}

tear_down() {
  local rc=$? i
  trap '' INT TERM HUP
  if [[ -n $kubeconfig && -n $touched ]]; then
    printf '\n'
    say "taking out of the cluster what the demo put there"
    for ((i = ${#ours[@]} - 1; i >= 0; i--)); do
      kubectl delete "${ours[i]}" --ignore-not-found >/dev/null || true
    done
  fi
  end_groups
  if [[ -n $work ]]; then
    if ((rc == 0 || rc > 128)) || [[ ! -e $work/gpuquota.log && ! -e $work/controlplane.log ]]; then
      rm -rf "$work"
    else
      printf 'logs: %s\n' "$work" >&2
    fi
  fi
}

# --- the demo

the_cluster() {
  if [[ -z $kubeconfig ]]; then
    scene "A cluster that teams share" <<'TEXT'
Four nodes with eight A100s each, two with eight H100s each. The nodes are simulated; the API
server, the scheduler and the controllers are the real ones.
TEXT
  else
    scene "A cluster that teams share" <<'TEXT'
The GPU model of a node is in its labels.
TEXT
  fi
  allowed "kubectl get nodes -L nvidia.com/gpu.product"
}

the_policy() {
  scene "A policy" <<'TEXT'
One tenant, two namespaces. The quota is for a GPU model and for both namespaces together, which a
ResourceQuota can't express.
TEXT
  allowed "cat policy.yaml"
  allowed "kubectl apply --server-side -f policy.yaml"
  until_true 30 curl -fsS "$metrics/readyz" || failed "gpuquota did not become ready"
  kubectl apply -f "$work/webhooks.json" >/dev/null
  cd "$GPUQUOTA_ROOT"
  if ! until_true 30 is_asked; then
    [[ -z $kubeconfig ]] ||
      say "if the API server runs in a container, this machine's loopback is not its own"
    failed "the API server does not ask gpuquota: $(<"$work/asked")"
  fi
  cd hack/demo
  passed "gpuquota is registered: the API server asks it about every new pod with GPUs"
}

the_quota() {
  scene "Pods in two namespaces, until the quota is nearly full" <<'TEXT'
4 + 2 of 8 A100s: both pods are created at once and run.
TEXT
  allowed "kubectl apply -f train.yaml -f notebook.yaml"
  until_true 30 are_running || [[ -n $kubeconfig ]] || failed "the pods do not run"
  allowed "kubectl get pods -A -l demo=gpuquota -o custom-columns-file=columns.txt"

  scene "One that does not fit" <<'TEXT'
It asks for 4 where 2 are left. The answer comes while kubectl waits, with the reason and with what
would fit.
TEXT
  refused "kubectl apply -f evaluate.yaml"
  ! kubectl -n a-train get pod evaluate >/dev/null 2>&1 || failed "the pod exists"
  passed "refused; nothing was created"
}

the_deployment() {
  scene "A Deployment gets what fits" <<'TEXT'
Four replicas with one A100 each: two fit, which kubectl is warned of at once. The refusal of the
others stands in the Deployment's own status, and in an Event of gpuquota beside the ReplicaSet.
TEXT
  allowed "kubectl apply -f llm.yaml"
  until_true 30 has_replicas 2 || failed "the Deployment has $(replicas) replicas, not 2"
  until_true 30 refusal_is_told || failed "the Deployment does not say why"
  allowed "kubectl -n a-serve get deployment llm"
  allowed "kubectl -n a-serve get deployment llm -o jsonpath='{.status.conditions[?(@.type==\"ReplicaFailure\")].message}{\"\\n\"}'"
  until_true 30 event_is_there || failed "there is no Event"
  allowed "kubectl -n a-serve get events --field-selector reason=GPUQuotaExceeded -o custom-columns-file=events.txt"
  has_replicas 2 || failed "the Deployment has $(replicas) replicas, not 2"
}

refusal_is_told() {
  kubectl -n a-serve get deployment llm -o json |
    jq -e '.status.conditions[] | select(.type == "ReplicaFailure")'
}

event_is_there() {
  [[ -n $(kubectl -n a-serve get events --field-selector reason=GPUQuotaExceeded -o name) ]]
}

the_rule() {
  scene "A GPU that nobody asked for" <<'TEXT'
This pod asks for no GPU, so no quota counts it; but its variable would show it every GPU of its node.
The policy has a rule against that.
TEXT
  refused "kubectl apply -f shell.yaml"
}

another_model() {
  scene "Another model has its own quota" <<'TEXT'
Team A's A100s are all taken; its H100s are not.
TEXT
  allowed "kubectl apply -f bench.yaml"
}

policy_change() {
  scene "A policy with a mistake changes nothing" <<'TEXT'
It is refused where it is made, with line and column. The old one stays in force.
TEXT
  echoed "diff policy.yaml policy-typo.yaml" || true # they differ
  refused "kubectl apply --server-side -f policy-typo.yaml"

  scene "A policy change takes effect at once" <<'TEXT'
10 A100s instead of 8. The Deployment's controller tries again by itself, with growing pauses, and
gets the other two replicas.
TEXT
  allowed "kubectl apply --server-side -f policy-more.yaml"
  if ! until_true 120 has_replicas 4; then
    failed "the Deployment has $(replicas) replicas, not 4"
  fi
  allowed "kubectl -n a-serve get deployment llm"
  allowed "kubectl get configmap gpuquota-policy -n gpuquota-system -o yaml"
}

the_numbers() {
  scene "Who holds what" <<'TEXT'
gpuquota keeps it in a ConfigMap, for people and for its own command. Prometheus gets the same numbers.
TEXT
  until_true 30 status_is_new || failed "the status does not show what is held"
  allowed "gpuquota usage"
  allowed "kubectl -n gpuquota-system get configmap gpuquota-status -o jsonpath='{.data.status\.yaml}'"
  allowed "curl -s $metrics/metrics | grep -E '^gpuquota_(limit_gpus|used_gpus|reviews_total|journal_grants_total)'"
}

# The status comes a moment after what it shows.
status_is_new() {
  gpuquota usage --url "$metrics" | grep -E '^team-a' >"$work/page"
  gpuquota usage | grep -E '^team-a' | diff - "$work/page"
}

stay() {
  [[ -n $keep ]] || return 0
  cat <<TEXT

${bold}Still running.${plain} In another terminal:

  export KUBECONFIG=$KUBECONFIG PATH=$GPUQUOTA_CACHE/bin:$GPUQUOTA_ROOT/build/release:\$PATH
  kubectl get pods --all-namespaces
  kubectl get events --all-namespaces --field-selector reportingComponent=gpuquota.io/gpuquota
  gpuquota usage

Ctrl-C ends it all.
TEXT
  wait "$program" || true
  failed "gpuquota ended by itself"
}

main() {
  while (($# > 0)); do
    case $1 in
      --keep) keep=1 ;;
      --no-pause) pause=0 ;;
      --kubeconfig)
        (($# > 1)) || die "--kubeconfig wants a file"
        kubeconfig=$2
        shift
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
    shift
  done
  if [[ -n $kubeconfig ]]; then
    [[ -r $kubeconfig ]] || die "can't read $kubeconfig"
    kubeconfig=$(realpath -- "$kubeconfig")
  fi
  cd "$GPUQUOTA_ROOT"
  work=$(mktemp -d "${TMPDIR:-/tmp}/gpuquota-demo.XXXXXX")
  trap tear_down EXIT
  exit_on_signals

  prepare_machine
  if [[ -n $kubeconfig ]]; then their_cluster; else own_cluster; fi
  set_up
  export PATH=$GPUQUOTA_ROOT/build/release:$PATH
  cd hack/demo

  the_cluster
  the_policy
  the_quota
  the_deployment
  the_rule
  another_model
  policy_change
  the_numbers
  printf '\n%sThat is all.%s\n' "$bold" "$plain"
  stay
}

main "$@"
