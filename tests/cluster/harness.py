"""Whole clusters under test. A test is a function of one argument, the Test below, marked @test; it fails by raising.

Each test runs in a process of its own, with its own seeded draw, below its own directory; when it ends its clusters are taken down and
whatever is left of them (process, cgroup, mount, namespace, socket folder) fails it too."""
import importlib.machinery
import importlib.util
import os
import pwd
import random
import shutil
import signal
import statistics
import subprocess
import sys
import threading
import time
import traceback

import wire

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TESTS = []
USER = "nobody"
# How much longer everything may take than on a machine of today; a guest without KVM sets it.
SLOW = float(os.environ.get("MUSTER_SLOW", "1"))
ENDED = {"COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "OUT_OF_MEMORY", "NODE_FAIL"}


def load_local_cluster():
    loader = importlib.machinery.SourceFileLoader("local_cluster", os.path.join(TOP, "deploy/local-cluster"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader("local_cluster", loader))
    loader.exec_module(module)
    return module


local = load_local_cluster()


class Skip(Exception):
    """The host cannot do what the test needs; says what."""


class Failed(AssertionError):
    pass


def check(condition, sentence, *values):
    """An assertion that stays on and says what was seen."""
    if not condition:
        raise Failed(sentence % values if values else sentence)


def equal(seen, expected, what):
    check(seen == expected, "%s: expected %r, saw %r", what, expected, seen)


def test(sizes="fast ci full", build="san", seconds=120):
    """Marks a test: the sizes at which it runs, the build that it wants (san or plain), its limit of time at size ci."""
    def mark(function):
        assert all(name_of(other) != name_of(function) for other in TESTS), "two tests are called " + name_of(function)
        function.sizes, function.build, function.seconds = sizes.split(), build, seconds
        TESTS.append(function)
        return function
    return mark


def size(name):
    """This run's count of a row of tests/sizes."""
    return int(os.environ["MUSTER_SIZE_" + name.upper()])


def wait_until(what, seconds, condition, pause=0.1):
    """Waits for CONDITION to give something true and gives it back."""
    end = time.monotonic() + seconds * SLOW
    last = None
    while True:
        try:
            found = condition()
            if found:
                return found
        except (OSError, local.Trouble, subprocess.TimeoutExpired, ValueError, IndexError) as trouble:
            last = trouble
        check(time.monotonic() < end, "%s: not within %s s%s", what, seconds, " (%s)" % last if last else "")
        time.sleep(pause)


class Result:
    """What a command did."""

    def __init__(self, words, code, out, err, took):
        self.words, self.code, self.out, self.err, self.took = words, code, out, err, took

    def ok(self):
        check(self.code == 0, "%s: exit code %s\n%s%s", " ".join(self.words), self.code, self.out, self.err)
        return self

    def refused(self, *parts):
        """The command failed, with one of PARTS in its words and no crash."""
        check(self.code not in (0, None) and self.code > 0, "%s: was not refused, exit code %s, %r", " ".join(self.words), self.code, self.out)
        for part in parts:
            check(part in self.err + self.out, "%s: %r is not in %r", " ".join(self.words), part, self.err + self.out)
        return self


class Cluster:
    """One local cluster; commands run against it as root or as an ordinary user."""

    def __init__(self, test, label, **options):
        self.test = test
        self.dir = os.path.join(test.dir, label)
        self.home = os.path.join(self.dir, "home")
        options.setdefault("settings", {})
        self.waiting = options.pop("wait", 60)
        conf = options.pop("conf", None)
        start = options.pop("start", True)
        self.c = local.plan(self.dir, **options)
        os.makedirs(self.home)
        os.chmod(self.home, 0o777)
        test.clusters.append(self)
        if start:
            local.up(self.c, conf, self.waiting * SLOW)

    # -- commands

    def run(self, *words, user=None, stdin=None, timeout=60, cwd=None, env=None):
        """Runs a command of the cluster; gives its Result. A time-out is exit code None."""
        words = [str(w) for w in words]
        full = ["setpriv", "--reuid", user, "--regid", str(pwd.getpwnam(user).pw_gid), "--init-groups"] + words if user else words
        began = time.monotonic()
        child = subprocess.Popen(full, env=dict(local.environment(self.c), **(env or {})), cwd=cwd or self.home, text=True,
                                 errors="surrogateescape", stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                 stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        try:
            out, err = child.communicate(stdin, timeout * SLOW)
            code = child.returncode
        except subprocess.TimeoutExpired:
            child.kill()
            out, err = child.communicate()
            code = None
        took = time.monotonic() - began
        if took > 20 * SLOW and timeout <= 60:
            self.test.say("slow: %s took %.0f s, exit code %s, %r; controllers %s", " ".join(words)[:80], took, code, err[-200:], self.positions())
        return Result(words, code, out, err, took)

    def positions(self):
        """What each controller says of itself, for a report of trouble."""
        seen = []
        for name in self.controllers():
            try:
                seen.append("%s at %d" % (name, wire.digest(self.socket(name), 3)[0]))
            except (OSError, ConnectionError, ValueError) as trouble:
                seen.append("%s: %s" % (name, trouble))
        return ", ".join(seen)

    def sbatch(self, *words, **more):
        """Submits and gives the job's id."""
        done = self.run("sbatch", "--parsable", *words, **more).ok()
        check(done.out.strip().isdigit(), "sbatch --parsable printed %r", done.out)
        return int(done.out)

    def script(self, text, name="job.sh"):
        """Writes a script into the home folder, readable by all."""
        path = os.path.join(self.home, name)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, 0o755)
        return path

    def states(self, *jobs):
        """{id: (state word, exit code, name)} of jobs as sacct has them; every job when none is named."""
        words = ["sacct", "-X", "-n", "-P", "-a", "-o", "JobID,State,ExitCode,JobName", "-S", "1970-01-01"]
        if jobs:
            words += ["-j", ",".join(str(j) for j in jobs)]
        rows = {}
        for line in self.run(*words).ok().out.splitlines():
            job, state, code, name = line.split("|", 3)
            check(job.isdigit(), "sacct -X shows the row %r", line)
            check(int(job) not in rows, "job %s has two rows in sacct", job)
            rows[int(job)] = (state.split()[0], code, name)
        return rows

    def wait_ended(self, *jobs, seconds=60):
        """Waits until these jobs, or all, have ended; gives states()."""
        rows = {}

        def ended():
            nonlocal rows
            rows = self.states(*jobs)
            return rows if all(j in rows for j in jobs) and all(r[0] in ENDED for r in rows.values()) else None
        try:
            return wait_until("end of jobs", seconds, ended, 0.2)
        except Failed as failure:
            late = ["%d %s" % (j, rows.get(j, "is not there")) for j in jobs or rows if rows.get(j, ("",))[0] not in ENDED]
            raise Failed("%s: %s" % (failure, ", ".join(late[:20])))

    def read(self, path, seconds=10):
        """A file of the home folder, waited for."""
        path = os.path.join(self.home, path)
        wait_until("file " + path, seconds, lambda: os.path.exists(path))
        with open(path, errors="surrogateescape") as f:
            return f.read()

    # -- controllers

    def socket(self, name):
        return os.path.join(self.c["run"], "musterd.%s.sock" % name)

    def controllers(self):
        return list(self.c["controllers"])

    def up_controllers(self):
        return [n for n in self.controllers() if local.child_of(self.c, n)]

    def leader(self, seconds=15, among=None):
        """Name of the controller that says of itself that it leads."""
        def find():
            for name in among or self.up_controllers():
                try:
                    seen = wire.controllers(self.socket(name), 3)
                except (OSError, ConnectionError):
                    continue
                if seen.get(name, {}).get("role") == "leader":
                    return name
            return None
        return wait_until("a leader", seconds, find, 0.02)

    def digests(self):
        return {n: wire.digest(self.socket(n)) for n in self.up_controllers()}

    def check_equal(self, seconds=30):
        """All controllers that are up reach the same position, digest and chain; gives them. Positions compared only when equal."""
        seen = {}

        def level():
            nonlocal seen
            seen = self.digests()
            return len({pos for pos, _, _ in seen.values()}) == 1
        wait_until("one position on all controllers", seconds, level, 0.1)
        check(len(set(seen.values())) == 1, "controllers differ at one position: %s", seen)
        return next(iter(seen.values()))

    def replay(self, name=None, to=None):
        """`muster replay` of a controller's archive, at most to position TO; gives (pos, digest) as it prints them."""
        name = name or self.up_controllers()[0]
        done = self.run("muster-history", "replay", os.path.join(self.dir, "state", name), *(["--to", to] if to else []), timeout=300).ok()
        words = done.out.replace("=", " ").split()
        return int(words[words.index("pos") + 1]), words[words.index("digest") + 1]

    def audit(self, name):
        """Every recorded pass of a controller's archive, decided again, comes out the same."""
        return self.run("muster-history", "audit", "replay", os.path.join(self.dir, "state", name), timeout=300).ok()

    def check_history(self, *names):
        """Digests agree, replaying the whole archive, of one controller or of each of NAMES, reaches them, and its passes
        come out the same again."""
        for name in names or self.up_controllers()[:1]:
            self.check_archive(name)

    def check_archive(self, name):
        pos, digest, _ = self.check_equal()
        for _ in range(20):
            replayed = self.replay(name, pos)
            if replayed[0] == pos:
                equal(replayed[1], digest, "digest of the replay of %s's archive at position %d" % (name, pos))
                self.audit(name)
                return
            time.sleep(0.3)  # The archive is written a little behind the State.
        raise Failed("the archive of %s ends at %d, its State is at %d" % (name, replayed[0], pos))

    def wait_idle(self, seconds=60):
        wait_until("all nodes idle", seconds, lambda: local.idle_nodes(self.c) == set(self.c["nodes"]))

    # -- daemons

    def kill(self, name):
        local.kill(self.c, name)

    def stop(self, name):
        local.stop(self.c, name)

    def start(self, name):
        local.launch(self.c, name)

    def down(self):
        local.down(self.c)

    # -- what it leaves behind

    def errors(self):
        """Lines of the daemons' own words that no run should have: sanitizers' reports, assertions, crashes."""
        found = []
        where = os.path.join(self.dir, "log")
        for name in sorted(os.listdir(where)) if os.path.isdir(where) else []:
            with open(os.path.join(where, name), errors="replace") as f:
                for line in f:
                    if any(w in line for w in ("AddressSanitizer", "LeakSanitizer", "runtime error:", "Assertion `", "SIGSEGV", "SIGABRT")):
                        found.append("%s: %s" % (name, line.rstrip()))
        return found


class Test:
    """What a running test is given: its draw, its directory, clusters."""

    def __init__(self, function, seed, keep):
        self.name = name_of(function)
        self.seed = seed
        self.draw = random.Random("%s/%d" % (self.name, seed))
        self.keep = keep
        self.clusters = []
        self.after = []
        self.dir = "/tmp/muster-test-%d-%s" % (os.getpid(), self.name[:24])
        os.makedirs(self.dir)
        os.chmod(self.dir, 0o755)

    def say(self, sentence, *values):
        print("  %s: %s" % (self.name, sentence % values if values else sentence), flush=True)

    def cluster(self, label="c", **options):
        return Cluster(self, label, **options)

    def leftovers(self):
        """What is still there of this test's clusters."""
        found = []
        for cluster in self.clusters:
            found += ["process %d" % pid for pid in local.below(cluster.c)] + ["cgroup " + g for g in local.cgroups(cluster.c)]
            if os.path.isdir("/run/netns"):
                found += ["namespace " + n for n in os.listdir("/run/netns") if n.startswith(local.netns_name(cluster.c, ""))]
        with open("/proc/self/mounts") as f:
            found += ["mount " + line.split()[1] for line in f if line.split()[1].startswith(self.dir)]
        for entry in os.listdir("/proc"):
            if entry.isdigit() and int(entry) != os.getpid():
                try:
                    with open("/proc/%s/cmdline" % entry, "rb") as f:
                        words = f.read()
                    if self.dir.encode() in words or os.readlink("/proc/%s/cwd" % entry).startswith(self.dir):
                        found.append("process %s: %s" % (entry, words.replace(b"\0", b" ").decode(errors="replace")[:200]))
                except OSError:
                    pass
        return found

    def finish(self):
        """Takes everything down; gives the sentences of what is wrong with what was left."""
        wrong = []
        for cluster in self.clusters:
            try:
                cluster.down()
            except Exception as trouble:  # taking down goes on, whatever one step says
                wrong.append("taking down %s: %s" % (cluster.dir, trouble))
            wrong += cluster.errors()
        for step in reversed(self.after):
            try:
                step()
            except Exception as trouble:
                wrong.append("cleaning up: %s" % trouble)
        end = time.monotonic() + 5
        left = self.leftovers()
        while left and time.monotonic() < end:
            time.sleep(0.1)
            left = self.leftovers()
        return wrong + ["left behind: " + what for what in left]


def name_of(function):
    return function.__name__.replace("test_", "", 1)


def tails(test):
    """The last lines of every daemon, for whoever reads a failure."""
    for cluster in test.clusters:
        where = os.path.join(cluster.dir, "log")
        for name in sorted(os.listdir(where)) if os.path.isdir(where) else []:
            with open(os.path.join(where, name), errors="replace") as f:
                lines = f.read().splitlines()[-15:]
            for line in lines:
                print("    %s| %s" % (name, line[:300]))


def run_one(function, seed, keep):
    """In a process of its own: 0 passed, 1 failed, 77 skipped."""
    os.environ["MUSTER_BUILD"] = os.environ["MUSTER_BUILD_SAN" if function.build == "san" else "MUSTER_BUILD"]
    test = Test(function, seed, keep)
    code = 0
    cause = ""
    try:
        function(test)
        for cluster in test.clusters:
            cluster.check_history() if local.child_of(cluster.c, cluster.controllers()[0]) else None
    except Skip as reason:
        test.say("%s", reason)
        code = 77
    except BaseException:  # the clusters must come down whatever happened, time-out included
        cause = traceback.format_exc(limit=6)
        tails(test)
        code = 1
    signal.alarm(0)
    for sentence in test.finish():
        print("  %s: %s" % (test.name, sentence))
        code = 1 if code != 77 else code
    # The cause comes last, so that whoever sees only the end of the output sees it.
    sys.stdout.write(cause)
    if code == 0 or not keep:
        shutil.rmtree(test.dir, ignore_errors=True)
    else:
        print("  %s: kept %s" % (test.name, test.dir))
    sys.stdout.flush()
    return code


class Clients:
    """N threads that call STEP(index, draw) until stopped; the first exception of one is raised by stop()."""

    def __init__(self, test, count, step):
        self.ending = threading.Event()
        self.troubles = []
        self.threads = []
        for index in range(count):
            draw = random.Random(test.draw.random())
            thread = threading.Thread(target=self.loop, args=(step, index, draw), daemon=True)
            self.threads.append(thread)
            thread.start()

    def loop(self, step, index, draw):
        try:
            while not self.ending.is_set():
                step(index, draw)
        except BaseException as trouble:
            self.troubles.append(trouble)

    def stop(self, seconds=90):
        self.ending.set()
        for thread in self.threads:
            thread.join(seconds)
            check(not thread.is_alive(), "a client does not come back")
        if self.troubles:
            raise self.troubles[0]


def spread(numbers):
    """min / median / max of seconds, for a line of the report."""
    numbers = sorted(numbers)
    return "%.2f / %.2f / %.2f s" % (numbers[0], statistics.median(numbers), numbers[-1]) if numbers else "none"
