#!/usr/bin/env bash
# Run the benchmarks in a cluster of their own and delete it, whatever happens.
# Arguments are passed on: hack/bench.sh -only lists,memory
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly bin=${HOLDFAST_BIN:-$PWD/bin}
readonly cluster=$bin/devcluster

say() { printf 'bench: %s\n' "$*"; }

for b in devcluster holdfast-apiserver; do
	[[ -x $bin/$b ]] || {
		printf 'bench: %s is missing: run make build\n' "$bin/$b" >&2
		exit 1
	}
done

# A short path: sockets of the cluster lie below it.
work=$(mktemp -d /tmp/hfbench.XXXXXX)
readonly work
export HOLDFAST_DEVCLUSTER=$work/c
running=
cleanup() {
	trap '' INT TERM
	[[ -z $running ]] || kill "$running" 2>/dev/null || true
	say "deleting the cluster"
	"$cluster" down >/dev/null || true
	rm -rf "$work"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

say "building the benchmarks"
go build -o "$work/bench" ./test/bench
say "starting a cluster"
"$cluster" up --bin "$bin" >"$work/up.log" || {
	cat "$work/up.log" >&2
	exit 1
}
"$cluster" kubectl apply --server-side -k manifests/base/crd >/dev/null
"$cluster" kubectl wait --for=condition=Established --timeout=60s crd --all >/dev/null
"$cluster" kubectl apply --server-side -k test/bench/manifests >/dev/null
# Inside the cluster's network, where nothing stands between client and servers.
# In the background, because a trap waits for the end of what runs in front.
"$cluster" exec -- "$work/bench" "$@" &
running=$!
wait "$running"
