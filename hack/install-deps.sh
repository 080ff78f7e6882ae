#!/usr/bin/env bash
# Installs the distribution packages that the demo and the tests use, if they
# are missing. Anything else the project builds from its own modules.
set -euo pipefail

# command:package
needed=(haproxy:haproxy curl:curl git:git gcc:gcc make:make openssl:openssl)
missing=()
for pair in "${needed[@]}"; do
	command -v "${pair%%:*}" >/dev/null 2>&1 || [[ -x /usr/sbin/${pair%%:*} ]] || missing+=("${pair##*:}")
done
if ! command -v go >/dev/null 2>&1; then
	echo "install: go is missing: install Go 1.26 or later and put it in PATH" >&2
	exit 1
fi
# The tests of the alerts want promtool, which comes in one package with a server
# that nothing here needs. They are skipped without it.
get_promtool() {
	command -v promtool >/dev/null 2>&1 && return
	command -v apt-get >/dev/null 2>&1 || return 0
	local dir
	dir=$(mktemp -d)
	if (cd "$dir" && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb .) >/dev/null 2>&1; then
		echo "install: promtool"
		"${sudo[@]}" install -m 0755 "$dir/usr/bin/promtool" /usr/local/bin/promtool || true
	else
		echo "install: promtool is not to be had, so the tests of the alerts are skipped" >&2
	fi
	rm -rf "$dir"
}

sudo=()
if ((EUID != 0)) && command -v sudo >/dev/null 2>&1; then
	sudo=(sudo)
fi
if ((${#missing[@]} == 0)); then
	get_promtool
	exit 0
fi
if ((EUID != 0 && ${#sudo[@]} == 0)); then
	echo "install: missing ${missing[*]}, and neither root nor sudo is there to install them" >&2
	exit 1
fi
if ! command -v apt-get >/dev/null 2>&1; then
	echo "install: missing ${missing[*]}; install them with this system's package manager" >&2
	exit 1
fi
echo "install: ${missing[*]}"
"${sudo[@]}" apt-get update -qq
# HAProxy's package starts a service of its own, which nothing here needs.
"${sudo[@]}" env DEBIAN_FRONTEND=noninteractive RUNLEVEL=1 apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
get_promtool
