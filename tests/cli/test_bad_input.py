"""Files that are no problem, machines that cannot judge: exit status 2 or 3, and why."""

import contextlib
import ctypes
import os
import unittest

from harness import CANDIDATE, EVAL, PROBLEM, PYTHON, Case


class BadInput(Case):
    """Exit status 2: whoever called kbv can mend it."""

    def setUp(self):
        super().setUp()
        self.good_problem = self.write("problem.py", PROBLEM)
        self.good_candidate = self.write("candidate.py", CANDIDATE)

    def refuse_problem(self, content, *said):
        path = self.write("bad.py", content)
        result = self.kbv(*EVAL, path, self.good_candidate, "--json=-")
        self.assert_refused(result, 2, "bad.py", *said)

    def test_no_such_file(self):
        missing = self.directory / "missing.py"
        for files in ((missing, self.good_candidate), (self.good_problem, missing)):
            with self.subTest(files=files):
                result = self.kbv(*EVAL, *files, "--json=-")
                self.assert_refused(result, 2, "missing.py", "No such file")

    def test_directory(self):
        for files in ((self.home, self.good_candidate), (self.good_problem, self.home)):
            with self.subTest(files=files):
                result = self.kbv(*EVAL, *files, "--json=-")
                self.assert_refused(result, 2, str(self.home), "directory")

    def test_file_that_never_ends(self):
        """Refused by what it is, before reading it."""
        result = self.kbv(*EVAL, "/dev/zero", self.good_candidate, "--json=-", deadline_s=60)
        self.assert_refused(result, 2, "/dev/zero")

    def test_problem_that_is_not_utf8(self):
        self.refuse_problem(b"# caf\xe9\n" + PROBLEM.encode(), "UTF-8")

    def test_problem_with_a_syntax_error(self):
        self.refuse_problem("import torch\n\ndef broken(:\n    pass\n", "bad.py:3")

    def test_empty_problem(self):
        self.refuse_problem("")

    def test_problem_without_model(self):
        self.refuse_problem(PROBLEM.replace("class Model(", "class Models("), "Model")

    def test_problem_without_get_inputs(self):
        self.refuse_problem(PROBLEM.replace("def get_inputs(", "def inputs("), "get_inputs")

    def test_full_disk(self):
        """A file system without room for scratch."""
        if os.geteuid() != 0:
            raise unittest.SkipTest("needs root, to mount a small file system")
        libc = ctypes.CDLL(None, use_errno=True)
        target = str(self.scratch).encode()
        if libc.mount(b"tmpfs", target, b"tmpfs", 0, b"size=16k,nr_inodes=64") != 0:
            raise unittest.SkipTest(f"cannot mount: {os.strerror(ctypes.get_errno())}")
        self.addCleanup(libc.umount2, target, 2)
        filler = os.open(self.scratch / "filler", os.O_WRONLY | os.O_CREAT)
        with contextlib.suppress(OSError):
            while os.write(filler, b"\0" * 4096):
                pass
        os.close(filler)
        result = self.kbv(*EVAL, self.good_problem, self.good_candidate, "--json=-")
        (self.scratch / "filler").unlink()
        self.assertIn(result.status, (2, 3), str(result))
        self.assert_refused(result, result.status, "No space left")

    def test_scratch_that_cannot_be_made(self):
        result = self.kbv(*EVAL, self.good_problem, self.good_candidate, TMPDIR="/nonexistent")
        self.assertIn(result.status, (2, 3), str(result))
        self.assert_refused(result, result.status, "/nonexistent")


class UnfitMachine(Case):
    """Exit status 3: nothing is wrong with the files."""

    def refuse(self, *options, said):
        result = self.kbv(
            *EVAL,
            self.write("problem.py", PROBLEM),
            self.write("candidate.py", CANDIDATE),
            "--json=-",
            *options,
        )
        self.assert_refused(result, 3, *said)

    def test_python_without_torch(self):
        bare = self.write("bare", f'#!/bin/sh\nexec "{PYTHON}" -S "$@"\n')
        bare.chmod(0o755)
        self.refuse(f"--python={bare}", said=["torch"])

    def test_python_that_is_none(self):
        other = self.write("other", "#!/bin/sh\nexit 0\n")
        other.chmod(0o755)
        self.refuse(f"--python={other}", said=[str(other)])

    def test_no_gpu(self):
        if self.kbv("doctor", "--device=cuda", "--json=-").status == 0:
            raise unittest.SkipTest("there is a GPU")
        self.refuse("--device=cuda", said=["CUDA"])

    def test_no_such_gpu(self):
        self.refuse("--device=cuda:999", said=[])
