"""Several clusters, one account: a follower keeps the history of each and answers for all, also while one is away."""
import json
import os
import signal
import subprocess

from harness import USER, check, equal, local, test, wait_until


class Follower:
    def __init__(self, t, conf, c):
        self.words = [os.path.join(os.environ["MUSTER_BUILD"], "log/ctld/musterd"), "--follower", "-D", "-f", conf]
        self.c, self.child = c, None
        self.start()
        t.after.append(self.stop)

    def start(self):
        self.child = subprocess.Popen(self.words, env=local.environment(self.c.c), stdin=subprocess.DEVNULL)

    def stop(self, how=signal.SIGTERM):
        if self.child:
            self.child.send_signal(how)
            code = self.child.wait(60)
            self.child = None
            check(how != signal.SIGTERM or code == 0, "the follower ended with %s", code)


@test(build="plain")
def test_clusters(t):
    A, B = ("%s-%d" % (word, os.getpid()) for word in ("alpha", "beta"))  # their cgroups go by the cluster's name
    socket, store, confs = (os.path.join(t.dir, w) for w in ("f.sock", "f", ""))
    both = ",".join(os.path.join(confs, label, "muster.conf") for label in ("a", "b"))
    a = t.cluster("a", name=A, controllers=1, nodes=1, settings={"KillWait": "2", "MusterFollower": socket, "MusterFollow": both, "MusterFollowerDir": store})
    b = t.cluster("b", name=B, controllers=1, nodes=1, settings={"KillWait": "2"})
    ids = {A: a.sbatch("-J", "one", "--wrap", "sleep 1"), B: b.sbatch("-n2", "-J", "two", "--wrap", "sleep 1")}
    follower = Follower(t, os.path.join(a.dir, "muster.conf"), a)
    a.wait_ended(ids[A])
    b.wait_ended(ids[B])

    def rows(*words, names=A + "," + B):
        done = a.run("sacct", "-X", "-n", "-P", "-a", "-M", names, "-S", "now-1hour", "-o", "Cluster,JobID,JobName,State", *words).ok()
        return sorted(done.out.splitlines())

    want = ["%s|%d|one|COMPLETED" % (A, ids[A]), "%s|%d|two|COMPLETED" % (B, ids[B])]
    wait_until("both clusters' accounts", 60, lambda: rows() == want)
    equal(rows(names="all"), want, "all clusters")
    equal(rows(names=B), want[1:], "the other cluster")
    equal(sorted(a.run("sacct", "-L", "-X", "-n", "-P", "-S", "now-1hour", "-o", "JobName").ok().out.split()), ["one", "two"], "sacct -L")
    said = a.run("sacct", "-M", A + "," + B, "-S", "now-1hour", "-X", "-P", "-o", "JobName").ok().out.splitlines()
    equal(said.count("JobName"), 1, "headings over two clusters")
    # What is used is what each cluster says of itself.
    window = ["-n", "-P", "-t", "Seconds", "cluster", "UserUtilizationByAccount", "format=cluster,used", "start=now-1hour", "end=now+1minute"]
    seen = dict(line.split("|") for line in a.run("sreport", *window, "all_clusters").ok().out.splitlines())
    for c, name in ((a, A), (b, B)):
        equal({name: seen[name]}, dict(line.split("|") for line in c.run("sreport", *window).ok().out.splitlines()), "the use of %s" % name)
    # Listings come cluster by cluster, and the follower changes nothing in any.
    held = b.sbatch("-H", "--wrap", "true", user=USER)
    wait_until("the waiting job", 60, lambda: str(held) in a.run("squeue", "-h", "-M", B, "-o", "%i").out.split())
    said = a.run("squeue", "-M", A + "," + B, "-h", "-o", "%i").ok().out.split("\n")
    equal(said[:3], ["CLUSTER: " + A, "CLUSTER: " + B, str(held)], "squeue of two clusters")
    equal(a.run("sinfo", "-M", B, "-h", "-o", "%P").ok().out, "CLUSTER: %s\ndebug*\n" % B, "sinfo of the other cluster")
    equal(a.run("scancel", "-M", B, held).code, 1, "changing another cluster through its follower")
    done = a.run("squeue", "-M", "gamma")
    check(done.code == 1 and "gamma" in done.err, "an unknown cluster: %d %r", done.code, done.err)
    done = b.run("squeue", "-M", A)
    check(done.code == 1 and "can't be reached now" in done.err, "without a follower: %d %r", done.code, done.err)
    # A cluster that is away: its account is that of before, and says so. Nothing is lost when it comes back.
    b.kill("c1")
    said = wait_until("the news that beta is away", 60, lambda: (lambda r: r if B + " is away" in r.err else None)(a.run("sacct", "-X", "-n", "-P", "-M", B, "-S", "now-1hour", "-o", "JobID", "-j", ids[B])))
    equal(said.out.split(), [str(ids[B])], "the account of a cluster that is away")
    follower.stop(signal.SIGKILL)
    b.start("c1")
    more = b.sbatch("-J", "three", "--wrap", "true")
    b.wait_ended(more)
    follower.start()
    wait_until("what was missed", 60, lambda: "%s|%d|three|COMPLETED" % (B, more) in rows())
    check(set(want) <= set(rows()), "the account of before is gone: %s", rows())
    equal(json.loads(a.run("sacct", "--json", "-M", A, "-X", "-j", ids[A]).ok().out)["jobs"][0]["name"], "one", "one cluster as JSON")
