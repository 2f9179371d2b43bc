"""How a job can end, and what each command shows of it: the table of muster-ends(7), line by line."""
import os
import re
import signal
import subprocess

from harness import TOP, USER, check, equal, local, test, wait_until

PAGE = os.path.join(TOP, "cli", "man", "muster-ends.7")
EAT = "import sys; x = bytearray(300 << 20); sys.exit(0)"


def table():
    """{how: [columns]} as the page has it."""
    rows = {}
    with open(PAGE) as f:
        block = f.read().split(".nf\n")[1].split(".fi\n")[0]
    for line in block.splitlines()[1:]:
        words = re.split(r"  +", line.replace("\\-", "-").strip())
        rows[words[0]] = words[1:]
    return rows


def shown(c, job, client):
    """The columns of one job: state and reason by squeue, state and codes by sacct, its first step, the client's exit code."""
    queue = c.run("squeue", "-h", "-t", "all", "-j", job, "-o", "%T|%r").ok().out.strip().split("|")
    lines = [line.split("|") for line in c.run("sacct", "-n", "-P", "-a", "-S", "1970-01-01", "-j", job, "-o", "JobID,State,ExitCode,DerivedExitCode").ok().out.splitlines()]
    whole = [line for line in lines if "." not in line[0]]
    steps = [line for line in lines if "." in line[0] and not line[0].endswith(".extern")]
    check(len(whole) == 1, "sacct shows %r for job %d", lines, job)
    step = "%s %s" % tuple(steps[0][1:3]) if steps else "none"
    return [queue[0], queue[1], whole[0][1], whole[0][2], whole[0][3], step, str(client)]


def check_end(c, how, job, client="-"):
    """Compares what is shown of JOB with the page's line; the last look counts, for accounts follow a step later."""
    want = table().get(how)
    check(want, "muster-ends(7) has no line %r", how)
    seen = None

    def same():
        nonlocal seen
        seen = shown(c, job, client)
        return seen == want
    try:
        wait_until("the end as documented", 20, same)
    finally:
        equal(seen, want, "%s: muster-ends(7) is wrong or this is; its line would be\n%s\nand it" % (how, "  ".join([how] + (seen or []))))


class Batch:
    """A job with an sbatch --wait behind it."""

    def __init__(self, c, *words):
        self.c = c
        self.p = subprocess.Popen(["sbatch", "--wait", "--parsable", "--no-requeue", "-n1", "-o", "/dev/null", *words], env=local.environment(c.c), cwd=c.home,
                                  stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self.job = int(self.p.stdout.readline())

    def check(self, how):
        check_end(self.c, how, self.job, self.p.wait(90))


@test()
def test_ends(t):
    """Scripts that end by themselves, by signals, by memory, by what they lack; cancelled and requeued ones; sruns of their own."""
    c = t.cluster(controllers=1, nodes=1, cpus=8, settings={"KillWait": "2"})
    mem = ("--mem", "150")  # srun itself must fit, with a sanitizer too
    ran = {"exit 0": Batch(c, *mem, "--wrap", "exit 0"),
           "exit 7": Batch(c, *mem, "--wrap", "exit 7"),
           "a step fails, the script does not": Batch(c, *mem, "--wrap", "srun sh -c 'exit 5'; exit 0"),
           "the script dies of SIGKILL": Batch(c, *mem, "--wrap", "kill -9 $$"),
           "the script dies of SIGSEGV": Batch(c, *mem, "--wrap", "kill -11 $$"),
           "the script is over its memory": Batch(c, *mem, "--wrap", "exec python3 -c '%s'" % EAT),
           "a child is, the script exits 0": Batch(c, *mem, "--wrap", "python3 -c '%s'; exit 0" % EAT),
           "a step's task is": Batch(c, *mem, "--wrap", "exec srun python3 -c '%s'" % EAT),
           "output folder missing": Batch(c, *mem, "-o", "/no/such/folder/out", "--wrap", "true"),
           "interpreter missing": Batch(c, *mem, c.script("#!/no/such/interpreter\n", "lacks"))}
    waits = Batch(c, *mem, "-H", "--wrap", "true")
    c.run("scancel", waits.job).ok()
    cancelled = Batch(c, *mem, "--wrap", "echo >begun; sleep 300")
    c.read("begun", 60)
    c.run("scancel", cancelled.job).ok()
    for how, batch in ran.items():
        batch.check(how)
    waits.check("cancelled while it waits")
    cancelled.check("cancelled while it runs")
    unmet = Batch(c, *mem, "-d", "afterok:%d" % ran["exit 7"].job, "--kill-on-invalid-dep=yes", "--wrap", "true")
    unmet.check("its dependency cannot be met")
    c.run("sbatch", c.script("#!/bin/sh\r\ntrue\r\n", "dos")).refused("DOS line breaks")

    for how, words in (("srun: exit 3", ("sh", "-c", "exit 3")), ("srun: a task dies of SIGKILL", ("sh", "-c", "kill -9 $$"))):
        name = re.sub("[^a-z]", "", how)
        code = c.run("srun", "-n1", "--mem", "60", "-J", name, *words).code
        job = wait_until("srun's job", 30, lambda: c.run("sacct", "-X", "-n", "-P", "--name", name, "-o", "JobID").ok().out.strip())
        check_end(c, how, int(job), code)
    alone = subprocess.Popen(["srun", "-n1", "--mem", "60", "sh", "-c", "echo $SLURM_JOB_ID; exec sleep 300"], env=local.environment(c.c), cwd=c.home,
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
    job = int(alone.stdout.readline())
    alone.send_signal(signal.SIGKILL)
    alone.wait(30)
    check_end(c, "srun itself is killed", job)


@test()
def test_ends_of_nodes(t):
    """What ends with a part of the node: the agent, the shepherd, a prolog."""
    prolog = os.path.join(t.dir, "prolog")
    with open(prolog, "w") as f:
        f.write('#!/bin/sh\n! [ -e %s/bad ]\n' % t.dir)
    os.chmod(prolog, 0o755)
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2", "Prolog": prolog})
    lasts = Batch(c, "--mem", "60", "--wrap", "echo >begun; while ! [ -e %s/go ]; do sleep 0.1; done; exit 0" % t.dir)
    c.read("begun", 60)
    c.kill("n1")
    open(os.path.join(t.dir, "go"), "w").close()
    c.start("n1")
    lasts.check("the agent is killed and comes back")
    job = c.sbatch("--mem", "60", "--requeue", "-o", "/dev/null", "--wrap", "echo >again; sleep 300")
    c.read("again", 60)
    c.run("scontrol", "requeuehold", job).ok()
    check_end(c, "requeued and held", job)
    c.run("scancel", job).ok()
    open(os.path.join(t.dir, "bad"), "w").close()
    job = c.sbatch("--mem", "60", "--requeue", "-o", "/dev/null", "--wrap", "true")
    check_end(c, "the prolog fails", job)


@test()
def test_ends_of_others(t):
    """What ends for another job's sake, and what begins again."""
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2", "PreemptType": "preempt/partition_prio", "PreemptMode": "REQUEUE",
                                                    "PartitionName": "high Nodes=n1 PriorityTier=9 MaxTime=INFINITE State=UP"})
    urgent = ("-p", "high", "--exclusive", "-o", "/dev/null", "--wrap", "true")
    script = "[ ${SLURM_RESTART_COUNT:-0} -gt 0 ] && exit 0; echo >%s; exec sleep 1000"
    victim = Batch(c, "--exclusive", "--wrap", script % "first")
    c.read("first", 60)
    c.sbatch(*urgent)
    victim.check("preempted, not to run again")
    again = Batch(c, "--exclusive", "--requeue", "--wrap", script % "second")
    c.read("second", 60)
    c.sbatch(*urgent)
    again.check("preempted, requeued, then exit 0")
    asked = Batch(c, "--requeue", "--wrap", script % "third")
    c.read("third", 60)
    c.run("scontrol", "requeue", asked.job).ok()
    asked.check("requeued on request, then exit 0")
