#!/usr/bin/env bash
# The demo's second act, on the running demo: nothing can be rendered, both
# controllers die, and a new proxy starts from the checkpoint all the same. Then
# everything is repaired. It may be run again and again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly cluster=$PWD/bin/devcluster
readonly fleet=edge web=web template=edge source=blocklist host=shop.example
readonly controllers=app.kubernetes.io/name=holdfast-controller
readonly proxies=app.kubernetes.io/name=holdfast-proxy
# What a step may take before it is a failure. The longest, a new leader after a
# sudden death, takes about 20 s here.
readonly limit=90
readonly began=${EPOCHREALTIME/[.,]/}
# Set on the way: when the controllers died, the new proxy, what the summary
# says, and whether there is something to repair.
killed=0 added='' ready_after='' repaired_after='' broken=''

# elapsed is the time since the start, or since the given moment, in seconds.
elapsed() {
	local us=$((${EPOCHREALTIME/[.,]/} - ${1:-$began}))
	printf '%d.%d' $((us / 1000000)) $((us / 100000 % 10))
}
say() { printf '%6s s  %s\n' "$(elapsed)" "$*"; }
die() {
	printf 'demo-outage: %s\n' "$*" >&2
	exit 1
}
kube() { "$cluster" kubectl "$@"; }
run() {
	printf '\n$ kubectl %s\n' "$*"
	kube "$@"
	echo
}

# await WHAT CHECK... polls until the check succeeds.
await() {
	local what=$1 deadline=$((SECONDS + limit))
	shift
	until "$@"; do
		((SECONDS < deadline)) || die "$what: not within $limit s; more: $cluster kubectl -n $fleet get pods,events"
		sleep 0.2
	done
}

# Questions to the cluster. An answer that cannot be had is an empty one: the
# next poll asks again, and await has the last word.
field() { kube -n "$fleet" get "$1" "$2" -o "jsonpath=$3" 2>/dev/null || true; }
condition() { field haproxytemplateconfig "$template" "{.status.conditions[?(@.type==\"$1\")].$2}"; }
pods() { kube -n "$fleet" get pods -l "$1" -o "jsonpath={range .items[*]}{.metadata.name}{\"\\n\"}{end}" 2>/dev/null || true; }
ready() { [[ $(field deployment "$1" '{.status.readyReplicas}/{.status.replicas}') == "$2/$2" && $(pods "$3" | wc -l) == "$2" ]]; }
pod_ready() { [[ $(field pod "$1" '{.status.conditions[?(@.type=="Ready")].status}') == True ]]; }
intent() { [[ $(field deploymentintent "$template" "{.status.conditions[?(@.type==\"$1\")].status}") == "$2" ]]; }
validated() { [[ $(condition Validated status) == "$1" ]]; }
current() { [[ $(condition HTTPResourcesCurrent status) == "$1" ]]; }
source_gone() {
	local left
	left=$(kube -n "$web" get pods -l "app=$source" -o name) && [[ -z $left ]]
}

# leader is the living pod that holds the Lease, if there is one.
leader() {
	local holder
	holder=$(field lease "$template-leader" '{.spec.holderIdentity}')
	pods "$controllers" | grep -Fx "${holder%%_*}" || true
}
has_leader() { [[ -n $(leader) ]]; }

# gauge is what the leader itself shows.
gauge() {
	local ip
	ip=$(field pod "$(leader)" '{.status.podIP}')
	[[ -z $ip ]] || "$cluster" exec -- curl -s --max-time 5 "http://$ip:8081/metrics" | grep '^haptic_retained_config_active ' || true
}
gauge_is() { [[ $(gauge) == "haptic_retained_config_active $1" ]]; }

# active_event is the newest event that says so and is not of an earlier run.
active_event() {
	kube -n "$fleet" get events --field-selector "reason=RetainedConfigActive" --sort-by=.lastTimestamp \
		-o "jsonpath={range .items[*]}{.lastTimestamp} {.message}{\"\\n\"}{end}" |
		awk -v since="$1" '$1 >= since' | tail -1 | cut -d' ' -f2-
}
has_event() { [[ -n $(active_event "$1") ]]; }

# served asks a proxy for a host, as a client would.
served() {
	local ip
	ip=$(field pod "$1" '{.status.podIP}')
	kube -n "$web" get secret web-tls -o jsonpath='{.data.ca\.crt}' | base64 -d |
		"$cluster" exec -- curl -sS --fail --max-time 5 --cacert /dev/stdin --resolve "$host:8443:$ip" "https://$host:8443/"
}

# as_it_was is what the demo is left in, and what this begins with.
as_it_was() { ready proxy 2 "$proxies" && ready holdfast-controller 2 "$controllers" && gauge_is 0 && intent Recoverable True && intent Active False; }

# restore repairs what an end in the middle of it would leave.
restore() {
	[[ -n $broken ]] || return 0
	say "this ended early, repairing: the source is started again, and there are two proxies"
	kube -n "$web" scale "deployment/$source" --replicas=1 >/dev/null || true
	kube -n "$fleet" scale deployment/proxy --replicas=2 >/dev/null || true
}

check_start() {
	[[ -x $cluster ]] && "$cluster" status >/dev/null 2>&1 || die "no demo is running: make demo"
	[[ $(kube -n "$web" get deployment "$source" -o 'jsonpath={.status.readyReplicas}' 2>/dev/null) == 1 ]] ||
		die "the source $web/$source does not run: make demo starts what is missing"
	say "the demo as it should be: two proxies, two controllers, a checkpoint that would be used"
	await "the demo is not as make demo leaves it" as_it_was
}

break_source() {
	say "breaking the critical document: its server, $web/$source, is scaled to zero"
	kube -n "$web" scale "deployment/$source" --replicas=0 >/dev/null
	await "the source's pod did not end" source_gone
	await "the leader did not notice that the document is gone" current False
	say "the leader has noticed: $(condition HTTPResourcesCurrent message)"
	validated True || die "rendering failed although both controllers hold what they fetched"
	say "both controllers hold what they fetched, so they go on rendering; only new ones cannot"
}

kill_controllers() {
	local names dead holder
	mapfile -t names < <(pods "$controllers")
	((${#names[@]} == 2)) || die "there are ${#names[@]} controllers to kill, want two"
	dead=$(leader)
	say "killing both controllers at once and without grace, the leader $dead among them"
	killed=${EPOCHREALTIME/[.,]/}
	kube -n "$fleet" delete pod "${names[@]}" --grace-period=0 --force >/dev/null 2>&1 || die "the controllers could not be deleted"
	has_leader && die "a living controller leads right after all were killed"
	holder=$(field lease "$template-leader" '{.spec.holderIdentity}')
	[[ ${holder%%_*} == "$dead" ]] || die "the leader had time to give the Lease back, so this was no sudden death"
	say "nobody leads: the Lease still names the dead $dead and must run out"
}

# start_proxy scales to three, sees the new one wait, and then start.
start_proxy() {
	local before since=$1
	before=$(pods "$proxies")
	say "scaling the proxies from two to three"
	kube -n "$fleet" scale deployment/proxy --replicas=3 >/dev/null
	await "there is no third proxy" has_third
	added=$(pods "$proxies" | grep -Fxv "$before")
	run -n "$fleet" get pods -l "$proxies"
	await "no controller came to lead" has_leader
	say "a new controller leads: $(leader), $(elapsed "$killed") s after the kill"
	await "the new leader renders, though it never fetched the document" validated False
	say "it cannot render: $(condition Validated message)"
	await "no event says that the checkpoint is in use" has_event "$since"
	say "event RetainedConfigActive: $(active_event "$since")"
	await "the new proxy $added did not become Ready from the checkpoint" pod_ready "$added"
	ready_after=$(elapsed "$killed")
	say "the new proxy $added is Ready, $ready_after s after the kill"
}
has_third() { [[ $(pods "$proxies" | wc -l) == 3 ]]; }

show_outage() {
	await "the gauge does not say that a checkpoint is in use" gauge_is 1
	say "gauge of the leader: $(gauge)"
	await "the view does not say that a checkpoint is in use" intent Active True
	run -n "$fleet" get deploymentintents
	run -n "$fleet" get retainedcheckpoints
	run -n "$fleet" get pods -l "$proxies"
	local answer
	answer=$(served "$added") || die "the new proxy $added does not serve $host"
	say "curl https://$host:8443/ through the new proxy: $answer"
}

repair() {
	local at=${EPOCHREALTIME/[.,]/}
	say "repairing the source"
	kube -n "$web" scale "deployment/$source" --replicas=1 >/dev/null
	await "rendering did not come back" validated True
	await "the gauge did not go back" gauge_is 0
	await "the view did not go back" intent Active False
	repaired_after=$(elapsed "$at")
	say "the leader renders again, $repaired_after s after the repair; gauge: $(gauge)"
	say "scaling the proxies back to two"
	kube -n "$fleet" scale deployment/proxy --replicas=2 >/dev/null
	await "the demo did not become as it was" as_it_was
	broken=''
	run -n "$fleet" get deploymentintents
	run -n "$fleet" get pods
}

trap restore EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
check_start
# Events have whole seconds, and one of an earlier run may be of this very second.
sleep 1
since=$(date -u +%Y-%m-%dT%H:%M:%SZ)
broken=yes
break_source
kill_controllers
start_proxy "$since"
show_outage
repair
say "done: the new proxy was Ready $ready_after s after the kill, everything back $repaired_after s after the repair; the demo is as it was"
