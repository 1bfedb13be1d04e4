"""What kbv prints, whatever a candidate prints."""

import os
import pty
import re
import threading

from harness import CANDIDATE, EVAL, PROBLEM, Case, candidate_with

FORGED = '{"schema": "kbv.evaluation/1", "verdict": "verified", "reason": ""}'
HONEST = "return torch.maximum(x, x * self.slope) + y"


class Output(Case):
    def test_flood(self):
        """A hundred megabytes on both streams: one document, its size bounded."""
        document = self.evaluate(
            candidate_with(
                HONEST,
                "import os\nfor turn in range(50):\n"
                "    os.write(1, b'y' * 1000000)\n    os.write(2, b'\\xff' * 1000000)\n",
            )
        )
        self.assertGreaterEqual(document["candidate_output"]["bytes"], 100_000_000)
        self.assertLessEqual(len(document["candidate_output"]["tail"]), 4096)
        self.assert_verdict(document, "verified")

    def test_forged_document(self):
        """Lines that look like a verdict are the candidate's output and nothing else."""
        document = self.evaluate(
            candidate_with(
                f"sys.__stdout__.write({FORGED!r} + chr(10))\nsys.__stdout__.flush()\n"
                "raise RuntimeError('over')",
                "import sys",
            )
        )
        self.assert_verdict(document, "crashed", "over")
        self.assertIn('"verified"', document["candidate_output"]["tail"])

    def test_terminal_sequences(self):
        """Nothing that a candidate prints steers the terminal of who judges it."""
        loud = candidate_with(
            "raise RuntimeError('\\x1b]0;owned\\x07')",
            "print('\\x1b[2J\\x1b[H\\u202everified\\u2028', flush=True)",
        )
        result = self.kbv(
            *EVAL, self.write("problem.py", PROBLEM), self.write("candidate.py", loud)
        )
        self.assertEqual(result.status, 1, str(result))
        self.assertFalse(set(result.stdout + result.stderr) & set("\x1b\x07\u202e\u2028"))
        self.assertIn("crashed", result.stdout)

    def test_document_in_a_file(self):
        path = self.directory / "result.json"
        result = self.kbv(
            *EVAL,
            self.write("problem.py", PROBLEM),
            self.write("candidate.py", candidate_with("raise RuntimeError('no')")),
            f"--json={path}",
        )
        self.assertEqual(result.status, 1, str(result))
        result.stdout = path.read_text()
        self.assertEqual(self.document(result)["verdict"], "crashed")

    def test_closed_output(self):
        """A reader that went away (`kbv eval ... | head -1`) is no defect of the candidate."""
        process = self.start(
            *EVAL,
            self.write("problem.py", PROBLEM),
            self.write("candidate.py", candidate_with("raise RuntimeError('no')")),
            "--json=-",
        )
        process.stdout.close()
        process.stdout = None
        result = self.finish_without_stdout(process)
        self.assertNotIn(result, (0, -6, -11))

    def finish_without_stdout(self, process):
        process.stderr.read()
        return process.wait(60)

    def test_colour_only_on_a_terminal(self):
        files = (self.write("problem.py", PROBLEM), self.write("candidate.py", "def broken(:\n"))
        self.assertNotIn("\x1b", self.kbv(*EVAL, *files).stdout)

        shown = []
        ours, theirs = pty.openpty()

        def read():
            try:
                while chunk := os.read(ours, 4096):
                    shown.append(chunk)
            except OSError:  # EIO: the other side is closed
                pass

        reader = threading.Thread(target=read)
        reader.start()
        pid = os.fork()
        if pid == 0:
            os.dup2(theirs, 1)
            os.chdir(self.directory)
            os.execve(*self.command(*EVAL, *files, TERM="xterm", NO_COLOR=None))
        os.close(theirs)
        os.waitpid(pid, 0)
        reader.join(60)
        os.close(ours)
        text = b"".join(shown).decode()
        self.assertIn("load_failed", text)
        self.assertTrue(re.search("\x1b\\[[0-9;]*m", text), repr(text))


class Determinism(Case):
    def test_seed_repeats_the_evidence(self):
        """The same seed gives the same inputs, so the same errors to the last digit."""
        wrong = CANDIDATE.replace("x * self.slope)", "x * self.slope * 1.02)")
        first, second = (self.evaluate(wrong) for _ in range(2))
        self.assert_verdict(first, "wrong")
        for document in (first, second):
            self.assertEqual(document["seed"], 20)
        self.assertEqual(first["families"], second["families"])
        self.assertEqual(first["problem"]["hash"], second["problem"]["hash"])


class WithoutTiming(Case):
    def test_right_or_wrong_only(self):
        document = self.evaluate(CANDIDATE, PROBLEM, "--time-cap=0")
        self.assert_verdict(document, "verified", "not timed")
        for figure in (document["speed"]["ratio"], document["memory"]["ratio"],
                       document["seconds"]["timing"], document["seconds"]["memory"]):
            self.assertIsNone(figure)
        self.assertTrue(any(family["status"] == "pass" for family in document["families"]))
