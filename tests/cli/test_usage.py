"""Arguments that make no sense: exit status 2, what is wrong, and nothing is started."""

from harness import CANDIDATE, EVAL, PROBLEM, Case


class Usage(Case):
    def setUp(self):
        super().setUp()
        self.problem = self.write("problem.py", PROBLEM)
        self.candidate = self.write("candidate.py", CANDIDATE)

    def refuse(self, *options, said=()):
        result = self.kbv(*EVAL, self.problem, self.candidate, *options, deadline_s=30)
        self.assert_refused(result, 2, *said)

    def test_no_command(self):
        result = self.kbv(deadline_s=30)
        self.assertEqual(result.status, 2, str(result))
        self.assertEqual(result.stdout, "")
        self.assertIn("usage: kbv", result.stderr)

    def test_unknown_command(self):
        self.assert_refused(self.kbv("evaluate", deadline_s=30), 2, "evaluate")

    def test_unknown_flag(self):
        self.refuse("--fast", said=["--fast"])
        self.assert_refused(self.kbv("--fast", deadline_s=30), 2, "--fast")

    def test_flag_without_value(self):
        self.refuse("--device", said=["--device"])

    def test_too_few_and_too_many_files(self):
        self.assert_refused(self.kbv(*EVAL, deadline_s=30), 2)
        self.assert_refused(self.kbv(*EVAL, self.problem, deadline_s=30), 2)
        self.refuse(self.candidate)

    def test_unknown_device(self):
        for device in (
            "gpu",
            "cuda:",
            "cuda:x",
            "cuda:-1",
            "cuda:99999999999999999999",
            "cpu:x",
            "",
        ):
            with self.subTest(device):
                self.refuse(f"--device={device}", said=["--device"])

    def test_unknown_names(self):
        for option in ("--dtype", "--sandbox", "--baseline-matmul"):
            for value in ("fp33", "", "auto,off"):
                with self.subTest(option=option, value=value):
                    self.refuse(f"{option}={value}", said=[option])

    def test_numbers(self):
        for option in ("--seed", "--timeout", "--build-timeout", "--time-cap"):
            for value in ("x", "", "-1", "1x", "nan", "1e99", "99999999999999999999999"):
                with self.subTest(option=option, value=value):
                    self.refuse(f"{option}={value}", said=[option])

    def test_no_such_python(self):
        self.refuse("--python=/nonexistent/python", said=["/nonexistent/python"])
        self.refuse("--python=/dev/null", said=["/dev/null"])

    def test_document_into_a_directory_that_is_not_there(self):
        """Found before minutes are spent on a judgement that could not be written."""
        self.refuse("--json=/nonexistent/result.json", said=["/nonexistent/result.json"])
