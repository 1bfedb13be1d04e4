# shellcheck shell=bash
# Sourced by the other scripts: which meson to use.
#
# Meson 1.0 is the oldest that meson.build takes. Where the distribution's is older, setup.sh puts
# a newer one into the virtual environment, and that one is used.

repository=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

is_new_enough() { # VERSION MINIMUM
    [ "$(printf '%s\n%s\n' "$2" "$1" | sort -V | head -n 1)" = "$2" ]
}

find_meson() {
    local candidate
    for candidate in meson "$repository/.venv/bin/meson"; do
        if command -v "$candidate" >/dev/null &&
            is_new_enough "$("$candidate" --version 2>/dev/null)" 1.0; then
            echo "$candidate"
            return 0
        fi
    done
    return 1
}

run_meson() {
    local meson
    if ! meson=$(find_meson); then
        echo 'there is no meson >= 1.0; run scripts/setup.sh' >&2
        return 1
    fi
    "$meson" "$@"
}
