#!/usr/bin/env bash
# Fails when something committed no longer matches its source.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

generated=(generated manifests/base/crd hack/api-violations.txt pkg/apis docs/api.md)
before=$(git status --porcelain -- "${generated[@]}"; git diff -- "${generated[@]}")
hack/generate.sh
after=$(git status --porcelain -- "${generated[@]}"; git diff -- "${generated[@]}")
if [[ $before != "$after" ]]; then
	echo "verify: generated code is stale; run make generate and commit:" >&2
	git status --short -- "${generated[@]}" >&2
	exit 1
fi

echo "verify: formatting"
unformatted=$(git ls-files '*.go' | xargs gofmt -l)
if [[ -n $unformatted ]]; then
	printf 'verify: not gofmt-ed:\n%s\n' "$unformatted" >&2
	exit 1
fi

echo "verify: go.mod of every module"
for mod in . test/cluster hack/tools; do
	(cd "$mod" && go mod tidy -diff) || {
		echo "verify: go.mod in $mod is not tidy; run go mod tidy there" >&2
		exit 1
	}
done

echo "verify: file lengths"
long=$(git ls-files '*.go' | grep -v -e '^generated/' -e zz_generated -e _test.go |
	xargs wc -l | awk '$2 != "total" && $1 > 400 {print $2 ": " $1 " lines"}')
if [[ -n $long ]]; then
	printf 'verify: files over 400 lines, split them:\n%s\n' "$long" >&2
	exit 1
fi
