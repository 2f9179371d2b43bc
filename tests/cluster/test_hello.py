"""The two scripts that a newcomer writes, byte for byte, and the everyday ends of a job."""
import os
import re

from harness import USER, check, equal, test, wait_until
from test_ends import check_end

HELLO = """#!/bin/bash
#SBATCH --job-name=hello
#SBATCH --partition=debug
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --time=00:05:00

echo "Hello from $SLURMD_NODENAME"
sleep 2
"""

PYTHON = """#!/bin/bash
#SBATCH --job-name=first-python
#SBATCH --partition=debug
#SBATCH --nodes=1
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --mem=1G
#SBATCH --time=00:05:00
#SBATCH --output=slurm-%j.out

set -euo pipefail

srun --ntasks=1 --cpus-per-task=1 python3 -u - <<'PY'
import os
import socket

print("job id:", os.environ["SLURM_JOB_ID"])
print("host:", socket.gethostname())
print("sum:", sum(range(100_000)))
PY
"""


@test(build="plain")
def test_hello(t):
    c = t.cluster()
    c.script(HELLO, "hello.sh")
    done = c.run("sbatch", "hello.sh", user=USER).ok()
    check(re.fullmatch(r"Submitted batch job [0-9]+\n", done.out), "sbatch printed %r", done.out)
    equal(done.err, "", "what sbatch says on stderr")
    job = int(done.out.split()[-1])
    queue = c.run("squeue").ok().out.splitlines()
    equal(queue[0], "             JOBID PARTITION     NAME     USER ST       TIME  NODES NODELIST(REASON)", "squeue's header")
    check(any(line.split()[:5][0] == str(job) and line.split()[2] == "hello" for line in queue[1:]), "squeue does not show job %d: %s", job, queue)
    equal(c.wait_ended(job)[job], ("COMPLETED", "0:0", "hello"), "the hello job")
    check(re.fullmatch(r"Hello from n[12]\n", c.read("slurm-%d.out" % job)), "its output is %r", c.read("slurm-%d.out" % job))
    equal(os.stat(os.path.join(c.home, "slurm-%d.out" % job)).st_uid, 65534, "owner of the output file")
    rows = c.run("sacct", "-n", "-P", "-j", job, "-o", "JobID,State,ExitCode").ok().out.splitlines()
    equal(rows, ["%d|COMPLETED|0:0" % job, "%d.batch|COMPLETED|0:0" % job], "sacct's rows")


@test()
def test_python_step(t):
    c = t.cluster(controllers=1, nodes=1)
    c.script(PYTHON, "first-python.sh")
    job = c.sbatch("first-python.sh", user=USER)
    equal(c.wait_ended(job)[job][:2], ("COMPLETED", "0:0"), "the Python job")
    out = c.read("slurm-%d.out" % job).splitlines()
    equal(out, ["job id: %d" % job, "host: %s" % os.uname().nodename, "sum: 4999950000"], "its output")
    rows = c.run("sacct", "-n", "-P", "-j", job, "-o", "JobID,State,ExitCode").ok().out.splitlines()
    equal(rows, ["%d|COMPLETED|0:0" % job, "%d.batch|COMPLETED|0:0" % job, "%d.0|COMPLETED|0:0" % job], "sacct's rows")


@test()
def test_exits(t):
    """Every way in which a job ends, and the file names it writes."""
    c = t.cluster(controllers=1, nodes=2, settings={"KillWait": "2"})
    fail = c.sbatch("--wrap", "exit 3", user=USER)
    killed = c.sbatch("--wrap", "kill -9 $$", user=USER)
    gone = c.sbatch("--wrap", "sleep 300", user=USER)
    waiting = c.sbatch("-H", "--wrap", "true", user=USER)
    nowhere = c.sbatch("-o", "no/such/folder/%j", "--wrap", "true", user=USER)
    named = c.sbatch("-J", "pat", "-o", "o-%x-%j-%5j-%u-%N-%%", "-e", "e-%A", "--wrap", "echo out; echo err >&2", user=USER)
    c.run("scancel", waiting, user=USER).ok()
    wait_until("job %d to run" % gone, 30, lambda: c.states(gone).get(gone, ("",))[0] == "RUNNING")
    c.run("scancel", gone, user="daemon")
    equal(c.states(gone)[gone][0], "RUNNING", "a job that another user tried to cancel")
    c.run("scancel", gone, user=USER).ok()
    rows = c.wait_ended(fail, killed, gone, waiting, nowhere, named, seconds=60)
    equal(rows[fail][:2], ("FAILED", "3:0"), "exit 3")
    equal(rows[killed][:2], ("FAILED", "0:9"), "kill -9 of the script")
    equal(rows[gone][0], "CANCELLED", "a cancelled running job")
    equal(rows[waiting][0], "CANCELLED", "a cancelled waiting job")
    check(rows[nowhere][0] in ("FAILED", "CANCELLED"), "a job with no folder for its output is %s", rows[nowhere])
    shown = c.run("scontrol", "show", "job", nowhere).out
    check("no/such/folder" in shown, "scontrol does not name the missing folder: %s", shown)
    equal(rows[named][:2], ("COMPLETED", "0:0"), "the job with patterns")
    node = c.run("sacct", "-X", "-n", "-P", "-j", named, "-o", "NodeList").ok().out.strip()
    equal(c.read("o-pat-%d-%05d-%s-%s-%%" % (named, named, USER, node)), "out\n", "its stdout")
    equal(c.read("e-%d" % named), "err\n", "its stderr")


@test(sizes="ci full", seconds=240)
def test_time_limit(t):
    """TERM at the limit, KILL after KillWait; both are TIMEOUT, whether the job minds TERM or not."""
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2"})
    polite = c.sbatch("-t", "1", "-n1", "--wrap", "sleep 600", user=USER)
    stubborn = c.sbatch("-t", "0:01", "-n1", "--wrap", "trap '' TERM; while :; do sleep 0.2; done", user=USER)
    trapping = c.sbatch("-t", "1", "-n1", "-o", "trapped", "--wrap", "trap 'echo got TERM; exit 0' TERM; sleep 600 & wait", user=USER)
    rows = c.wait_ended(polite, stubborn, trapping, seconds=150)
    for job, what in ((polite, "a job that minds TERM"), (stubborn, "one that ignores it"), (trapping, "one that traps it")):
        equal(rows[job][0], "TIMEOUT", what + " over its time limit")
    check_end(c, "its time limit", polite)
    check("got TERM" in c.read("trapped"), "the trap did not run: %r", c.read("trapped"))
