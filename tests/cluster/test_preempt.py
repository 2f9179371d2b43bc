"""Jobs that stand still, and jobs that give way to others: with real processes, by the commands that people type."""
import os
import re

from harness import USER, check, equal, test, wait_until

COUNT = """#!/bin/sh
i=0
while :; do i=$((i+1)); echo $i > %s.new; mv %s.new %s; sleep 0.05; done
"""


def field(c, job, word):
    found = re.search(r"\b%s=(\S*)" % re.escape(word), c.run("scontrol", "-o", "show", "job", str(job)).ok().out)
    return found.group(1) if found else None


def state(c, job):
    return field(c, job, "JobState")


def acct(c, job, column):
    rows = c.run("sacct", "-n", "-P", "-X", "-D", "-j", str(job), "-o", column).ok().out.split("\n")
    return [row for row in rows if row]


def submit(c, *words, **more):
    return int(c.run("sbatch", "--parsable", "-o", "/dev/null", *words, **more).ok().out.split(";")[0])


def counter(c, name):
    """A job's script that counts in a file, and the file."""
    path = os.path.join(c.home, name)
    script = path + ".sh"
    with open(script, "w") as f:
        f.write(COUNT % (path, path, path))
    return script, path


def read(path):
    with open(path) as f:
        return int(f.read() or "0")


def grows(path):
    first = read(path)
    wait_until("%s counts on" % path, 60, lambda: read(path) > first)


def at_standstill(what, path):
    """It has stopped counting: a value that stays while others take their time."""
    seen = []

    def same():
        seen.append(read(path))
        return len(seen) > 6 and len(set(seen[-6:])) == 1

    wait_until(what, 60, same, pause=0.2)
    return seen[-1]


@test(build="plain")
def test_suspend(t):
    c = t.cluster(controllers=1, nodes=1)
    script, path = counter(c, "count")
    job = submit(c, "-t10", script)
    wait_until("it counts", 60, lambda: os.path.exists(path) and read(path) > 1)
    denied = c.run("scontrol", "suspend", str(job), user=USER)
    check(denied.code == 1 and "Access/permission denied" in denied.err, "an ordinary user is told %r", denied.err)
    c.run("scontrol", "suspend", str(job)).ok()
    equal(state(c, job), "SUSPENDED", "its state")
    equal(c.run("squeue", "-h", "-o", "%t", "-j", str(job)).ok().out.strip(), "S", "squeue's letter")
    held = at_standstill("its processes stand still", path)
    # Whoever comes has its CPUs meanwhile, and it does not get them back before.
    other = submit(c, "--exclusive", "--mem=1", "--wrap=sleep 1000")
    wait_until("another job runs on its CPUs", 60, lambda: state(c, other) == "RUNNING")
    refused = c.run("scontrol", "resume", str(job))
    check(refused.code == 1 and "Requested nodes are busy" in refused.err, "its CPUs are in use: %r", refused.err)
    # Its agent dies, and another one finds it as it was.
    c.kill("n1")
    c.start("n1")
    wait_until("the agent is back", 60, lambda: c.run("sinfo", "-h", "-o", "%t").out.strip() in ("alloc", "mix"))
    equal(read(path), held, "nothing went on while no agent was there")
    c.run("scancel", str(other)).ok()
    wait_until("its CPUs are free again", 60, lambda: c.run("scontrol", "resume", str(job)).code == 0)
    equal(state(c, job), "RUNNING", "its state")
    grows(path)
    check(field(c, job, "SuspendTime") != "None", "show job says when")
    # Cancelled while it stands still, it ends.
    c.run("scontrol", "suspend", str(job)).ok()
    at_standstill("it stands still again", path)
    wait_until("it has stood still for a while", 60, lambda: acct(c, job, "suspended")[0] >= "00:00:05")
    c.run("scancel", str(job)).ok()
    wait_until("it has ended", 60, lambda: state(c, job) == "CANCELLED")
    wait_until("accounts know how long it was suspended", 60, lambda: acct(c, job, "suspended") and acct(c, job, "suspended")[0] > "00:00:00")
    # What it did not have is not its use: its start, its end and its stops are cut at whole seconds.
    ran = sum(int(n) for name in (job, other) for n in acct(c, name, "CPUTimeRAW"))
    used = int(c.run("sreport", "-n", "-P", "-t", "Seconds", "cluster", "utilization", "format=allocated", "start=now-1hour", "end=now+1minute").ok().out)
    check(abs(used - ran) <= 3, "sreport has %d CPU seconds, sacct %d", used, ran)


def urgent(t, mode):
    """A cluster of one node whose partition high goes before debug."""
    return t.cluster(controllers=1, nodes=1, settings={"PreemptType": "preempt/partition_prio", "PreemptMode": mode,
                                                       "PartitionName": "high Nodes=n1 PriorityTier=9 MaxTime=INFINITE State=UP"})


@test(build="plain")
def test_preempt_suspend(t):
    c = urgent(t, "SUSPEND,GANG")
    script, path = counter(c, "count")
    job = submit(c, "-n4", "--mem=1", "-t10", script)
    wait_until("it counts", 60, lambda: os.path.exists(path) and read(path) > 1)
    fast = submit(c, "-p", "high", "-n4", "--mem=1", "-t5", "--wrap=sleep 1000")
    wait_until("the urgent job runs", 60, lambda: state(c, fast) == "RUNNING")
    equal(state(c, job), "SUSPENDED", "the other one")
    at_standstill("its processes stand still", path)
    c.run("scancel", str(fast)).ok()
    wait_until("it goes on when the room is back", 60, lambda: state(c, job) == "RUNNING")
    grows(path)


@test(build="plain")
def test_preempt_cancel(t):
    c = urgent(t, "REQUEUE")
    check("PreemptMode" in c.run("scontrol", "show", "config").ok().out and "PreemptMode=REQUEUE" in c.run("scontrol", "show", "partition", "high").ok().out,
          "the configuration says how")
    job = submit(c, "--exclusive", "-t10", "--wrap=sleep 1000")
    wait_until("it runs", 60, lambda: state(c, job) == "RUNNING")
    fast = submit(c, "-p", "high", "--exclusive", "-t5", "--wrap=sleep 1000")
    wait_until("the urgent job runs", 60, lambda: state(c, fast) == "RUNNING")
    equal((state(c, job), field(c, job, "Restarts")), ("PENDING", "1"), "the other one waits again")
    wait_until("accounts say why it ended", 60, lambda: acct(c, job, "state") == ["PREEMPTED", "PENDING"])
    check("gave way to job %d" % fast in c.run("muster", "why", str(job)).ok().out, "and muster why to whom")
    c.run("scancel", str(fast), str(job)).ok()
    wait_until("the node is idle", 60, lambda: c.run("sinfo", "-h", "-o", "%t").out.strip() == "idle")
    # With a grace its steps are warned and may end by themselves; it cannot be requeued.
    c.run("scontrol", "update", "PartitionName=debug", "GraceTime=300").ok()
    seen = os.path.join(c.home, "warned")
    inner = "trap 'echo told > %s; exit 0' TERM; touch %s.ready; while :; do sleep 0.1; done" % (seen, seen)
    with open(os.path.join(c.home, "inner.sh"), "w") as f:
        f.write("#!/bin/sh\n" + inner + "\n")
    job = submit(c, "--no-requeue", "--exclusive", "-t10", "--wrap=srun -n1 sh %s; exit 3" % os.path.join(c.home, "inner.sh"))
    wait_until("its step runs", 60, lambda: os.path.exists(seen + ".ready"))
    fast = submit(c, "-p", "high", "--exclusive", "-t5", "--wrap=sleep 1000")
    wait_until("its step was warned", 60, lambda: os.path.exists(seen))
    wait_until("the urgent job runs, long before the grace is over", 60, lambda: state(c, fast) == "RUNNING")
    equal(acct(c, job, "state"), ["PREEMPTED"], "the state of the one that was warned")
