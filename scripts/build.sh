#!/bin/bash
# Configures a build directory where it is not yet, and builds it.
# Usage: scripts/build.sh DIRECTORY [-DMESON-OPTION...] [TARGET...]
set -euo pipefail

. "$(dirname "$0")/tools.sh"
directory=$1
shift
options=()
while [[ ${1:-} == -* ]]; do
    options+=("$1")
    shift
done
cd "$repository"

if [ ! -f "$directory/build.ninja" ]; then
    mkdir -p "$directory"
    run_meson setup "$directory" "${options[@]}" >"$directory/configure.log" 2>&1 || {
        tail -n 30 "$directory/configure.log" >&2
        exit 1
    }
elif [ "${#options[@]}" -gt 0 ]; then
    run_meson configure "$directory" "${options[@]}"
fi
exec ninja -C "$directory" "$@"
