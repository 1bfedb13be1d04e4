"""What the judge is linked to, what it maps, and that it leaves nothing behind."""

import os
import pathlib
import re
import signal
import subprocess
import time

from harness import CANDIDATE, EVAL, KBV, PROBLEM, Case, candidate_with, wait_until

FOREIGN = re.compile(r"lib(python|cuda|cudart|torch|c10|nvidia|nvrtc|cupti)", re.IGNORECASE)
# Says that it is in its forward pass, by a file in the only directory that it may write to.
SLOW = candidate_with(
    "open(os.path.join(tempfile.gettempdir(), 'kbv-test-started'), 'w').close()\n"
    "time.sleep(600)\nreturn x",
    "import os, tempfile, time",
)


class Links(Case):
    def test_dynamic_section(self):
        """No interpreter, no CUDA, no torch: what crashes in them cannot take the judge along."""
        listing = subprocess.run(
            ["readelf", "-dW", str(KBV)], capture_output=True, text=True, check=True
        ).stdout
        needed = re.findall(r"\(NEEDED\).*\[(.*)\]", listing)
        self.assertIn("libc.so.6", needed)
        self.assertEqual([name for name in needed if FOREIGN.match(name)], [])
        self.assertNotRegex(listing, r"\((RPATH|RUNPATH)\).*torch")


class Traces(Case):
    """tearDown of every Case checks for traces; these are the ways to end that leave most."""

    def start_slow(self):
        process = self.start(
            *EVAL,
            self.write("problem.py", PROBLEM),
            self.write("candidate.py", SLOW),
            "--json=-",
            "--timeout=300",
        )

        def has_started():
            return process.poll() is not None or any(
                "kbv-test-started" in files for _, _, files in os.walk(self.scratch)
            )

        self.assertTrue(wait_until(has_started, 120), "the candidate's forward did not start")
        if process.poll() is not None:
            self.fail(f"ended early: {self.finish(process)}")
        return process

    def test_maps_while_judging(self):
        process = self.start_slow()
        maps = pathlib.Path(f"/proc/{process.pid}/maps").read_text()
        names = {
            pathlib.Path(line.split(None, 5)[5]).name
            for line in maps.splitlines()
            if len(line.split(None, 5)) == 6
        }
        self.assertTrue(any(name.startswith("libc.so") for name in names), names)
        self.assertEqual([name for name in names if FOREIGN.match(name)], [])
        process.send_signal(signal.SIGTERM)
        self.finish(process, 60)

    def test_scratch_has_our_name_and_is_ours_alone(self):
        process = self.start_slow()
        for path in self.scratch.iterdir():
            self.assertRegex(path.name, "^kbv-")
            self.assertEqual(path.stat().st_mode & 0o077, 0, oct(path.stat().st_mode))
        process.send_signal(signal.SIGTERM)
        self.finish(process, 60)

    def interrupt(self, number):
        process = self.start_slow()
        start = time.monotonic()
        process.send_signal(number)
        result = self.finish(process, 60)
        self.assertLess(time.monotonic() - start, 30)
        self.assertEqual(result.stdout, "", "an interrupted judgement is none")
        return result

    def test_interrupted(self):
        self.assertIn(self.interrupt(signal.SIGINT).status, (130, -signal.SIGINT))

    def test_terminated(self):
        self.assertIn(self.interrupt(signal.SIGTERM).status, (130, 143, -signal.SIGTERM))

    def test_killed(self):
        self.assertEqual(self.interrupt(signal.SIGKILL).status, -signal.SIGKILL)
        self.check_nothing_is_left(grace_s=15)

    def test_timed_out_with_children(self):
        """Processes that leave the candidate's group and session go with it all the same."""
        loose = candidate_with(
            "for turn in range(4):\n"
            "    if os.fork() == 0:\n"
            "        os.setsid()\n"
            "        if os.fork() == 0:\n"
            "            while True: time.sleep(1)\n"
            "        os._exit(0)\n"
            "time.sleep(600)",
            "import os, time",
        )
        document = self.evaluate(loose, PROBLEM, "--timeout=3")
        self.assertIn(document["verdict"], ("timed_out", "crashed"), document["reason"])

    def test_files_everywhere(self):
        """What a candidate writes where it may, with names and modes that make removal hard."""
        messy = candidate_with(
            "return torch.maximum(x, x * self.slope) + y",
            "import os, tempfile\n"
            "base = os.path.join(tempfile.gettempdir(), 'locked')\n"
            "os.makedirs(os.path.join(base, *['deep'] * 100), exist_ok=True)\n"
            "open(os.path.join(base, 'odd\\nname \\udcff'), 'w').close()\n"
            "os.symlink('/', os.path.join(base, 'everything'))\n"
            "os.mkfifo(os.path.join(base, 'pipe'))\n"
            "os.chmod(base, 0)\n",
        )
        self.assert_verdict(self.evaluate(messy), "verified")

    def test_two_at_once(self):
        """Evaluations that run side by side do not see each other."""
        files = (self.write("problem.py", PROBLEM), self.write("candidate.py", CANDIDATE))
        options = ("--json=-", "--time-cap=2")
        running = [self.start(*EVAL, *files, *options) for _ in range(2)]
        for process in running:
            result = self.finish(process)
            self.assertEqual(self.document(result)["verdict"], "verified", str(result))
