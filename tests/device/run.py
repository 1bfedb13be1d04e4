"""Everything that needs a GPU, in one go; the last line is `N passed, N failed, N skipped`.

    python3 tests/device/run.py [--device cuda:N] [--out DIRECTORY]

Runs from a bundle (dist/tests/device/run.py) or from a build tree (build/). Each step has a
deadline. With --out, the evaluations of the examples are kept there as JSON lines.
"""

import argparse
import json
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent


def find(*names):
    """The first program of these names in a bundle or a build tree around this file."""
    for root in (HERE.parent.parent, HERE.parent.parent / "build"):
        for name in names:
            if (root / name).is_file():
                return str(root / name)
    sys.exit(f"tests/device: there is no {names[0]}; run `make bundle` or `make build` first")


def run(command, deadline_s):
    print("$", " ".join(command), flush=True)
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=deadline_s,
                              stdin=subprocess.DEVNULL, check=False)
        return done.returncode, done.stdout + done.stderr
    except subprocess.TimeoutExpired:
        return None, f"no end after {deadline_s} s"


def selftest(device):
    program = find("tests/device/device_selftest", "src/device/device_selftest")
    status, text = run([program, device], 300)
    found = re.findall(r"^(\d+) passed, (\d+) failed", text, re.M)
    if status is None or not found:
        print(text[-2000:])
        return 0, 1, 0
    return int(found[-1][0]), int(found[-1][1]), 0


def examples(device, out):
    path = out / "examples.jsonl"
    status, text = run([find("bin/kbv", "kbv"), "demo", "--all", "--device", device, "--timeout", "25",
                        "--json", str(path)], 3000)
    rows = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    failed = [row for row in rows if not row["as_expected"]]
    for row in failed:
        said = row["evaluation"]
        print(f"  {row['id']}: {said['verdict']} ({said['reason']}), expected {row['expected']}")
    if status not in (0, 1):
        print(text[-2000:])
    skipped = re.search(r"(\d+) not for this device", text)
    return (len(rows) - len(failed), len(failed) + (status not in (0, 1)),
            int(skipped.group(1)) if skipped else 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--out", type=pathlib.Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kbv-device-") as scratch:
        out = options.out or pathlib.Path(scratch)
        out.mkdir(parents=True, exist_ok=True)
        totals = [sum(column) for column in zip(selftest(options.device),
                                                examples(options.device, out))]
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] or not totals[0] else 0


if __name__ == "__main__":
    sys.exit(main())
