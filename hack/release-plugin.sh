#!/usr/bin/env bash
# Builds the archives of kubectl-retained for a release, the same bytes from the same
# commit wherever it runs, and writes the Krew manifest that names them by digest.
#
#   hack/release-plugin.sh v0.1.0 OUTPUT-FOLDER [OS/ARCH]...
#
# Every package is compiled anew for that. UNRELEASED=1 builds as "make build" does and
# so finds most of it compiled; such archives are for trying this script.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:?give a version, such as v0.1.0}
out=${2:?give a folder for archives and manifest}
shift 2
platforms=("$@")
((${#platforms[@]})) || platforms=(linux/amd64 linux/arm64 darwin/amd64 darwin/arm64)
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.-]+)?$ ]] || {
	echo "release-plugin: $version is no semantic version with a v before it" >&2
	exit 2
}
releases=https://github.com/holdfast-project/holdfast/releases/download/$version

mkdir -p "$out"
out=$(cd "$out" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
# The time of the commit, so that building later changes nothing.
when=@${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# Without paths and build IDs of this machine, and without cgo.
flags=(-trimpath -buildvcs=false)
export CGO_ENABLED=0
if [[ -n ${UNRELEASED:-} ]]; then
	flags=(-buildvcs=false)
	unset CGO_ENABLED
fi

{
	cat hack/krew/retained.yaml.in
	for platform in "${platforms[@]}"; do
		os=${platform%/*} arch=${platform#*/}
		archive=kubectl-retained-$version-$os-$arch.tar.gz
		folder=$work/$os-$arch
		mkdir -p "$folder"
		echo "release-plugin: $archive" >&2
		GOOS=$os GOARCH=$arch "${GO:-go}" build -p "${JOBS:-2}" "${flags[@]}" \
			-ldflags "-s -w -buildid= -X k8s.io/component-base/version.gitVersion=$version" \
			-o "$folder/kubectl-retained" ./cmd/kubectl-retained
		cp LICENSE "$folder/LICENSE"
		chmod 0755 "$folder/kubectl-retained"
		chmod 0644 "$folder/LICENSE"
		# Names, order, owners and times are fixed; gzip writes no name and no time.
		tar --sort=name --owner=0 --group=0 --numeric-owner --mtime="$when" --format=ustar \
			-C "$folder" -cf - LICENSE kubectl-retained | gzip -n -9 >"$out/$archive"
		digest=$(sha256sum "$out/$archive")
		cat <<-PLATFORM
		  - selector:
		      matchLabels:
		        os: $os
		        arch: $arch
		    uri: $releases/$archive
		    sha256: ${digest%% *}
		    bin: kubectl-retained
		    files:
		    - from: kubectl-retained
		      to: .
		    - from: LICENSE
		      to: .
		PLATFORM
	done
} | sed "s/@VERSION@/$version/g" >"$work/retained.yaml"
mv "$work/retained.yaml" "$out/retained.yaml"
echo "release-plugin: $out/retained.yaml" >&2
