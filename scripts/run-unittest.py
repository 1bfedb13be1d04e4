"""Runs a directory of unittest files; a line for each test, the counts as JSON.

    python3 scripts/run-unittest.py --result FILE DIRECTORY [PATTERN...]

A PATTERN is what `python -m unittest -k` takes: a part of a test's name, or a glob. The file holds
{"passed": N, "failed": [NAME...], "skipped": [[NAME, REASON]...]}. Standard library only: it runs
under whatever interpreter has torch.
"""

import argparse
import json
import sys
import time
import unittest


class Result(unittest.TestResult):
    """Prints what happens as it happens, and keeps what check.py needs."""

    def __init__(self):
        super().__init__()
        self.passed = 0
        self.lost = []
        self.left_out = []
        self.started = 0.0

    @staticmethod
    def name(test):
        return test.id() if hasattr(test, "id") else str(test)

    def say(self, outcome, test, detail=""):
        seconds = time.monotonic() - self.started
        print(f"  {outcome:4} {self.name(test)} ({seconds:.1f} s){detail}", flush=True)

    def startTest(self, test):
        super().startTest(test)
        self.started = time.monotonic()

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        self.say("ok", test)

    def lose(self, test, err, subtest=None):
        shown = subtest if subtest is not None else test
        if self.name(test) not in self.lost:
            self.lost.append(self.name(test))
        text = self._exc_info_to_string(err, test)
        self.say("FAIL", shown, "\n" + "".join(f"       {line}\n" for line in text.splitlines()))

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.lose(test, err)

    def addError(self, test, err):
        super().addError(test, err)
        self.lose(test, err)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.lose(test, err, subtest)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.left_out.append((self.name(test), reason))
        self.say("skip", test, f": {reason}")

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.lost.append(self.name(test))
        self.say("FAIL", test, ": passes, and was expected to fail")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--result", required=True, metavar="FILE")
    parser.add_argument("directory")
    parser.add_argument("patterns", nargs="*")
    arguments = parser.parse_args()

    loader = unittest.TestLoader()
    if arguments.patterns:
        loader.testNamePatterns = [
            text if "*" in text else f"*{text}*" for text in arguments.patterns
        ]
    suite = loader.discover(arguments.directory, pattern="test_*.py")
    result = Result()
    result.startTestRun()
    suite.run(result)
    result.stopTestRun()
    with open(arguments.result, "w", encoding="utf-8") as file:
        json.dump(
            {"passed": result.passed, "failed": result.lost, "skipped": result.left_out}, file
        )
    return 1 if result.lost else 0


if __name__ == "__main__":
    sys.exit(main())
