#!/bin/bash
# Sets a machine up to build and test kbv: compilers and libraries from the system's packages, a
# Python that has torch. Usage: scripts/setup.sh [BUILD-DIRECTORY]
#
# Does nothing where everything is there, so every make target begins with it. Records the
# interpreter in BUILD-DIRECTORY/python, which is where kbv built there looks for it.
#
#   KBV_PYTHON=PATH   use this interpreter, which has torch, and make no virtual environment
set -euo pipefail

. "$(dirname "$0")/tools.sh"
build=${1:-build}
cd "$repository"
mkdir -p "$build"

torch_version=2.13.0
venv=$repository/.venv
log=$build/setup.log
stamp=$build/setup.stamp

say() { printf 'setup: %s\n' "$*"; }
die() {
    printf 'setup: %s\n' "$*" >&2
    exit 1
}

# Runs quietly; shows the end of what it said where it fails.
quietly() {
    "$@" >"$log" 2>&1 || {
        tail -n 30 "$log" >&2
        die "failed: $*"
    }
}

# What the stamp stands for: these scripts and what they were asked.
fingerprint() { cat scripts/setup.sh scripts/tools.sh <(echo "${KBV_PYTHON:-}") | sha256sum; }

is_done() {
    [ -f "$stamp" ] && [ "$(cat "$stamp")" = "$(fingerprint)" ] && [ -f "$build/python" ] &&
        [ -x "$(cat "$build/python")" ] && [ -z "$(missing_packages)" ]
}

has_library() { pkg-config --exists "$1" 2>/dev/null; }

has_python_headers() {
    python3 -c 'import os, sys, sysconfig
sys.exit(not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")))' 2>/dev/null
}

has_libfuzzer() {
    command -v clang >/dev/null &&
        [ -n "$(find "$(clang -print-resource-dir)" -name 'libclang_rt.fuzzer*.a' -print -quit 2>/dev/null)" ]
}

# Names the Debian packages that are needed and not there. Asks for what they bring and not for
# the packages, so that a machine set up in another way is left alone.
missing_packages() {
    command -v gcc >/dev/null || echo gcc
    command -v g++ >/dev/null || echo g++
    command -v pkg-config >/dev/null || echo pkg-config
    command -v ninja >/dev/null || echo ninja-build
    command -v python3 >/dev/null || echo python3
    command -v git >/dev/null || echo git
    find_meson >/dev/null || [ -x "$venv/bin/python" ] || echo meson
    has_python_headers || echo python3-dev
    python3 -c 'import ensurepip, venv' 2>/dev/null || echo python3-venv
    has_library libsodium || echo libsodium-dev
    has_library libseccomp || echo libseccomp-dev
    has_library jansson || echo libjansson-dev
    has_library cmocka || echo libcmocka-dev
}

# Runs apt-get as root. Fails, saying nothing, where that is not permitted.
as_root() {
    if [ "$(id -u)" = 0 ]; then
        env DEBIAN_FRONTEND=noninteractive "$@"
    else
        sudo -n env DEBIAN_FRONTEND=noninteractive "$@"
    fi
}

may_install() {
    command -v apt-get >/dev/null &&
        { [ "$(id -u)" = 0 ] || sudo -n true 2>/dev/null; }
}

install_packages() {
    local packages
    mapfile -t packages < <(missing_packages)
    [ "${#packages[@]}" -gt 0 ] || return 0
    may_install ||
        die "missing packages; run: sudo apt-get install -y ${packages[*]}"
    say "installing ${packages[*]}"
    quietly as_root apt-get update -q
    quietly as_root apt-get install -q -y --no-install-recommends "${packages[@]}"
    mapfile -t packages < <(missing_packages)
    [ "${#packages[@]}" = 0 ] ||
        [ "${packages[*]}" = meson ] || # an old one: comes with the virtual environment
        die "still missing after installation: ${packages[*]}"
}

# clang and libFuzzer, for the fuzz smoke alone: tests say so and skip it where they are not there.
# The runtime's package is named after clang's version, and in older releases is another's part.
install_fuzzer() {
    local major name
    has_libfuzzer && return 0
    may_install || return 0
    say 'installing clang and its fuzzer'
    as_root apt-get install -q -y --no-install-recommends clang >"$log" 2>&1 || return 0
    has_libfuzzer && return 0
    major=$(clang -dumpversion | cut -d. -f1)
    for name in "libclang-rt-$major-dev" "libclang-common-$major-dev"; do
        as_root apt-get install -q -y --no-install-recommends "$name" >"$log" 2>&1 || continue
        has_libfuzzer && return 0
    done
    say "clang $major has no libFuzzer; the fuzz smoke will be skipped"
}

has_torch() { # PYTHON
    "$1" -I -c 'import sys, torch; sys.exit(sys.version_info < (3, 10))' >/dev/null 2>&1
}

pip_install() { "$venv/bin/python" -m pip install --quiet --disable-pip-version-check "$@"; }

# The build without CUDA is a tenth of the size; it has a version of its own, which not every
# package index carries.
install_torch() {
    if [ ! -e /proc/driver/nvidia/version ] &&
        pip_install "torch==$torch_version+cpu" >"$log" 2>&1; then
        return 0
    fi
    quietly pip_install "torch==$torch_version"
}

make_environment() {
    if [ ! -x "$venv/bin/python" ]; then
        quietly python3 -m venv "$venv"
    fi
    find_meson >/dev/null || quietly pip_install 'meson>=1.0'
    has_torch "$venv/bin/python" && return 0
    say "installing torch $torch_version into .venv (once; some minutes)"
    quietly pip_install numpy ninja setuptools
    install_torch
    has_torch "$venv/bin/python" ||
        die "torch was installed into .venv and cannot be imported: $venv/bin/python -c 'import torch'"
}

# Prints the interpreter to use.
choose_python() {
    if [ -n "${KBV_PYTHON:-}" ]; then
        has_torch "$KBV_PYTHON" || die "KBV_PYTHON=$KBV_PYTHON: not a Python >= 3.10 with torch"
        python=$(command -v "$KBV_PYTHON")
    elif has_torch "$venv/bin/python"; then
        python=$venv/bin/python
    elif has_torch python3 && find_meson >/dev/null; then
        python=$(python3 -c 'import sys; print(sys.executable)')
    else
        make_environment
        python=$venv/bin/python
    fi
}

is_done && exit 0
install_packages
install_fuzzer
choose_python
echo "$python" >"$build/python"
fingerprint >"$stamp"
rm -f "$log"
say "ready: $("$python" --version), torch $("$python" -I -c 'import torch; print(torch.__version__)'), $python"
