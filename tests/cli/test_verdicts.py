"""Every way to end but the timed ones: which verdict, and that the reason says what happened.

What candidates do to deceive is the red team's (redteam/); these merely do not work.
"""

import textwrap

from harness import CANDIDATE, PROBLEM, Case, candidate_with


class Loading(Case):
    def fail_to_load(self, candidate, *said):
        self.assert_verdict(self.evaluate(candidate), "load_failed", *said)

    def test_syntax_error(self):
        self.fail_to_load("import torch\n\nclass ModelNew(:\n    pass\n", "line 3")

    def test_empty_file(self):
        self.fail_to_load("")

    def test_not_utf8(self):
        self.fail_to_load(b"# caf\xe9\n" + CANDIDATE.encode(), "no text")

    def test_no_model(self):
        self.fail_to_load(CANDIDATE.replace("ModelNew", "Model"), "ModelNew")

    def test_import_raises(self):
        self.fail_to_load(
            "import no_such_package\n" + textwrap.dedent(CANDIDATE), "no_such_package"
        )

    def test_constructor_raises(self):
        self.fail_to_load(
            candidate_with("return x", constructor="raise ValueError('slope of %s' % slope)"),
            "ValueError: slope of 0.25",
        )

    def test_constructor_takes_other_arguments(self):
        self.fail_to_load(CANDIDATE.replace("self, slope", "self, slope, more"), "TypeError")


class Crashing(Case):
    def crash(self, body, *said, head=""):
        self.assert_verdict(self.evaluate(candidate_with(body, head)), "crashed", *said)

    def test_forward_raises(self):
        self.crash("raise RuntimeError('not today')", "RuntimeError: not today")

    def test_exception_of_many_lines(self):
        self.crash("raise RuntimeError('what\\n\\nhint\\nwhere')", "RuntimeError: what", "where")

    def test_forward_exits(self):
        self.crash("raise SystemExit(0)")

    def test_process_exits(self):
        self.crash("os._exit(0)", "status 0", head="import os")

    def test_process_is_killed(self):
        self.crash("os.abort()", "SIGABRT", head="import os")

    def test_segmentation_fault(self):
        self.crash("ctypes.string_at(8)", "SIGSEGV", head="import ctypes")

    def test_raised_text_that_is_no_text(self):
        document = self.evaluate(
            candidate_with("raise RuntimeError('\\x1b[2J\\u202e\\udc80' + 'x' * 100000)")
        )
        self.assert_verdict(document, "crashed")
        self.assertLess(len(document["reason"]), 4096)
        self.assertFalse(set(document["reason"]) & set("\x1b\u202e\udc80"), document["reason"])


class Hanging(Case):
    def test_forward_never_returns(self):
        document = self.evaluate(
            candidate_with("time.sleep(10000)", "import time"), PROBLEM, "--timeout=3"
        )
        self.assert_verdict(document, "timed_out")

    def test_import_never_returns(self):
        document = self.evaluate(
            "while True:\n    pass\n" + textwrap.dedent(CANDIDATE), PROBLEM, "--timeout=3"
        )
        self.assert_verdict(document, "timed_out")

    def test_ignores_signals(self):
        document = self.evaluate(
            candidate_with(
                "while True: time.sleep(1)",
                "import signal, time\nfor number in (1, 2, 15):\n"
                "    signal.signal(number, signal.SIG_IGN)\n",
            ),
            PROBLEM,
            "--timeout=3",
        )
        self.assert_verdict(document, "timed_out")


class Wrong(Case):
    def be_wrong(self, body, *said):
        self.assert_verdict(self.evaluate(candidate_with(body)), "wrong", *said)

    def test_values(self):
        document = self.evaluate(candidate_with("return torch.maximum(x, x * 0.26) + y"))
        self.assert_verdict(document, "wrong")
        failed = [family for family in document["families"] if family["status"] == "fail"]
        self.assertTrue(failed)
        self.assertIn(failed[0]["id"], document["reason"])
        self.assertTrue(failed[0]["worst"])
        self.assertGreater(failed[0]["s"], failed[0]["s_limit"])
        self.assertIsNone(document["speed"]["ratio"], "a wrong candidate has no speed")

    def test_number(self):
        self.be_wrong("out = torch.maximum(x, x * self.slope) + y\nreturn out, out")

    def test_none(self):
        self.be_wrong("return None")

    def test_shape(self):
        self.be_wrong("return (torch.maximum(x, x * self.slope) + y).flatten()", "16384")

    def test_shape_that_broadcasts(self):
        self.be_wrong("return (torch.maximum(x, x * self.slope) + y)[None]")

    def test_dtype(self):
        self.be_wrong("return (torch.maximum(x, x * self.slope) + y).double()", "float64")

    def test_structure(self):
        self.be_wrong("return {'out': torch.maximum(x, x * self.slope) + y}")


class Unfit(Case):
    """The problem's own fault is never the candidate's."""

    def be_unfit(self, old, new, *said):
        self.assertIn(old, PROBLEM)
        document = self.evaluate(CANDIDATE, PROBLEM.replace(old, new))
        self.assert_verdict(document, "problem_unfit", *said)

    def test_import_raises(self):
        self.be_unfit("import torch.nn", "raise OSError('no luck')\n    import torch.nn", "no luck")

    def test_get_inputs_raises(self):
        self.be_unfit(
            "return [torch.randn(64, 256), torch", "raise OSError('no data') or [torch", "no data"
        )

    def test_constructor_raises(self):
        self.be_unfit("self.slope = slope", "raise ValueError('no slope')", "no slope")

    def test_reference_raises(self):
        self.be_unfit(
            "return torch.where(",
            "assert x is y, 'not equal'\n            return torch.where(",
            "not equal",
        )

    def test_no_tensor_comes_out(self):
        self.be_unfit("return torch.where(x > 0, x, x * self.slope) + y", "return 'relu'", "tensor")

    def test_nothing_is_finite(self):
        self.be_unfit("x * self.slope) + y", "x * self.slope) + y * float('nan')", "finite")


class Verified(Case):
    def test_honest(self):
        document = self.evaluate()
        self.assert_verdict(document, "verified")
        self.assertEqual(document["status"], 0)
        self.assertEqual(document["environment"]["device"], "cpu")
        self.assertGreater(document["speed"]["ratio"], 0)
        self.assertLessEqual(document["speed"]["low"], document["speed"]["ratio"])
        self.assertGreaterEqual(document["speed"]["high"], document["speed"]["ratio"])
        self.assertIn(document["speed"]["class"], ("faster", "on_par", "slower"))
        self.assertGreater(document["memory"]["ratio"], 0)
        statuses = {family["id"]: family["status"] for family in document["families"]}
        self.assertEqual(statuses["D1"], "pass")
        self.assertNotIn("fail", statuses.values())
        self.assertNotIn("not_run", statuses.values())
        for family in document["families"]:
            if family["status"] == "not_applicable":
                self.assertTrue(family["reason"], family)

    def test_reference_as_candidate(self):
        """No evaluator may find the reference wrong."""
        document = self.evaluate(PROBLEM.replace("class Model(", "class ModelNew("))
        self.assert_verdict(document, "verified")


class UnusualButRight(Case):
    """What an honest kernel may do, and a careless judge would reject."""

    def test_numbers_and_the_same_tensor_twice(self):
        problem = """
            import torch
            import torch.nn as nn


            class Model(nn.Module):
                def forward(self, x):
                    y = x * 2
                    return x.square().mean().item(), y, y.clone(), {"count": 3}


            def get_inputs():
                return [torch.randn(64, 64)]
        """
        candidate = """
            import torch
            import torch.nn as nn


            class ModelNew(nn.Module):
                def forward(self, x):
                    y = x + x
                    return (x * x).mean().item(), y, y, {"count": 3}
        """
        document = self.evaluate(candidate, problem)
        self.assert_verdict(document, "verified")
        by_id = {family["id"]: family for family in document["families"]}
        self.assertEqual(by_id["P2"]["status"], "not_applicable")

    def test_reference_that_takes_probabilities_only(self):
        problem = """
            import torch
            import torch.nn as nn


            class Model(nn.Module):
                def forward(self, p):
                    if p.min() < 0 or p.max() > 1:
                        raise ValueError("no probability")
                    return p.sqrt()


            def get_inputs():
                return [torch.rand(64, 64)]
        """
        candidate = """
            import torch
            import torch.nn as nn


            class ModelNew(nn.Module):
                def forward(self, p):
                    return torch.exp(torch.log(p) / 2)
        """
        document = self.evaluate(candidate, problem)
        self.assert_verdict(document, "verified")
        by_id = {family["id"]: family for family in document["families"]}
        self.assertEqual(by_id["D4"]["status"], "not_applicable")
        self.assertIn("no probability", by_id["D4"]["reason"])
        self.assertEqual(by_id["D3"]["status"], "pass")

    def test_output_that_is_a_view_and_not_contiguous(self):
        problem = """
            import torch
            import torch.nn as nn


            class Model(nn.Module):
                def forward(self, x):
                    return x.t().contiguous()


            def get_inputs():
                return [torch.randn(64, 48)]
        """
        candidate = """
            import torch.nn as nn


            class ModelNew(nn.Module):
                def forward(self, x):
                    return x.t()
        """
        self.assert_verdict(self.evaluate(candidate, problem), "verified")
