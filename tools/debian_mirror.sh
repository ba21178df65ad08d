# SPDX-License-Identifier: MIT
# Sourced by what makes systems with mmdebstrap: the repository and the proxy that this system has, as `mirror` and `proxy`, a list of options.
# shellcheck shell=bash disable=SC2034 # who sources it uses them
mirror=$(apt-get indextargets --no-release-info --format '$(REPO_URI)' 'Created-By: Packages' 2>/dev/null | grep -m 1 '/debian/$' || true)
mirror=${VIPL_DEBIAN_MIRROR:-${mirror:-http://deb.debian.org/debian}}
proxy=()
eval "$(apt-config shell http_proxy_of_apt Acquire::http::Proxy)"
[ -z "${http_proxy_of_apt:-}" ] || proxy=(--aptopt="Acquire::http::Proxy \"$http_proxy_of_apt\"")
