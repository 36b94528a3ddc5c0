# SPDX-License-Identifier: MIT
"""Runs unittest tests and prints TAP for tests/run.sh."""
import sys
import unittest


class TapResult(unittest.TestResult):
    """Prints one line per test; the reason of a failure follows as a remark."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def _report(self, is_ok, test, directive="", remark=""):
        self.count += 1
        name = test.id().rsplit(".", 1)[-1]
        print(f"{'ok' if is_ok else 'not ok'} {self.count} - {name}{directive}")
        for line in remark.splitlines():
            print(f"# {line}")

    def addSuccess(self, test):
        super().addSuccess(test)
        self._report(True, test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._report(False, test, remark=self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._report(False, test, remark=self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._report(True, test, directive=f" # SKIP {reason}")

    def addSubTest(self, test, subtest, err):
        # unittest does not call addSuccess for a test with a failed subtest: this line replaces it.
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._report(False, subtest, remark=self._exc_info_to_string(err, test))

    # No test uses these two; if a test does, it must count.
    def addExpectedFailure(self, test, err):
        self.addError(test, err)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._report(False, test, remark="an expected failure did not happen")


def main():
    """Runs the tests of the calling program; exits with 1 if a test failed."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = TapResult()
    suite.run(result)
    print(f"1..{result.count}")
    sys.exit(0 if result.wasSuccessful() and result.count > 0 else 1)
