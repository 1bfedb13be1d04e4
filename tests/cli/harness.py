"""Runs kbv as a user would, and sees to it that nothing is left behind.

Every test has a directory of its own, which is also the TMPDIR and the home of the kbv that it
runs. After each test that directory's scratch must be empty, no process may be left, and no shared
memory. $KBV names the executable (build/kbv), $KBV_PYTHON an interpreter that has torch.
"""

import contextlib
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
KBV = pathlib.Path(os.environ.get("KBV", ROOT / "build/kbv"))
PYTHON = os.environ.get("KBV_PYTHON", sys.executable)
GOLDEN = pathlib.Path(__file__).resolve().parent / "golden"

# An evaluation on two cores takes some ten seconds; the rest is room for a busy machine.
DEADLINE_S = 240
# The CPU also where there is a GPU: tests/device is for that one.
EVAL = ("eval", "--device=cpu")
DOCUMENT_MAX_BYTES = 1 << 20
PR_SET_CHILD_SUBREAPER = 36

# Orphans of kbv become children of the test, where they can be seen.
if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
    raise OSError(ctypes.get_errno(), "prctl(PR_SET_CHILD_SUBREAPER)")

PROBLEM = """
    import torch
    import torch.nn as nn


    class Model(nn.Module):
        def __init__(self, slope):
            super().__init__()
            self.slope = slope

        def forward(self, x, y):
            return torch.where(x > 0, x, x * self.slope) + y


    def get_inputs():
        return [torch.randn(64, 256), torch.randn(64, 256)]


    def get_init_inputs():
        return [0.25]
"""

CANDIDATE = """
    import torch
    import torch.nn as nn


    class ModelNew(nn.Module):
        def __init__(self, slope):
            super().__init__()
            self.slope = slope

        def forward(self, x, y):
            return torch.maximum(x, x * self.slope) + y
"""


def candidate_with(body, head="", constructor="self.slope = slope"):
    """A candidate whose forward(self, x, y) is `body`."""
    return "\n".join(
        [
            textwrap.dedent(head),
            "import torch",
            "import torch.nn as nn",
            "class ModelNew(nn.Module):",
            "    def __init__(self, slope):",
            "        super().__init__()",
            textwrap.indent(textwrap.dedent(constructor).strip("\n"), " " * 8),
            "    def forward(self, x, y):",
            textwrap.indent(textwrap.dedent(body).strip("\n"), " " * 8),
            "",
        ]
    )


class Result:
    """How one run of kbv ended. `status` is the exit status, or minus the signal."""

    def __init__(self, status, stdout, stderr):
        self.status = status
        self.stdout = stdout
        self.stderr = stderr

    def __str__(self):
        return (
            f"status {self.status}\n--- stdout\n{self.stdout[-4000:]}\n"
            f"--- stderr\n{self.stderr[-4000:]}"
        )


def refuse_constant(name):
    raise ValueError(f"{name} is not JSON")


def children():
    """The living children of this process: pid -> command."""
    found = {}
    for task in pathlib.Path("/proc/self/task").iterdir():
        for word in (task / "children").read_text().split():
            try:
                stat = pathlib.Path("/proc", word, "stat").read_text()
                command = pathlib.Path("/proc", word, "cmdline").read_bytes()
            except (FileNotFoundError, ProcessLookupError):
                continue
            state = stat.rpartition(")")[2].split()[0]
            if state == "Z":
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(int(word), os.WNOHANG)
            else:
                found[int(word)] = command.replace(b"\0", b" ").decode(errors="replace")
    return found


def shared_memory():
    """Names of shared memory, POSIX and System V."""
    names = set()
    if os.path.isdir("/dev/shm"):
        names |= {f"/dev/shm/{name}" for name in os.listdir("/dev/shm") if "kbv" in name}
    try:
        lines = pathlib.Path("/proc/sysvipc/shm").read_text().splitlines()[1:]
        names |= {"shmid " + line.split()[1] for line in lines}
    except FileNotFoundError:
        pass
    return names


def wait_until(condition, seconds):
    """The condition's first true value, or its last false one."""
    end = time.monotonic() + seconds
    while True:
        value = condition()
        if value or time.monotonic() > end:
            return value
        time.sleep(0.05)


class Case(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.directory = pathlib.Path(tempfile.mkdtemp(prefix="cli-test-"))
        self.addCleanup(shutil.rmtree, self.directory, ignore_errors=True)
        self.scratch = self.directory / "tmp"
        self.home = self.directory / "home"
        self.scratch.mkdir()
        self.home.mkdir()
        self.shared_memory_before = shared_memory()

    def tearDown(self):
        self.check_nothing_is_left()

    def check_nothing_is_left(self, grace_s=5):
        """Fails where a process, a file or shared memory outlived kbv."""
        left = {}

        def is_clean():
            left.clear()
            left.update({f"process {pid}": command for pid, command in children().items()})
            left.update({f"file {path}": "" for path in self.scratch.iterdir()})
            left.update({name: "" for name in shared_memory() - self.shared_memory_before})
            return not left

        wait_until(is_clean, grace_s)
        for name in left:
            if name.startswith("process "):  # not the next test's burden
                os.kill(int(name.split()[1]), signal.SIGKILL)
        self.assertEqual(left, {}, "left behind")
        # Builds may be kept for the next time; nothing else belongs into a home.
        kept = {str(path.relative_to(self.home)) for path in self.home.glob("*/*")}
        self.assertLessEqual(kept, {".cache/kbv"}, "left in the home directory")

    def write(self, name, text):
        """A file of the test; text is dedented, bytes are taken as they are."""
        path = self.directory / name
        if isinstance(text, bytes):
            path.write_bytes(text)
        else:
            path.write_text(textwrap.dedent(text))
        return path

    def environment(self, **changes):
        environment = {
            **os.environ,
            "TMPDIR": str(self.scratch),
            "HOME": str(self.home),
            "KBV_PYTHON": PYTHON,
            "LC_ALL": "C.UTF-8",
        }
        environment.pop("XDG_CACHE_HOME", None)
        for name, value in changes.items():
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = value
        return environment

    def command(self, *arguments, **environment):
        """What os.execve() takes."""
        words = [str(KBV), *map(str, arguments)]
        return words[0], words, self.environment(**environment)

    def start(self, *arguments, **environment):
        """Starts kbv; the caller ends it with finish()."""
        _, words, whole_environment = self.command(*arguments, **environment)
        process = subprocess.Popen(
            words,
            cwd=self.directory,
            env=whole_environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        self.addCleanup(self.end, process)
        return process

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.communicate()

    def finish(self, process, deadline_s=DEADLINE_S):
        try:
            out, err = process.communicate(timeout=deadline_s)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            self.fail(f"no end after {deadline_s} s\n{Result(None, out.decode(), err.decode())}")
        # Whatever was printed must be text.
        return Result(process.returncode, out.decode("utf-8"), err.decode("utf-8"))

    def kbv(self, *arguments, deadline_s=DEADLINE_S, **environment):
        return self.finish(self.start(*arguments, **environment), deadline_s)

    def document(self, result):
        """The one JSON document that stdout must be."""
        self.assertLess(len(result.stdout.encode()), DOCUMENT_MAX_BYTES, "size of the document")
        self.assertTrue(result.stdout.endswith("\n"), str(result))
        try:
            return json.loads(result.stdout, parse_constant=refuse_constant)
        except ValueError as error:
            self.fail(f"{error}\n{result}")

    def evaluate(self, candidate=CANDIDATE, problem=PROBLEM, *options, **environment):
        """Judges two texts; returns the document, with the exit status in document["status"]."""
        result = self.kbv(
            *EVAL,
            self.write("problem.py", problem),
            self.write("candidate.py", candidate),
            "--json=-",
            "--seed=20",
            "--time-cap=2",
            *options,
            **environment,
        )
        self.assertIn(result.status, (0, 1), str(result))
        document = self.document(result)
        self.assertEqual(document["schema"], "kbv.evaluation/1")
        self.assertEqual(
            result.status, 0 if document["verdict"] == "verified" else 1, "exit status"
        )
        document["status"] = result.status
        return document

    def assert_verdict(self, document, verdict, *said):
        """The verdict, and texts that its reason must hold."""
        shown = json.dumps(
            {key: document[key] for key in ("verdict", "reason", "build_log", "candidate_output")},
            indent=1,
        )
        self.assertEqual(document["verdict"], verdict, shown)
        for text in said:
            self.assertIn(text, document["reason"], shown)

    def assert_refused(self, result, status, *said):
        """Ended with `status`, said why on stderr in a few lines, and nothing on stdout."""
        self.assertEqual(result.status, status, str(result))
        self.assertEqual(result.stdout, "", str(result))
        self.assertTrue(result.stderr.startswith("kbv"), str(result))
        self.assertLess(result.stderr.count("\n"), 12, str(result))
        self.assertNotIn("Traceback", result.stderr)
        for text in said:
            self.assertIn(text, result.stderr, str(result))
