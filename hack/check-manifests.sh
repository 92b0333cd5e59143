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

# The expression as the API server has it, once YAML has been folded.
tool=build/release/gq-match-condition
[[ -x $tool ]] || die "$tool not found; build it: cmake --build --preset release"
[[ $(kubectl get validatingwebhookconfiguration gpuquota -o json |
  jq -r '.webhooks[] | select(.name == "quota.gpuquota.io").matchConditions[0].expression') == "$("$tool")" ]] ||
  die "the matchCondition of quota.gpuquota.io is not what the source says"

# What the program may do, as the API server understands it.
may() {
  local want=$1 answer
  shift
  answer=$(kubectl auth can-i --as=system:serviceaccount:gpuquota-system:gpuquota "$@" 2>/dev/null || true)
  [[ $answer == "$want" ]] || die "may gpuquota $*? want $want, got $answer"
}
for resource in pods nodes namespaces; do
  for verb in get list watch; do
    may yes "$verb" "$resource" --all-namespaces
  done
  for verb in create update patch delete; do
    may no "$verb" "$resource" --all-namespaces
  done
done
for resource in resourceclaims resourceclaimtemplates deviceclasses; do
  may yes get "$resource.resource.k8s.io" --all-namespaces
  may no list "$resource.resource.k8s.io" --all-namespaces
done
for verb in create patch; do
  may yes "$verb" events.events.k8s.io --all-namespaces
done
for verb in get list update delete; do
  may no "$verb" events.events.k8s.io --all-namespaces
done
may no patch events --all-namespaces # there an Event's words could be changed
may yes watch configmaps/gpuquota-policy -n gpuquota-system
may yes patch configmaps/gpuquota-status -n gpuquota-system
may yes create configmaps -n gpuquota-system
may no update configmaps/gpuquota-status -n gpuquota-system
may no get configmaps -n gpuquota-system
may no update configmaps/gpuquota-policy -n gpuquota-system
may yes watch configmaps/gpuquota-policy-accepted -n gpuquota-system
may yes update configmaps/gpuquota-policy-accepted -n gpuquota-system
may no delete configmaps/gpuquota-policy-accepted -n gpuquota-system
may yes create configmaps -n gpuquota-system
may no get secrets -n gpuquota-system
may no get leases.coordination.k8s.io -n gpuquota-system

for ((i = 0; i < 100; i++)); do
  ! kubectl -n gpuquota-system rollout status deployment/gpuquota --timeout=1s >/dev/null 2>&1 || break
done
kubectl -n gpuquota-system rollout status deployment/gpuquota --timeout=1s # Pod Security let it pass

hack/make-certs.sh
bundle=$(kubectl get validatingwebhookconfiguration gpuquota -o 'jsonpath={.webhooks[0].clientConfig.caBundle}')
[[ -n $bundle ]] || die "no caBundle"
hack/make-certs.sh --renew
kubectl get validatingwebhookconfiguration gpuquota -o json |
  jq -e --arg old "$bundle" '.webhooks | all(.clientConfig.caBundle | @base64d | contains($old | @base64d))' \
    >/dev/null || die "renewing dropped the authority of the certificate in use"
