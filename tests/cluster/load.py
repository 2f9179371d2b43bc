"""Clients that submit, cancel and query without pause, and the account of what they were told."""
import os
import statistics
import threading
import time

from harness import USER, Clients, check, spread


class Load:
    """Eight clients at work on one cluster. verify() holds what they were told against what the cluster has in the end."""

    def __init__(self, cluster, count=8):
        self.cluster = cluster
        self.lock = threading.Lock()
        self.number = 0
        self.asked = {}      # name: exit code that its script ends with
        self.printed = {}    # name: id that sbatch printed
        self.cancelled = set()
        self.unanswered = 0
        self.clients = Clients(cluster.test, count, self.step)

    def submit(self, draw, hold=False):
        """One sbatch; gives the id or None."""
        with self.lock:
            self.number += 1
            name = "k%d" % self.number
            code = draw.choice((0, 0, 0, 3))
            self.asked[name] = code
        wrap = "echo $SLURM_JOB_ID >> %s/ran.%s; sleep %.1f; exit %d" % (self.cluster.home, name, draw.choice((0, 0, 0.3, 1.5)), code)
        words = ["sbatch", "--parsable", "-J", name, "-o", "/dev/null", "--mem", "16"] + (["-H"] if hold else []) + ["--wrap", wrap]
        done = self.cluster.run(*words, user=USER, timeout=60)
        if done.code == 0:
            with self.lock:
                self.printed[name] = int(done.out)
            return int(done.out)
        check(done.code is None or "error" in done.err, "sbatch ended with %s and says %r", done.code, done.err)
        with self.lock:
            self.unanswered += 1
        return None

    def step(self, index, draw):
        job = self.submit(draw)
        if job and draw.random() < 0.25:
            with self.lock:
                self.cancelled.add(job)
            self.cluster.run("scancel", job, user=USER)
        elif job and draw.random() < 0.4:
            seen = self.cluster.run("sacct", "-n", "-X", "-P", "-o", "JobID", "-j", job, user=USER)
            told = "this is how things stood" in seen.err
            check(seen.code != 0 or told or seen.out.split() == [str(job)], "sacct does not show job %d right after its id was printed: %r", job, seen.out)
        elif draw.random() < 0.3:
            self.cluster.run("squeue", user=USER)
        time.sleep(draw.uniform(0.05, 0.4))

    def stop(self):
        self.clients.stop()

    def verify(self, seconds=180):
        """Every printed id exists once, with its name, and ends rightly; no job exists that nobody asked for."""
        rows = self.cluster.wait_ended(*self.printed.values(), seconds=seconds)
        ids = list(self.printed.values())
        check(len(set(ids)) == len(ids), "an id was printed twice: %s", sorted(i for i in ids if ids.count(i) > 1))
        names = {}
        for job, (state, code, name) in rows.items():
            check(name in self.asked, "job %d (%s) exists and nobody asked for it", job, name)
            check(name not in names, "job %s exists twice: %d and %s", name, job, names.get(name))
            names[name] = job
            self.verify_end(job, state, code, name)
        for name, job in self.printed.items():
            check(names.get(name) == job, "sbatch printed %d for %s; the cluster has %s", job, name, names.get(name))
        self.cluster.test.say("%d submissions, %d answered, %d cancelled, %d without an answer of which %d exist", len(self.asked),
                              len(self.printed), len(self.cancelled), self.unanswered, len(rows) - len(self.printed))

    def verify_end(self, job, state, code, name):
        expected = ("FAILED", "3:0") if self.asked[name] else ("COMPLETED", "0:0")
        if job not in self.cancelled or state != "CANCELLED":
            check((state, code) == expected, "job %d (%s) ended as %s %s, not %s", job, name, state, code, expected)
            with open(os.path.join(self.cluster.home, "ran." + name)) as f:
                check(f.read().split() == [str(job)], "job %d (%s) did not run exactly once", job, name)


def recovery(load, moment, draw):
    """Seconds from MOMENT until a submission that starts now is answered with an id."""
    while True:
        if load.submit(draw) is not None:
            return time.monotonic() - moment
        check(time.monotonic() < moment + 60, "no submission succeeds within 60 s")


def check_recovery(test, what, times):
    test.say("%s, to the next submission: %s (n=%d)", what, spread(times), len(times))
    check(statistics.median(times) <= 2.0, "%s: the median to the next submission is %.2f s, over 2 s", what, statistics.median(times))
    check(max(times) <= 5.0, "%s: the worst to the next submission is %.2f s, over 5 s", what, max(times))
