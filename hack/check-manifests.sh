#!/usr/bin/env bash
# Applies manifests/ to a real API server, first as a dry run, then for good.
#   hack/check-manifests.sh
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"
# shellcheck source=hack/process.sh
source "$GPUQUOTA_ROOT/hack/process.sh"

dir=$(mktemp -d)
trap 'end_groups; rm -rf "$dir"' EXIT
exit_on_signals
cd "$GPUQUOTA_ROOT"

start_control_plane "$dir/cluster" "$dir/controlplane.log" || die "the control plane did not start"
export KUBECONFIG=$dir/cluster/kubeconfig

# A dry run knows nothing of the namespace that it would have created.
kubectl apply -f manifests/00-namespace.yaml
kubectl apply --dry-run=server -f manifests/
kubectl apply -f manifests/
kubectl kustomize manifests >"$dir/all.yaml"
kubectl diff -f "$dir/all.yaml" || die "kustomize builds something else than manifests/*.yaml"

# The optional policies, all at once; taken away again, since what follows is about gpuquota alone.
policies=manifests/policies
kubectl apply --dry-run=server -f "$policies/"
kubectl apply -f "$policies/"
kubectl kustomize "$policies" >"$dir/policies.yaml"
kubectl diff -f "$dir/policies.yaml" || die "kustomize builds something else than $policies/*.yaml"
for file in "$policies"/*.yaml; do
  grep -q -- "- ${file##*/}\$" "$policies/Kustomization" || die "$policies/Kustomization does not name $file"
done
for ((i = 0; i < 100; i++)); do
  checked=$(kubectl get validatingadmissionpolicies -l app.kubernetes.io/name=gpuquota -o json)
  ! jq -e '.items | all(.status.typeChecking != null)' >/dev/null <<<"$checked" || break
  sleep 0.1
done
jq -e '.items | length > 0 and all(.status.typeChecking == {})' >/dev/null <<<"$checked" ||
  die "a policy does not pass its type check: $(jq -c '.items[].status' <<<"$checked")"
kubectl delete -f "$policies/"

# The expression as the API server has it, once YAML has been folded.
tool=build/release/gq-match-condition
[[ -x $tool ]] || die "$tool not found; build it: cmake --build --preset release"
kubectl get validatingwebhookconfiguration gpuquota -o json >"$dir/registrations.json"
for entry in quota rules references user-namespaces workloads workload-user-namespaces; do
  [[ $(jq -r --arg name "$entry.gpuquota.io" \
    '.webhooks[] | select(.name == $name).matchConditions[0].expression' "$dir/registrations.json") == \
    "$("$tool" "$entry")" ]] || die "the matchCondition of $entry.gpuquota.io is not what the source says"
done

# only "VERBS" RESOURCE [FLAG…]: $who may do that with it and nothing else, as the API server
# understands it.
only() {
  local allowed=" $1 " verb want answer
  shift
  for verb in get list watch create update patch delete deletecollection; do
    want=no
    [[ $allowed != *" $verb "* ]] || want=yes
    answer=$(kubectl auth can-i --as="$who" "$verb" "$@" 2>/dev/null || true)
    [[ $answer == "$want" ]] || die "may $who $verb $*? want $want, got $answer"
  done
}
ours=(-n gpuquota-system)

who=system:serviceaccount:gpuquota-system:gpuquota
for resource in pods nodes namespaces; do
  only "get list watch" "$resource" --all-namespaces
done
for resource in resourceclaims resourceclaimtemplates deviceclasses; do
  only get "$resource.resource.k8s.io" --all-namespaces
done
for resource in persistentvolumeclaims persistentvolumes replicationcontrollers; do
  only get "$resource" --all-namespaces
done
for resource in deployments replicasets statefulsets; do
  only get "$resource.apps" --all-namespaces
done
only "create patch" events.events.k8s.io --all-namespaces
only "" events --all-namespaces # there an Event's words could be changed
for resource in secrets configmaps leases.coordination.k8s.io validatingwebhookconfigurations; do
  only "" "$resource" --all-namespaces
done
# A creation has no name to be allowed by.
only create configmaps "${ours[@]}"
only "create get list watch" configmaps/gpuquota-policy "${ours[@]}"
only "create get list watch update" configmaps/gpuquota-policy-accepted "${ours[@]}"
only "create get update" configmaps/gpuquota-journal "${ours[@]}"
only "create list watch patch" configmaps/gpuquota-status "${ours[@]}"
only create leases.coordination.k8s.io "${ours[@]}"
only "create get update" leases.coordination.k8s.io/gpuquota "${ours[@]}"
only "get list watch patch" pods "${ours[@]}"
only "" pods --subresource=status "${ours[@]}"
only "" pods --subresource=exec "${ours[@]}"
only "" secrets "${ours[@]}"

who=somebody-who-looks
kubectl "${ours[@]}" create rolebinding looks --clusterrole=gpuquota-reader --user="$who"
only "get list watch" configmaps/gpuquota-policy "${ours[@]}"
only "get list watch" configmaps/gpuquota-status "${ours[@]}"
only "" configmaps/gpuquota-journal "${ours[@]}"
only "" configmaps "${ours[@]}"
only "" leases.coordination.k8s.io/gpuquota "${ours[@]}"
only get services/gpuquota:metrics --subresource=proxy "${ours[@]}"
only "" services/gpuquota-metrics:metrics --subresource=proxy "${ours[@]}"

who=somebody-who-recounts
kubectl "${ours[@]}" create rolebinding recounts --clusterrole=gpuquota-operator --user="$who"
only "get patch" configmaps/gpuquota-status "${ours[@]}"
only "" configmaps/gpuquota-policy "${ours[@]}"
only "" configmaps/gpuquota-policy-accepted "${ours[@]}"

# Our own requests have a queue of their own: the flow schema that one of the service account meets.
queued() {
  local met
  met=$({ kubectl --as=system:serviceaccount:gpuquota-system:gpuquota \
    --as-group=system:serviceaccounts --as-group=system:authenticated -v=8 "$@" 2>&1 || true; } |
    sed -n 's/.*[Xx]-[Kk]ubernetes-[Pp]f-[Ff]lowschema-[Uu]id: *//p')
  [[ $met == "$schema" ]] || die "kubectl $* meets the flow schema ${met:-(none)}, not $schema"
}
schema=$(kubectl get flowschema gpuquota -o 'jsonpath={.metadata.uid}')
namespace=/api/v1/namespaces/gpuquota-system
lease=/apis/coordination.k8s.io/v1/namespaces/gpuquota-system/leases/gpuquota
queued get --raw '/api/v1/pods?limit=1'
queued get --raw /api/v1/namespaces/default/pods/nobody
queued get --raw "$namespace/configmaps/gpuquota-policy"
queued get --raw "$lease"
kubectl create --dry-run=client -f manifests/journal.yaml -o json >"$dir/journal.json"
queued create --raw "$namespace/configmaps?dryRun=All" -f "$dir/journal.json"
queued replace --raw "$namespace/configmaps/gpuquota-journal?dryRun=All" -f "$dir/journal.json"

for ((i = 0; i < 100; i++)); do
  ! kubectl -n gpuquota-system rollout status deployment/gpuquota --timeout=1s >/dev/null 2>&1 || break
done
kubectl -n gpuquota-system rollout status deployment/gpuquota --timeout=1s # Pod Security let it pass

# The Service leads to the pod that has the leader's label, the metrics to every pod.
reached() {
  kubectl "${ours[@]}" get endpointslices -l "kubernetes.io/service-name=$1" \
    -o 'jsonpath={range .items[*].endpoints[*]}{.targetRef.name}{"\n"}{end}' | sort -u
}
reaches() {
  local service=$1 want=$2 i
  for ((i = 0; i < 100; i++)); do
    [[ $(reached "$service") != "$want" ]] || return 0
    sleep 0.1
  done
  die "Service $service reaches $(reached "$service"), not $want"
}
pods=$(kubectl "${ours[@]}" get pods -o 'jsonpath={range .items[*]}{.metadata.name}{"\n"}{end}' | sort -u)
[[ $(wc -l <<<"$pods") == 2 ]] || die "the pods are $pods, not two"
reaches gpuquota-metrics "$pods"
reaches gpuquota ""
leader=${pods%%$'\n'*}
kubectl "${ours[@]}" label pod "$leader" gpuquota.io/leader=true
reaches gpuquota "$leader"

hack/make-certs.sh
bundle=$(kubectl get validatingwebhookconfiguration gpuquota -o 'jsonpath={.webhooks[0].clientConfig.caBundle}')
[[ -n $bundle ]] || die "no caBundle"
hack/make-certs.sh --renew
kubectl get validatingwebhookconfiguration gpuquota -o json |
  jq -e --arg old "$bundle" '.webhooks | all(.clientConfig.caBundle | @base64d | contains($old | @base64d))' \
    >/dev/null || die "renewing dropped the authority of the certificate in use"
