#!/usr/bin/env bash
# Gives gpuquota its serving certificate: an authority made for this one certificate (its key is
# thrown away), the Secret gpuquota-tls, and the caBundle of the registrations. Run it before or
# after `kubectl apply -f manifests/`; run again, it renews what is missing or about to expire.
#   hack/make-certs.sh [--kubeconfig FILE] [--context NAME] [--namespace NS] [--days N] [--renew]
#   hack/make-certs.sh --out DIR [--host NAME|ADDRESS]… [--days N]
#                        only write DIR/{ca.crt,tls.crt,tls.key}; asks no cluster
set -euo pipefail
# shellcheck source=hack/lib.sh
source "$(dirname "${BASH_SOURCE[0]}")/lib.sh"

namespace=gpuquota-system
service=gpuquota
secret=gpuquota-tls
registrations=gpuquota
days=365
renew_below_days=30
renew=
out=
hosts=()
kubectl=(kubectl)

usage() { sed -n '2,8s/^# \{0,1\}//p' "${BASH_SOURCE[0]}"; }

# make_pair DIR HOST…: ca.crt, tls.crt and tls.key for these hosts.
make_pair() {
  local dir=$1 host names=() ca_key
  shift
  for host in "$@"; do
    if [[ $host =~ ^[0-9.]+$ || $host == *:* ]]; then
      names+=("IP:$host")
    else
      names+=("DNS:$host")
    fi
  done
  local joined
  joined=$(IFS=,; printf '%s' "${names[*]}")
  # A function in front of || runs without -e, so each step is tied to the one before.
  (
    umask 077
    ca_key=$dir/ca.key
    trap 'rm -f "$ca_key" "$dir/ca.srl" "$dir/tls.csr" "$dir/tls.ext"' EXIT
    printf '%s\n' "subjectAltName=$joined" "basicConstraints=critical,CA:FALSE" \
      "keyUsage=critical,digitalSignature" "extendedKeyUsage=serverAuth" >"$dir/tls.ext" &&
      quietly openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc -days "$days" \
        -subj "/CN=gpuquota-ca" -addext "keyUsage=critical,keyCertSign,cRLSign" \
        -keyout "$ca_key" -out "$dir/ca.crt" &&
      quietly openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -noenc \
        -subj "/CN=gpuquota" -keyout "$dir/tls.key" -out "$dir/tls.csr" &&
      quietly openssl x509 -req -in "$dir/tls.csr" -CA "$dir/ca.crt" -CAkey "$ca_key" \
        -CAcreateserial -CAserial "$dir/ca.srl" -days "$days" -extfile "$dir/tls.ext" \
        -out "$dir/tls.crt"
  ) || die "openssl could not make the certificate"
}

# Shows what a command says only when it fails.
quietly() {
  local output
  output=$("$@" 2>&1) || {
    printf '%s\n' "$output" >&2
    return 1
  }
}

k() { "${kubectl[@]}" "$@"; }

# fetch_secret DIR: what the cluster has; fails when the Secret is absent or incomplete.
fetch_secret() {
  local dir=$1 json key
  json=$(k -n "$namespace" get secret "$secret" --ignore-not-found -o json) ||
    die "can't read secret $namespace/$secret"
  [[ -n $json ]] || return 1
  for key in ca.crt tls.crt tls.key; do
    jq -er --arg key "$key" '.data[$key] // empty' <<<"$json" | base64 -d >"$dir/$key" || return 1
    [[ -s $dir/$key ]] || return 1
  done
}

still_good() {
  local dir=$1
  openssl x509 -in "$dir/tls.crt" -noout -checkend $((renew_below_days * 86400)) >/dev/null &&
    openssl verify -CAfile "$dir/ca.crt" -verify_hostname "$service.$namespace.svc" \
      "$dir/tls.crt" >/dev/null 2>&1
}

# set_bundle FILE: makes every registration trust these authorities, unless it does already.
# Fails when there are no registrations yet.
set_bundle() {
  local json
  json=$(k get validatingwebhookconfiguration "$registrations" --ignore-not-found -o json) ||
    die "can't read validatingwebhookconfiguration/$registrations"
  [[ -n $json ]] || return 1
  # An authority too many may still be needed by the certificate that the program serves.
  jq -c --rawfile bundle "$1" '[.webhooks | to_entries[]
      | select(.value.clientConfig.caBundle // "" | @base64d | contains($bundle) | not)
      | {op: "add", path: "/webhooks/\(.key)/clientConfig/caBundle", value: ($bundle | @base64)}]' \
    <<<"$json" >"$work/patch.json"
  [[ $(<"$work/patch.json") == "[]" ]] ||
    k patch validatingwebhookconfiguration "$registrations" --type=json \
      --patch-file="$work/patch.json" >/dev/null ||
    die "can't change validatingwebhookconfiguration/$registrations"
}

put_secret() {
  local dir=$1
  k -n "$namespace" create secret generic "$secret" --type=kubernetes.io/tls \
    --from-file="$dir/tls.crt" --from-file="$dir/tls.key" --from-file="$dir/ca.crt" \
    --dry-run=client -o json |
    k apply --server-side --field-manager=make-certs --force-conflicts -f - >/dev/null
}

in_cluster() {
  command -v kubectl >/dev/null || die "kubectl not found"
  command -v jq >/dev/null || die "jq not found"
  mkdir "$work/old" "$work/new"
  local bundle=$work/bundle.crt dir=$work/old
  : >"$bundle"
  if ! k get namespace "$namespace" >/dev/null 2>&1; then
    k create -f "$GPUQUOTA_ROOT/manifests/00-namespace.yaml" >/dev/null
    say "created namespace $namespace"
  fi
  if fetch_secret "$work/old" && [[ -z $renew ]] && still_good "$work/old"; then
    say "secret $secret is good until $(openssl x509 -in "$dir/tls.crt" -noout -enddate | cut -d= -f2)"
    cat "$dir/ca.crt" >"$bundle"
  else
    dir=$work/new
    make_pair "$dir" "$service.$namespace.svc" "$service.$namespace.svc.cluster.local" \
      "$service.$namespace"
    # The API server trusts both authorities before the program has the new certificate.
    cat "$dir/ca.crt" >"$bundle"
    [[ ! -s $work/old/ca.crt ]] || cat "$work/old/ca.crt" >>"$bundle"
    set_bundle "$bundle" || true
    put_secret "$dir"
    say "wrote secret $namespace/$secret, good for $days days"
  fi
  if set_bundle "$bundle"; then
    say "validatingwebhookconfiguration/$registrations trusts it"
  else
    say "no validatingwebhookconfiguration/$registrations yet: run this again after kubectl apply"
  fi
}

main() {
  while (($# > 0)); do
    case $1 in
      --kubeconfig | --context | --namespace | --days | --out | --host)
        [[ -n ${2:-} ]] || die "$1 wants a value"
        ;;&
      --kubeconfig | --context) kubectl+=("$1" "$2") ;;
      --namespace) namespace=$2 ;;
      --days) days=$2 ;;
      --out) out=$2 ;;
      --host) hosts+=("$2") ;;
      --renew)
        renew=1
        shift
        continue
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
    shift 2
  done
  [[ $days =~ ^[1-9][0-9]*$ ]] || die "--days $days: want a whole number of days"
  command -v openssl >/dev/null || die "openssl not found"
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT

  if [[ -n $out ]]; then
    ((${#hosts[@]} > 0)) || hosts=(localhost 127.0.0.1)
    mkdir -p "$out"
    make_pair "$out" "${hosts[@]}"
  else
    ((${#hosts[@]} == 0)) || die "--host goes with --out"
    in_cluster
  fi
}

main "$@"
