#!/usr/bin/env bash
# Builds the development cluster into bin/ and says how far it is: with an empty
# cache this compiles Kubernetes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../test/cluster"

readonly target=$1 jobs=${2:-2}
total=$(go list -deps . | wc -l)
# go build names each package it compiles; anything else it says is for the reader.
go build -v -p "$jobs" -ldflags "$(cat ldflags)" -o "$target" . 2>&1 | awk -v total="$total" '
	/^[A-Za-z0-9._~\/-]+$/ { if (++n % 100 == 0) { printf "  compiled %d of at most %d packages\n", n, total; fflush() } next }
	{ print; fflush() }'
