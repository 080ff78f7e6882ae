#!/usr/bin/env bash
# Static checks over the product module. Generated code is not judged.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

tools=$PWD/_output/tools
echo "lint: building the checkers (first time: about a minute)"
mkdir -p "$tools"
(cd hack/tools && GOBIN=$tools go install -p 2 tool)

packages=$(go list ./... | grep -v /generated/)
echo "lint: go vet"
# shellcheck disable=SC2086
go vet $packages
echo "lint: staticcheck"
# shellcheck disable=SC2086
"$tools/staticcheck" $packages
echo "lint: contextual and structured logging"
# shellcheck disable=SC2086
"$tools/logcheck" -check-contextual -check-structured $packages
