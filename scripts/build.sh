#!/bin/bash
# Configures a build directory where it is not yet, and builds it.
# Usage: scripts/build.sh DIRECTORY [MESON-OPTION...]
set -euo pipefail

. "$(dirname "$0")/tools.sh"
directory=$1
shift
cd "$repository"

if [ ! -f "$directory/build.ninja" ]; then
    run_meson setup "$directory" "$@" >"$directory.log" 2>&1 || {
        tail -n 30 "$directory.log" >&2
        exit 1
    }
    mv "$directory.log" "$directory/setup-meson.log"
elif [ "$#" -gt 0 ]; then
    run_meson configure "$directory" "$@"
fi
exec ninja -C "$directory"
