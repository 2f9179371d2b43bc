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
    socket, store, confs = (os.path.join(t.dir, w) for w in ("f.sock", "f", ""))
    both = ",".join(os.path.join(confs, label, "muster.conf") for label in ("a", "b"))
    a = t.cluster("a", name="alpha", controllers=1, nodes=1, settings={"KillWait": "2", "MusterFollower": socket, "MusterFollow": both, "MusterFollowerDir": store})
    b = t.cluster("b", name="beta", controllers=1, nodes=1, settings={"KillWait": "2"})
    ids = {"alpha": a.sbatch("-J", "one", "--wrap", "sleep 1"), "beta": b.sbatch("-n2", "-J", "two", "--wrap", "sleep 1")}
    follower = Follower(t, os.path.join(a.dir, "muster.conf"), a)
    a.wait_ended(ids["alpha"])
    b.wait_ended(ids["beta"])

    def rows(*words, names="alpha,beta"):
        done = a.run("sacct", "-X", "-n", "-P", "-a", "-M", names, "-S", "now-1hour", "-o", "Cluster,JobID,JobName,State", *words).ok()
        return sorted(done.out.splitlines())

    want = ["alpha|%d|one|COMPLETED" % ids["alpha"], "beta|%d|two|COMPLETED" % ids["beta"]]
    wait_until("both clusters' accounts", 60, lambda: rows() == want)
    equal(rows(names="all"), want, "all clusters")
    equal(rows(names="beta"), want[1:], "the other cluster")
    equal(sorted(a.run("sacct", "-L", "-X", "-n", "-P", "-S", "now-1hour", "-o", "JobName").ok().out.split()), ["one", "two"], "sacct -L")
    said = a.run("sacct", "-M", "alpha,beta", "-S", "now-1hour", "-X", "-P", "-o", "JobName").ok().out.splitlines()
    equal(said.count("JobName"), 1, "headings over two clusters")
    # What is used is what each cluster says of itself.
    window = ["-n", "-P", "-t", "Seconds", "cluster", "UserUtilizationByAccount", "format=cluster,used", "start=now-1hour", "end=now+1minute"]
    seen = dict(line.split("|") for line in a.run("sreport", *window, "all_clusters").ok().out.splitlines())
    for c, name in ((a, "alpha"), (b, "beta")):
        equal({name: seen[name]}, dict(line.split("|") for line in c.run("sreport", *window).ok().out.splitlines()), "the use of %s" % name)
    # Listings come cluster by cluster, and the follower changes nothing in any.
    held = b.sbatch("-H", "--wrap", "true", user=USER)
    wait_until("the waiting job", 60, lambda: str(held) in a.run("squeue", "-h", "-M", "beta", "-o", "%i").out.split())
    said = a.run("squeue", "-M", "alpha,beta", "-h", "-o", "%i").ok().out.split("\n")
    equal(said[:3], ["CLUSTER: alpha", "CLUSTER: beta", str(held)], "squeue of two clusters")
    equal(a.run("sinfo", "-M", "beta", "-h", "-o", "%P").ok().out, "CLUSTER: beta\ndebug*\n", "sinfo of the other cluster")
    equal(a.run("scancel", "-M", "beta", held).code, 1, "changing another cluster through its follower")
    done = a.run("squeue", "-M", "gamma")
    check(done.code == 1 and "gamma" in done.err, "an unknown cluster: %d %r", done.code, done.err)
    done = b.run("squeue", "-M", "alpha")
    check(done.code == 1 and "can't be reached now" in done.err, "without a follower: %d %r", done.code, done.err)
    # A cluster that is away: its account is that of before, and says so. Nothing is lost when it comes back.
    b.kill("c1")
    said = wait_until("the news that beta is away", 60, lambda: (lambda r: r if "beta is away" in r.err else None)(a.run("sacct", "-X", "-n", "-P", "-M", "beta", "-S", "now-1hour", "-o", "JobID", "-j", ids["beta"])))
    equal(said.out.split(), [str(ids["beta"])], "the account of a cluster that is away")
    follower.stop(signal.SIGKILL)
    b.start("c1")
    more = b.sbatch("-J", "three", "--wrap", "true")
    b.wait_ended(more)
    follower.start()
    wait_until("what was missed", 60, lambda: "beta|%d|three|COMPLETED" % more in rows())
    check(set(want) <= set(rows()), "the account of before is gone: %s", rows())
    equal(json.loads(a.run("sacct", "--json", "-M", "alpha", "-X", "-j", ids["alpha"]).ok().out)["jobs"][0]["name"], "one", "one cluster as JSON")
