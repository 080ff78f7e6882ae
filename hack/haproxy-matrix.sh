#!/usr/bin/env bash
# Runs the agent's tests against the HAProxy of this machine and against Debian
# 13's, which lives in a folder made once by debootstrap. Needs root for that:
# the other system's binary only runs with its own libraries, in a chroot.
#
#   HAPROXY_MATRIX_DIR  where the folder is kept (226 MiB)
#   HAPROXY_MATRIX_RUN  tests to run, as for go test -run
set -euo pipefail
cd "$(dirname "$0")/.."

dir=${HAPROXY_MATRIX_DIR:-/var/cache/holdfast/haproxy-trixie}
run=${HAPROXY_MATRIX_RUN:-.}
suite=trixie

if [[ $(id -u) != 0 ]]; then
	echo "haproxy-matrix: needs root, for debootstrap and chroot" >&2
	exit 1
fi

# Mounts below stay in a namespace of their own, so that none is left behind.
if [[ -z ${HAPROXY_MATRIX_INSIDE:-} ]]; then
	HAPROXY_MATRIX_INSIDE=1 exec unshare --mount --propagation private "$0" "$@"
fi

if [[ ! -x $dir/usr/sbin/haproxy ]]; then
	command -v debootstrap >/dev/null || {
		echo "haproxy-matrix: debootstrap is not installed (apt-get install debootstrap)" >&2
		exit 1
	}
	echo "haproxy-matrix: building $dir, once"
	# Under another name first: a folder that was given up half-way is no system.
	rm -rf "$dir.part"
	mkdir -p "$(dirname "$dir")"
	debootstrap --variant=minbase --include=haproxy "$suite" "$dir.part" >"$dir.log" 2>&1 || {
		tail -5 "$dir.log" >&2
		exit 1
	}
	rm -rf "$dir"
	mv "$dir.part" "$dir"
fi

# The tests keep sockets and files under the temporary folder, which both sides
# must find under the same path.
tmp=$(mktemp -d /tmp/hfm.XXXX)
cleanup() {
	umount "$dir/proc" "$dir$tmp" "$tmp" 2>/dev/null || true
	rmdir "$dir$tmp" 2>/dev/null || true
	rm -rf "$tmp"
}
trap cleanup EXIT
mkdir -p "$dir$tmp"
mount --bind "$tmp" "$tmp"
mount --make-shared "$tmp" # what tests mount in it is seen on both sides
mount --bind "$tmp" "$dir$tmp"
mount -t proc proc "$dir/proc"
[[ -e $dir/etc/hosts ]] || printf '127.0.0.1 localhost\n' >"$dir/etc/hosts" # a test needs a name that resolves
wrapper=$tmp/haproxy
printf '#!/bin/sh\nexec chroot %q /usr/sbin/haproxy "$@"\n' "$dir" >"$wrapper"
chmod 755 "$wrapper"

status=0
for binary in "$(command -v haproxy)" "$wrapper"; do
	version=$("$binary" -v)
	echo "haproxy-matrix: ${version%%$'\n'*}"
	TMPDIR=$tmp HOLDFAST_TEST_HAPROXY=$binary HOLDFAST_TEST_FULL=1 CI=1 \
		go test -count=1 -vet=off -timeout 15m -run "$run" ${HAPROXY_MATRIX_FLAGS:-} ./pkg/agent/... || status=1
done
exit $status
