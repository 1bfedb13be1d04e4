"""Builds kbv and runs every test; the last line is `N passed, N failed, N skipped`.

    python3 scripts/check.py [--build DIRECTORY] [--only SUITE]... [--list]

A suite is one row of SUITES below. Each runs in processes of its own, under a deadline, and hands
back counts; a suite that hands back none has failed. What is skipped is listed with its reason.
"""

import argparse
import contextlib
import dataclasses
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
SANITIZE = ROOT / "build-check-sanitize"
FUZZ = ROOT / "build-check-fuzz"
FUZZ_SECONDS = 20
# The judge's own paths, which is what sanitizers look at: most end before anything is timed.
SANITIZED_PATTERNS = [
    "test_doctor",
    "test_help",
    "test_usage",
    "test_bad_input",
    "test_verdicts.Crashing",
    "test_verdicts.Verified.test_honest",
]
SANITIZER_ENVIRONMENT = {
    "ASAN_OPTIONS": "abort_on_error=1:detect_leaks=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "halt_on_error=1:abort_on_error=1:print_stacktrace=1",
}


@dataclasses.dataclass
class Outcome:
    passed: int = 0
    failed: list = dataclasses.field(default_factory=list)
    skipped: list = dataclasses.field(default_factory=list)  # (name, reason)

    def add(self, other):
        self.passed += other.passed
        self.failed += other.failed
        self.skipped += other.skipped


class Context:
    """What suites need to know: where things are, and how to run a command."""

    def __init__(self, build):
        self.build = build
        self.kbv = build / "kbv"
        recorded = build / "python"
        self.python = os.environ.get("KBV_PYTHON") or (
            recorded.read_text().strip() if recorded.exists() else sys.executable
        )
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="kbv-check-"))

    def run(self, command, deadline_s, environment=None):
        """Runs a command from the repository's root. Returns its status; None at the deadline,
        after killing everything that it started."""
        with subprocess.Popen(
            [str(word) for word in command],
            cwd=ROOT,
            env={**os.environ, **(environment or {})},
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        ) as process:
            try:
                return process.wait(deadline_s)
            except subprocess.TimeoutExpired:
                print(f"  no end after {deadline_s} s: {command[0]}", flush=True)
                return None
            finally:
                # The session's group: also what a suite that ended left behind.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, 9)


def build(context, directory, *options):
    status = context.run([ROOT / "scripts/build.sh", directory, *options], 1200)
    if status != 0:
        return Outcome(failed=[f"build of {directory.name}"])
    return Outcome()


# --- C: programs that Meson knows, most of them cmocka -------------------------------------------

CASE = re.compile(r"^(not )?ok (\d+)(?: -)? ?(.*)$")


def cases_of(test):
    """The cases of one test program: cmocka's, which says them as TAP, or the program as one."""
    name = test["name"].rpartition(" / ")[2]
    outcome = Outcome()
    seen = 0
    for line in (test.get("stdout") or "").splitlines():
        match = CASE.match(line)
        if not match:
            continue
        seen += 1
        failed, _, text = match.groups()
        skip = re.search(r"# SKIP ?(.*)", text)
        if skip:
            outcome.skipped.append((f"{name}: {skip.group(1) or 'case'}", "the test said so"))
        elif failed:
            outcome.failed.append(f"{name}: {text}")
        else:
            outcome.passed += 1
    if test["result"] == "SKIP" and not outcome.skipped:
        said = (test.get("stdout") or "").strip()
        outcome.skipped.append((name, said.rpartition("# SKIP ")[2] or "it does not say why"))
    elif test["result"] not in ("OK", "SKIP") and not outcome.failed:
        # A crash or the deadline ends a program between its cases.
        outcome.failed.append(f"{name}: {test['result']}, exit status {test['returncode']}")
    elif not seen and test["result"] == "OK":
        outcome.passed += 1
    return outcome


def meson_tests(context, directory, environment=None, words=()):
    log = directory / "meson-logs/testlog.json"
    log.unlink(missing_ok=True)
    status = context.run(
        [
            "bash",
            "-c",
            '. scripts/tools.sh && run_meson test -C "$@"',
            "meson-test",
            directory,
            "--print-errorlogs",
            *words,
        ],
        900,
        {"CMOCKA_MESSAGE_OUTPUT": "TAP", **(environment or {})},
    )
    outcome = Outcome()
    if log.exists():
        with open(log, encoding="utf-8") as file:
            for line in file:
                outcome.add(cases_of(json.loads(line)))
    if not outcome.passed or (status != 0 and not outcome.failed):
        outcome.failed.append(f"meson test in {directory.name}: exit status {status}")
    return outcome


def unit(context):
    return meson_tests(context, context.build, words=("--no-suite", "device"))


def sanitize_build(context):
    # -Db_lundef: the worker's module takes Python's symbols from whoever loads it. No -Dwerror:
    # what sanitizers add to the code makes gcc warn of null pointers that cannot be.
    return build(
        context,
        SANITIZE,
        "-Db_sanitize=address,undefined",
        "-Db_lundef=false",
        "-Doptimization=1",
        "-Dwerror=false",
    )


def unit_sanitized(context):
    outcome = sanitize_build(context)
    if not outcome.failed:
        outcome.add(meson_tests(context, SANITIZE, SANITIZER_ENVIRONMENT, ("--no-suite", "device")))
    return outcome


# --- Python: the worker's own tests, and the command line's --------------------------------------


def python_tests(context, directory, environment=None, patterns=(), deadline_s=1800):
    tests = ROOT / "tests" / directory
    if not list(tests.glob("test_*.py")):
        return Outcome(failed=[f"tests/{directory}: no tests there"])
    result = context.scratch / f"{directory}-{len(list(context.scratch.iterdir()))}.json"
    status = context.run(
        [context.python, ROOT / "scripts/run-unittest.py", "--result", result, tests, *patterns],
        deadline_s,
        {
            "KBV": str(context.kbv),
            "KBV_PYTHON": context.python,
            "KBV_LIBDIR": str(context.build / "src/worker"),
            "PYTHONDONTWRITEBYTECODE": "1",
            **(environment or {}),
        },
    )
    if not result.exists():
        return Outcome(failed=[f"tests/{directory}: no result, exit status {status}"])
    counts = json.loads(result.read_text())
    outcome = Outcome(
        counts["passed"], counts["failed"], [tuple(skip) for skip in counts["skipped"]]
    )
    if status != 0 and not outcome.failed:
        outcome.failed.append(f"tests/{directory}: exit status {status}")
    if not outcome.passed and not outcome.failed and not outcome.skipped:
        outcome.failed.append(f"tests/{directory}: nothing ran")
    return outcome


def worker(context):
    return python_tests(context, "worker")


def command_line(context):
    return python_tests(context, "cli")


def command_line_sanitized(context):
    """The judge with sanitizers; its workers are the plain build's, because a module with them
    cannot be loaded into a Python without."""
    outcome = sanitize_build(context)
    if not outcome.failed:
        outcome.add(
            python_tests(
                context,
                "cli",
                {"KBV": str(SANITIZE / "kbv"), **SANITIZER_ENVIRONMENT},
                SANITIZED_PATTERNS,
            )
        )
    return outcome


# --- Attacks, malformed bytes, GPUs --------------------------------------------------------------


def red_team(context):
    """Every bundled example, honest or not, gets the verdict that its manifest demands."""
    command = [context.kbv, "demo", "--all", "--timeout", "25", "--device", "cpu", "--python", context.python]
    listing = subprocess.run(
        [*command, "--list"], capture_output=True, text=True, check=False, timeout=60
    )
    listed = [line.split()[0] for line in listing.stdout.splitlines() if line.strip()]
    if listing.returncode != 0 or not listed:
        return Outcome(failed=[f"kbv demo --list: {listing.stderr.strip()[-200:]}"])
    path = context.scratch / "redteam.jsonl"
    status = context.run([*command, "--json", path], 3600)
    outcome = Outcome()
    judged = set()
    for line in path.read_text().splitlines() if path.exists() else []:
        row = json.loads(line)
        judged.add(row["id"])
        if row["as_expected"]:
            outcome.passed += 1
        else:
            said = row["evaluation"]
            outcome.failed.append(
                f"{row['id']}: {said['verdict']} ({said['reason']}), expected {row['expected']}"
            )
    if status not in (0, 1):
        outcome.failed.append(f"kbv demo: exit status {status}")
    else:
        outcome.skipped += [
            (name, "an example for another device") for name in listed if name not in judged
        ]
    return outcome


def fuzz(context):
    clang = shutil.which("clang")
    if not clang:
        return Outcome(skipped=[("fuzz", "there is no clang")])
    probe = context.scratch / "probe.c"
    probe.write_text(
        "#include <stddef.h>\n#include <stdint.h>\n"
        "int LLVMFuzzerTestOneInput(const uint8_t *d, size_t n) { return d && n > 9; }\n"
    )
    probe_command = [
        clang,
        "-fsanitize=fuzzer,address,undefined",
        probe,
        "-o",
        probe.with_suffix(""),
    ]
    if subprocess.run(probe_command, capture_output=True, check=False).returncode != 0:
        return Outcome(skipped=[("fuzz", f"{clang} has no libFuzzer with sanitizers")])

    status = context.run(
        [
            "env",
            "CC=clang",
            ROOT / "scripts/build.sh",
            FUZZ,
            "-Dfuzz=true",
            "-Db_sanitize=address,undefined",
            "-Db_lundef=false",
            "fuzz-targets",
        ],
        900,
    )
    if status != 0:
        return Outcome(failed=["build of the fuzz targets"])
    outcome = Outcome()
    for target in sorted((FUZZ / "tests/fuzz").glob("fuzz-*")):
        if target.is_dir() or not os.access(target, os.X_OK):
            continue
        name = target.name.removeprefix("fuzz-")
        grown = context.scratch / f"corpus-{name}"  # what it finds stays out of the repository
        grown.mkdir()
        status = context.run(
            [
                target,
                f"-max_total_time={FUZZ_SECONDS}",
                "-timeout=5",
                "-rss_limit_mb=2048",
                "-verbosity=0",
                "-print_final_stats=1",
                f"-artifact_prefix={FUZZ}/crash-{name}-",
                grown,
                ROOT / "tests/fuzz/corpus" / name,
            ],
            FUZZ_SECONDS + 60,
        )
        if status == 0:
            outcome.passed += 1
        else:
            outcome.failed.append(
                f"fuzz {name}: exit status {status}, input in {FUZZ}/crash-{name}-*"
            )
    if not outcome.passed and not outcome.failed:
        outcome.failed.append("fuzz: no target was built")
    return outcome


def device(context):
    command = [
        str(context.kbv),
        "doctor",
        "--device",
        "cuda",
        "--python",
        context.python,
        "--json",
        "-",
    ]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    if answer.returncode != 0:
        try:
            reason = (
                json.loads(answer.stdout)["no_gpu"] or "kbv doctor --device cuda says not ready"
            )
        except (ValueError, KeyError):
            return Outcome(failed=[f"device: kbv doctor: {answer.stderr.strip()[-200:]}"])
        return Outcome(skipped=[("device", f"no GPU to test on: {reason}")])
    subprocess.run(["ninja", "-C", context.build, "src/device/device_selftest"], check=True)
    done = subprocess.run(
        [sys.executable, ROOT / "tests/device/run.py"],
        capture_output=True, text=True, check=False, timeout=3600,
    )
    print(done.stdout, flush=True)
    counts = re.findall(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", done.stdout, re.M)
    if not counts:
        return Outcome(failed=[f"tests/device/run.py: {done.stderr.strip()[-200:]}"])
    passed, failed, skipped = (int(count) for count in counts[-1])
    return Outcome(
        passed=passed,
        failed=["tests/device: see above"] * failed,
        skipped=[("device", "an example that is not for a GPU")] * skipped,
    )


SUITES = {
    "unit": unit,
    "unit-sanitized": unit_sanitized,
    "worker": worker,
    "cli": command_line,
    "cli-sanitized": command_line_sanitized,
    "redteam": red_team,
    "fuzz": fuzz,
    "device": device,
}


def report(total):
    for name, reason in total.skipped:
        print(f"skipped: {name}: {reason}")
    for name in total.failed:
        print(f"FAILED: {name}")
    print(
        f"{total.passed} passed, {len(total.failed)} failed, {len(total.skipped)} skipped",
        flush=True,
    )


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", default="build", type=pathlib.Path)
    parser.add_argument("--only", action="append", choices=list(SUITES), metavar="SUITE")
    parser.add_argument("--list", action="store_true", help="print the suites' names")
    arguments = parser.parse_args()
    if arguments.list:
        print("\n".join(SUITES))
        return 0

    context = Context((ROOT / arguments.build).resolve())
    total = Outcome()
    try:
        print("== build", flush=True)
        total.add(build(context, context.build, "-Dwerror=true"))
        if not total.failed:
            for name in arguments.only or SUITES:
                print(f"\n== {name}", flush=True)
                start = time.monotonic()
                outcome = SUITES[name](context)
                total.add(outcome)
                print(
                    f"== {name}: {outcome.passed} passed, {len(outcome.failed)} failed, "
                    f"{len(outcome.skipped)} skipped in {time.monotonic() - start:.0f} s",
                    flush=True,
                )
    finally:
        shutil.rmtree(context.scratch, ignore_errors=True)
    print()
    report(total)
    return 1 if total.failed else 0


if __name__ == "__main__":
    sys.exit(main())
