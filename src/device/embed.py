"""Writes C that holds the texts of device sources: embed.py OUT.c SOURCE.cu..."""

import pathlib
import sys


def definition(path):
    """One `struct kernel_source`; bytes instead of a literal, which C bounds in length."""
    name = path.stem
    data = path.read_bytes() + b"\0"
    rows = (", ".join(map(str, data[i:i + 20])) for i in range(0, len(data), 20))
    body = ",\n    ".join(rows)
    return (f"static const char {name}_text[] = {{\n    {body}}};\n\n"
            f"const struct kernel_source kernel_source_{name} = "
            f"{{\"{path.name}\", {name}_text}};\n")


def main():
    out, *sources = map(pathlib.Path, sys.argv[1:])
    parts = ["#include \"device/cuda_kernels.h\"\n"]
    for path in sources:
        if not path.read_bytes().isascii():
            sys.exit(f"{path}: not plain ASCII")
        parts.append(definition(path))
    out.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
