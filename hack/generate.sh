#!/usr/bin/env bash
# Regenerates everything under generated/, the zz_generated files, the custom
# resource definitions and the API reference. Generators are pinned in hack/tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

module=github.com/holdfast-project/holdfast
tools=$PWD/_output/tools
stored=$module/pkg/apis/haptic/v1alpha1
views=$module/pkg/apis/retained/v1alpha1
header=hack/boilerplate.go.txt

echo "generate: building the generators (first time: about a minute)"
mkdir -p "$tools"
(cd hack/tools && GOBIN=$tools go install -p 2 tool)

echo "generate: deep copies"
"$tools/deepcopy-gen" --go-header-file "$header" --output-file zz_generated.deepcopy.go "$stored" "$views"

echo "generate: custom resource definitions"
rm -rf manifests/base/crd/*_*.yaml
"$tools/controller-gen" crd paths=./pkg/apis/haptic/... output:crd:dir=manifests/base/crd

echo "generate: API reference"
"$tools/crd-ref-docs" --log-level ERROR --config hack/apidocs/config.yaml --renderer markdown \
	--source-path ./pkg/apis --output-path docs/api.md

echo "generate: OpenAPI"
"$tools/openapi-gen" --go-header-file "$header" \
	--output-dir generated/openapi --output-pkg "$module/generated/openapi" \
	--output-file zz_generated.openapi.go \
	--output-model-name-file zz_generated.model_name.go \
	--report-filename hack/api-violations.txt \
	"$stored" "$views" \
	k8s.io/apimachinery/pkg/apis/meta/v1 k8s.io/apimachinery/pkg/runtime k8s.io/apimachinery/pkg/version

echo "generate: clientset, listers, informers"
rm -rf generated/clientset generated/listers generated/informers
"$tools/client-gen" --go-header-file "$header" --clientset-name versioned \
	--input-base "" --input "$stored" --input "$views" \
	--output-dir generated/clientset --output-pkg "$module/generated/clientset"
"$tools/lister-gen" --go-header-file "$header" \
	--output-dir generated/listers --output-pkg "$module/generated/listers" "$stored" "$views"
"$tools/informer-gen" --go-header-file "$header" \
	--versioned-clientset-package "$module/generated/clientset/versioned" \
	--listers-package "$module/generated/listers" \
	--output-dir generated/informers --output-pkg "$module/generated/informers" "$stored" "$views"
gofmt -l -w generated >/dev/null
