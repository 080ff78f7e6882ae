#!/usr/bin/env bash
# The demo: a control plane, the controller, the API server and a proxy fleet
# on this machine, ending with one checkpoint shown by kubectl.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly bin=$PWD/bin
readonly cluster=$bin/devcluster
readonly fleet=edge system=holdfast-system web=web
readonly hosts=(shop.example blog.example)

say() { printf 'demo: %s\n' "$*"; }
die() {
	printf 'demo: %s\n' "$*" >&2
	exit 1
}
kube() { "$cluster" kubectl "$@"; }

require() {
	hack/install-deps.sh
	command -v haproxy >/dev/null || [[ -x /usr/sbin/haproxy ]] || die "haproxy is missing: install the distribution's package haproxy"
	for b in devcluster holdfast-apiserver holdfast-controller holdfast-agent; do
		[[ -x $bin/$b ]] || die "bin/$b is missing: run make build"
	done
}

# issue DIR NAME USAGE SAN... signs a key pair with the demo's own CA.
issue() {
	local dir=$1 name=$2 usage=$3 sans
	shift 3
	sans=$(printf 'DNS:%s,' "$@")
	openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj "/CN=$1" \
		-keyout "$dir/$name.key" -out "$dir/$name.csr" 2>/dev/null
	openssl x509 -req -in "$dir/$name.csr" -CA "$dir/ca.crt" -CAkey "$dir/ca.key" -CAcreateserial -days 30 \
		-extfile <(printf 'subjectAltName=%s\nextendedKeyUsage=%s\n' "${sans%,}" "$usage") -out "$dir/$name.crt" 2>/dev/null
}

secret() {
	local namespace=$1 name=$2
	shift 2
	kube -n "$namespace" create secret generic "$name" "$@" --dry-run=client -o yaml | kube apply -f - >/dev/null
}

# certificates issues everything once; a second run keeps what is there, so
# that nothing that runs has to be told.
certificates() {
	if kube -n "$system" get secret holdfast-apiserver-serving >/dev/null 2>&1 &&
		kube -n "$fleet" get secret holdfast-controller-identity holdfast-agent-identity >/dev/null 2>&1 &&
		kube -n "$web" get secret web-tls >/dev/null 2>&1; then
		say "certificates are there already"
		return
	fi
	say "issuing certificates: serving, controller, agent, and one for the two hosts"
	local dir
	dir=$(mktemp -d)
	# shellcheck disable=SC2064
	trap "rm -rf '$dir'" RETURN
	chmod 700 "$dir"
	openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -days 30 -subj "/CN=holdfast demo CA" \
		-keyout "$dir/ca.key" -out "$dir/ca.crt" 2>/dev/null
	issue "$dir" serving serverAuth "holdfast-apiserver.$system.svc"
	issue "$dir" controller clientAuth controller.holdfast.internal
	issue "$dir" agent serverAuth agent.holdfast.internal
	issue "$dir" hosts serverAuth "${hosts[@]}"
	for namespace in "$system" "$fleet" "$web"; do
		kube create namespace "$namespace" --dry-run=client -o yaml | kube apply -f - >/dev/null
	done
	secret "$system" holdfast-apiserver-serving --from-file=tls.crt="$dir/serving.crt" --from-file=tls.key="$dir/serving.key" --from-file=ca.crt="$dir/ca.crt"
	for role in controller agent; do
		secret "$fleet" "holdfast-$role-identity" --from-file=tls.crt="$dir/$role.crt" --from-file=tls.key="$dir/$role.key" --from-file=ca.crt="$dir/ca.crt"
	done
	secret "$web" web-tls --from-file=tls.crt="$dir/hosts.crt" --from-file=tls.key="$dir/hosts.key" --from-file=ca.crt="$dir/ca.crt"
}

install() {
	say "applying custom resource definitions"
	kube apply --server-side -k manifests/base/crd >/dev/null
	kube wait --for=condition=Established --timeout=30s crd --all >/dev/null
	certificates
	# First what the template reads, so that the first output is a complete one.
	say "applying two web applications with their Ingresses, and the list of denied addresses"
	kube apply --server-side --force-conflicts -k manifests/overlays/demo/web >/dev/null
	rollout "$web" shop
	rollout "$web" blog
	rollout "$web" blocklist
	say "applying API server, controllers and proxies"
	kube apply --server-side --force-conflicts -k manifests/overlays/demo >/dev/null
	local bundle
	bundle=$(kube -n "$system" get secret holdfast-apiserver-serving -o jsonpath='{.data.ca\.crt}')
	kube patch apiservice v1alpha1.retained.haproxy-haptic.org --type=merge \
		-p "{\"spec\":{\"caBundle\":\"$bundle\"}}" >/dev/null
}

# rollout waits for a Deployment, and shows what is known of it if it does not come.
rollout() {
	local namespace=$1 deployment=$2
	if kube -n "$namespace" rollout status "deployment/$deployment" --timeout=180s >/dev/null; then
		return
	fi
	{
		kube -n "$namespace" get pods -o wide
		kube -n "$namespace" get events --field-selector type=Warning --sort-by=.lastTimestamp | tail -5
		kube -n "$namespace" logs "deployment/$deployment" --all-containers --tail=5
	} >&2 || true
	die "$deployment did not become ready; more: $cluster kubectl -n $namespace describe pods"
}

wait_ready() {
	say "waiting for the API server, the controllers and the proxies"
	rollout "$system" holdfast-apiserver
	rollout "$fleet" holdfast-controller
	rollout "$fleet" proxy
	kube wait --for=condition=Available --timeout=60s apiservice/v1alpha1.retained.haproxy-haptic.org >/dev/null || die "the API service did not become available"
	say "waiting for a checkpoint that verifies and would be used"
	local deadline=$((SECONDS + 60))
	until [[ $(kube -n "$fleet" get retainedcheckpoints -o jsonpath='{.items[*].status.conditions[?(@.type=="Recoverable")].status}') == *True* ]]; do
		((SECONDS < deadline)) || die "no recoverable checkpoint after a minute: $cluster kubectl -n $fleet get rckpt -o wide"
		sleep 0.5
	done
}

# routes_of_newest names the object that stores the newest checkpoint's map of routes.
routes_of_newest() {
	kube -n "$fleet" get retainedcheckpoints -o jsonpath='{.items[?(@.status.position=="Newest")].status.artifacts[?(@.name=="maps/prefix.map")].object.name}'
}

show() {
	local cmd pod_ip host
	for cmd in "get retainedcheckpoints -A" "get deploymentintents -A"; do
		printf '\n$ kubectl %s\n' "$cmd"
		# shellcheck disable=SC2086
		kube $cmd
	done
	pod_ip=$(kube -n "$fleet" get pods -l app.kubernetes.io/name=holdfast-proxy -o jsonpath='{.items[0].status.podIP}')
	for host in "${hosts[@]}"; do
		printf '\n$ curl https://%s:8443/   (through the proxy at %s)\n' "$host" "$pod_ip"
		kube -n "$web" get secret web-tls -o jsonpath='{.data.ca\.crt}' | base64 -d |
			"$cluster" exec -- curl -sS --fail --max-time 5 --cacert /dev/stdin --resolve "$host:8443:$pod_ip" "https://$host:8443/"
	done
	cat <<TEXT

Look around:
  eval "\$(make -s demo-env)"           # this demo's kubectl and KUBECONFIG
  kubectl get rckpt -A -o wide
  kubectl retained verify -n $fleet        # the same verdicts, without the API server
  kubectl explain retainedcheckpoints.status --api-version=retained.haproxy-haptic.org/v1alpha1

Three things to try:
  1. Scale the proxies, and see the new pod become Ready:
       kubectl -n $fleet scale deployment/proxy --replicas=3
  2. Tamper with a stored map, and watch the verdict change (kubectl get rckpt -A -w in a second terminal):
       kubectl -n $fleet patch hpmap $(routes_of_newest) --type=merge -p '{"spec":{"entries":"tampered"}}'
  3. Delete the leader, and see the other controller take over without a reload:
       kubectl -n $fleet delete pod \$(kubectl -n $fleet get lease edge-leader -o jsonpath='{.spec.holderIdentity}' | cut -d_ -f1)

Second act, while nothing can be rendered: make demo-outage
Stop and delete everything: make demo-down
TEXT
}

up() {
	require
	"$cluster" up --bin "$bin"
	install
	wait_ready
	show
}

case ${1:-} in
up) up ;;
env)
	[[ -x $cluster ]] || die "bin/devcluster is missing: run make demo"
	"$cluster" env
	# Our kubectl lies here too, and beside it the plugin that kubectl finds by PATH.
	printf 'export PATH="%s":"$PATH"\n' "$bin"
	;;
down)
	if [[ ! -x $cluster ]]; then
		say "nothing was built, so nothing runs"
		exit 0
	fi
	"$cluster" down
	;;
*) die "usage: hack/demo.sh up|env|down" ;;
esac
