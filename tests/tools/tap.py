# SPDX-License-Identifier: MIT
"""Runs unittest tests and prints TAP, the form that tests/run.sh adds up."""
import sys
import unittest


class TapResult(unittest.TestResult):
    """One line a test; why it failed follows as a remark."""

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
        # unittest calls no addSuccess for a test with a failed part, so this line replaces it.
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._report(False, subtest, remark=self._exc_info_to_string(err, test))

    # Neither is used; if one ever is, it must not vanish from the count.
    def addExpectedFailure(self, test, err):
        self.addError(test, err)

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self._report(False, test, remark="an expected failure did not happen")


def main():
    """Runs the tests of the program that calls; exits with 1 when one failed."""
    suite = unittest.defaultTestLoader.loadTestsFromModule(sys.modules["__main__"])
    result = TapResult()
    suite.run(result)
    print(f"1..{result.count}")
    sys.exit(0 if result.wasSuccessful() and result.count > 0 else 1)
