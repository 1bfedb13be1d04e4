#!/bin/bash
# Builds dist/: kbv for a machine where nothing can be installed. Everything but glibc is linked
# statically. Usage: scripts/bundle.sh [DIRECTORY]
#
#   dist/bin/kbv         the judge; finds the rest relative to itself
#   dist/lib/kbv/        the worker, for whatever CPython >= 3.10 has torch there
#   dist/share/kbv/      problems and red-team fixtures
#   dist/bench/, tests/  programs that measure and test on the device
set -euo pipefail

. "$(dirname "$0")/tools.sh"
cd "$repository"
dist=$(realpath -m "${1:-dist}")
build="build-bundle"
newest_glibc=2.36 # Debian 12's: the oldest system that is promised to run a bundle

# Not built from here, and there on every Linux that has a glibc.
glibc_libraries='^(libc|libm|libdl|librt|libpthread|ld-linux-[a-z0-9_-]+)\.so\.[0-9]+$'

die() {
    printf 'bundle: %s\n' "$*" >&2
    exit 1
}

elf_files() {
    find "$dist" -type f -print0 | while IFS= read -r -d '' file; do
        if [ "$(head -c 4 "$file" | tail -c 3)" = ELF ]; then
            printf '%s\0' "$file"
        fi
    done
}

needed_libraries() { readelf -dW "$1" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p'; }

glibc_version() { # the newest that any symbol asks for
    readelf -VW "$1" | grep -o 'GLIBC_[0-9][0-9.]*' | sed 's/GLIBC_//' | sort -V | tail -n 1
}

check_elf() {
    local library version
    for library in $(needed_libraries "$1"); do
        [[ $library =~ $glibc_libraries ]] || die "$1 needs $library"
    done
    version=$(glibc_version "$1")
    [ -z "$version" ] || is_new_enough "$newest_glibc" "$version" ||
        die "$1 needs glibc $version; $newest_glibc is the newest that is allowed"
}

copy_programs() { # from a folder of the build, the executables that are no test of units
    local from=$1 to=$2 file
    [ -d "$build/$from" ] || return 0
    mkdir -p "$to"
    find "$build/$from" -maxdepth 2 -type f -perm -u+x -not -name '*.so*' -print0 |
        while IFS= read -r -d '' file; do
            cp "$file" "$to/"
        done
    rmdir --ignore-fail-on-non-empty "$to"
}

scripts/build.sh "$build" -Dportable=true -Dbuildtype=release -Db_ndebug=false -Dprefix=/ \
    -Dlibdir=lib
rm -rf "$dist"
run_meson install -C "$build" --quiet --no-rebuild --destdir "$dist"
copy_programs bench "$dist/bench"
copy_programs tests/device "$dist/tests/device"
mkdir -p "$dist/bench" "$dist/tests/device"
cp "$build/src/device/device_bench" "$dist/bench/"
cp "$build/src/device/device_selftest" "$dist/tests/device/"
if [ -n "$(git ls-files 'tests/device/*.py')" ]; then
    mkdir -p "$dist/tests/device"
    git ls-files -z 'tests/device/*.py' | xargs -0 cp -t "$dist/tests/device"
fi

count=0
while IFS= read -r -d '' file; do
    strip --strip-unneeded "$file"
    check_elf "$file"
    count=$((count + 1))
done < <(elf_files)
[ "$count" -gt 0 ] || die "nothing was installed into $dist"
"$dist/bin/kbv" --version >/dev/null || die "$dist/bin/kbv does not start"
echo "$dist: $count binaries, $(du -sh "$dist" | cut -f1), needs glibc <= $newest_glibc and nothing else"
