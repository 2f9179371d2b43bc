"""The suite: builds, runs meson's tests and the whole-cluster tests, counts. Started by tests/run."""
import argparse
import os
import random
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SANITIZERS = ["-Db_sanitize=address,undefined", "-Db_lundef=false"]


def sizes(column):
    """The rows of tests/sizes for one column, by name."""
    rows = {}
    index = {"fast": 1, "ci": 2, "full": 3}[column]
    with open(os.path.join(TOP, "tests/sizes")) as table:
        for line in table:
            if line.strip() and not line.startswith("#"):
                words = line.split()
                rows[words[0]] = int(words[index])
    return rows


def say(text):
    print(text, flush=True)


LAST_LINES = 40


class Count:
    """What passed and what failed, with the names and last words of the failures for the end."""

    def __init__(self):
        self.passed = 0
        self.skipped = 0
        self.failures = []
        self.words = {}

    def fail(self, name, lines=()):
        """Notes a failure; of LINES, what it printed, the last are repeated at the end, where a cut output still has them."""
        self.failures.append(name)
        self.words[name] = [line.rstrip()[:400] for line in lines if line.strip()][-LAST_LINES:]

    def finish(self):
        for name in self.failures:
            for line in self.words.get(name, ()):
                say("  | " + line)
            say("FAILED " + name)
        if self.skipped:
            say("%d skipped" % self.skipped)
        say("%d passed, %d failed" % (self.passed, len(self.failures)))
        return 1 if self.failures or not self.passed else 0


def build(directory, options):
    """Configures where needed and compiles; the tail of the compiler's words on failure. True when done."""
    started = time.monotonic()
    if not os.path.exists(os.path.join(directory, "build.ninja")):
        made = subprocess.run(["meson", "setup", directory] + options, cwd=TOP, text=True, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT)
        if made.returncode:
            say(made.stdout[-6000:])
            return False
    made = subprocess.run(["ninja", "-C", directory], cwd=TOP, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if made.returncode:
        say(made.stdout[-8000:])
        return False
    say("built %s in %.0f s" % (os.path.relpath(directory, TOP), time.monotonic() - started))
    return True


def read_junit(path, count):
    """Adds meson's results, TAP subtests each for itself, to COUNT."""
    # Tests print what they like; XML forbids most control characters.
    with open(path, encoding="utf-8", errors="replace") as f:
        text = "".join(c if c in "\t\n\r" or " " <= c < "\ufffe" and not "\ud800" <= c <= "\udfff" else "?" for c in f.read())
    for suite in ElementTree.fromstring(text).iter("testsuite"):
        for case in suite.iter("testcase"):
            name = "%s/%s" % (suite.get("name"), case.get("name"))
            if case.find("failure") is not None or case.find("error") is not None:
                said = [e.text or "" for where in (suite, case) for tag in ("failure", "system-out", "system-err") for e in where.findall(tag)]
                count.fail(name, "\n".join(said).splitlines())
            elif case.find("skipped") is not None:
                count.skipped += 1
            else:
                count.passed += 1


# Meson's time limits are for one test alone on a quiet machine; here they only have to end what hangs.
PATIENCE = {"fast": "3", "ci": "5", "full": "40"}


def meson_tests(directory, label, only, suites, environment, count):
    """Runs what meson knows in DIRECTORY."""
    logs = os.path.join(directory, "meson-logs")
    junit = os.path.join(logs, "testlog.junit.xml")
    if os.path.exists(junit):
        os.unlink(junit)
    command = ["meson", "test", "-C", directory, "--no-rebuild", "--print-errorlogs", "--num-processes", "2",
               "--timeout-multiplier", PATIENCE[environment["MUSTER_TEST_SIZE"]]]
    for suite in suites:
        command += ["--suite", suite]
    if only:
        listed = subprocess.run(["meson", "test", "-C", directory, "--no-rebuild", "--list"], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        names = [line.split(" / ")[-1].strip() for line in listed.splitlines() if only in line]
        if not names:
            return
        command += names
    started = time.monotonic()
    ran = subprocess.run(command, cwd=TOP, env=environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if not os.path.exists(junit):
        if "No tests defined" in ran.stdout or "No suitable tests" in ran.stdout:
            return
        count.fail(label, ran.stdout.splitlines())
        return
    before = (count.passed, len(count.failures))
    read_junit(junit, count)
    if len(count.failures) > before[1] or ran.returncode:
        say(ran.stdout[-12000:])
    if ran.returncode and len(count.failures) == before[1]:
        count.fail(label + " (meson test ended with %d)" % ran.returncode)
    say("%s: %d passed, %d failed in %.0f s" % (label, count.passed - before[0], len(count.failures) - before[1],
                                               time.monotonic() - started))


def cluster_tests(arguments, environment, count):
    """Runs the whole-cluster tests, each a process of its own, and reads their verdict lines."""
    program = os.path.join(TOP, "tests/cluster/run")
    if not os.path.exists(program):
        return
    command = [program, "--size", arguments.size, "--seed", str(arguments.seed)]
    if arguments.only:
        command += ["--only", arguments.only]
    if arguments.keep:
        command += ["--keep"]
    ran = subprocess.Popen(command, cwd=TOP, env=environment, text=True, stdout=subprocess.PIPE)
    verdicts = 0
    said = []
    for line in ran.stdout:
        say(line.rstrip("\n"))
        said.append(line)
        word = line.split(" ", 2)
        if word[0] in ("PASS", "FAIL", "SKIP") and len(word) > 1:
            verdicts += 1
            if word[0] == "PASS":
                count.passed += 1
            elif word[0] == "SKIP":
                count.skipped += 1
            else:
                count.fail("cluster/" + word[1].strip(), said)
            said = []
    if ran.wait() and not any(name.startswith("cluster/") for name in count.failures):
        count.fail("cluster (ended with %d after %d verdicts)" % (ran.returncode, verdicts), said)


def parse():
    parser = argparse.ArgumentParser(prog="tests/run")
    parser.add_argument("--fast", dest="size", action="store_const", const="fast", default="ci")
    parser.add_argument("--full", dest="size", action="store_const", const="full")
    parser.add_argument("--seed", type=int, default=None, help="of every random choice; drawn and printed when absent")
    parser.add_argument("--only", default=None, help="tests whose name contains this word")
    parser.add_argument("--build", default=None, help="use this build directory, without sanitizers' own")
    parser.add_argument("--list", action="store_true", help="names of the tests, nothing run")
    parser.add_argument("--keep", action="store_true", help="leave the directories of failed cluster tests")
    parser.add_argument("--no-install", action="store_true")
    arguments = parser.parse_args()
    if arguments.seed is None:
        arguments.seed = random.SystemRandom().randrange(1, 1 << 31)
    return arguments


def main():
    arguments = parse()
    started = time.monotonic()
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], cwd=TOP, text=True, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL).stdout.strip()
    say("size %s, seed %d, commit %s" % (arguments.size, arguments.seed, commit or "unknown"))
    plain = os.path.abspath(arguments.build) if arguments.build else os.path.join(TOP, "build")
    sanitized = plain if arguments.build else os.path.join(TOP, "build-san")
    count = Count()
    for directory, options in {plain: [], sanitized: [] if arguments.build else SANITIZERS}.items():
        if not build(directory, options):
            count.fail("build of " + os.path.relpath(directory, TOP))
            return count.finish()
    environment = dict(os.environ, MUSTER_TEST_SIZE=arguments.size, MUSTER_TEST_SEED=str(arguments.seed),
                       MUSTER_BUILD=plain, MUSTER_BUILD_SAN=sanitized, PYTHONDONTWRITEBYTECODE="1",
                       ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:detect_odr_violation=0",
                       UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1")
    for name, value in sizes(arguments.size).items():
        environment["MUSTER_SIZE_" + name.upper()] = str(value)
    if arguments.list:
        for directory in dict.fromkeys((sanitized, plain)):
            subprocess.run(["meson", "test", "-C", directory, "--no-rebuild", "--list"], cwd=TOP, stderr=subprocess.DEVNULL)
        subprocess.run([os.path.join(TOP, "tests/cluster/run"), "--list"], cwd=TOP)
        return 0
    if sanitized != plain:
        meson_tests(plain, "tests on the plain build", arguments.only, ["plain"], environment, count)
    meson_tests(sanitized, "tests under sanitizers", arguments.only, [], environment, count)
    cluster_tests(arguments, environment, count)
    say("took %.0f s, seed %d" % (time.monotonic() - started, arguments.seed))
    return count.finish()


if __name__ == "__main__":
    sys.exit(main())
