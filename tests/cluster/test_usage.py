"""What steps used: figures of sacct and sstat against programs that know what they used."""
import os
import subprocess

from harness import USER, check, equal, local, test, wait_until
from test_steps import job_of, settle

# Uses CPU time, memory and I/O as told by its arguments, and says what the kernel has of it.
PROGRAM = """#!/usr/bin/python3
import os, resource, sys, time
cpu, mib, io = float(sys.argv[1]), int(sys.argv[2]) * (1 + int(os.environ["SLURM_PROCID"])), int(sys.argv[3])
held = bytearray(mib << 20)
held[::4096] = b"x" * len(held[::4096])
with open("/dev/zero", "rb", 0) as source, open("/dev/null", "wb", 0) as sink:
    for _ in range(io):
        sink.write(source.read(1 << 20))
while time.process_time() < cpu:
    sum(range(10000))
used = resource.getrusage(resource.RUSAGE_SELF)
print(used.ru_utime, used.ru_stime, used.ru_maxrss, flush=True)
if len(sys.argv) > 4:
    sys.stdin.readline()
"""
UNITS = {"K": 1 << 10, "M": 1 << 20, "G": 1 << 30}


def size(text):
    return float(text[:-1]) * UNITS[text[-1]] if text and text[-1] in UNITS else float(text or 0)


def seconds(text):
    days, _, rest = text.rpartition("-")
    parts = [float(p) for p in rest.split(":")]
    total = 0.0
    for p in parts:
        total = total * 60 + p
    return total + (int(days) * 86400 if days else 0)


def near(seen, expected, what, slack=0.0):
    check(abs(seen - expected) <= 0.02 * expected + slack, "%s: %s is not within 2 %% of %s", what, seen, expected)


def rows(c, job, *names):
    done = c.run("sacct", "-n", "-P", "--noconvert", "-j", job, "-o", ",".join(("JobID",) + names)).ok()
    return {line.split("|")[0]: dict(zip(names, line.split("|")[1:])) for line in done.out.splitlines()}


@test()
def test_usage(t):
    """CPU time, memory and I/O within 2 %, of one task, of tasks on two nodes, of a step that is over at once; .extern; derived exit code."""
    c = t.cluster(controllers=1, nodes=2, cpus=2, settings={"PrologFlags": "Contain", "DefMemPerCPU": "1000"})
    program = c.script(PROGRAM, name="use")
    job = c.sbatch("-N2", "-n2", "-o", "out", "--wrap", "srun -N1 -n1 %s 0.6 100 40; srun -N2 -n2 %s 0.2 60 8; srun -N1 -n1 %s 0 40 1; srun -N1 -n1 sh -c 'exit 7'; exit 0"
                   % (program, program, program), user=USER)
    equal(settle(c, job), ("COMPLETED", "0:0"), "the job")
    said = [[float(word) for word in line.split()] for line in c.read("out").splitlines() if line[:1].isdigit()]
    seen = rows(c, job, "TotalCPU", "UserCPU", "SystemCPU", "MaxRSS", "AveRSS", "MaxRSSTask", "MaxRSSNode", "MaxVMSize", "MaxDiskRead", "MaxDiskWrite",
                "TRESUsageInTot", "TRESUsageOutMax", "MinCPUNode", "NTasks", "State", "DerivedExitCode", "AveCPU")
    one = seen["%d.0" % job]
    # The interpreter's start and end, and the shepherd's own fork, are in the step and not in the program's word.
    near(seconds(one["TotalCPU"]), said[0][0] + said[0][1], "CPU time", 0.06)
    near(seconds(one["UserCPU"]) + seconds(one["SystemCPU"]), seconds(one["TotalCPU"]), "user and system", 0.002)
    near(size(one["MaxRSS"]), said[0][2] * 1024, "MaxRSS")
    check(size(one["MaxVMSize"]) >= size(one["MaxRSS"]), "MaxVMSize %s is below MaxRSS", one["MaxVMSize"])
    near(size(one["MaxDiskRead"]), 40 << 20, "MaxDiskRead", 2 << 20)
    near(size(one["MaxDiskWrite"]), 40 << 20, "MaxDiskWrite", 1 << 17)
    check("mem=" in one["TRESUsageInTot"] and "vmem=" in one["TRESUsageInTot"] and one["TRESUsageOutMax"].startswith("energy=0,fs/disk=4"),
          "TRES: %s, %s", one["TRESUsageInTot"], one["TRESUsageOutMax"])
    two = seen["%d.1" % job]
    pair = sorted(said[1:3], key=lambda s: s[2])
    equal((two["MaxRSSTask"], two["MaxRSSNode"], two["NTasks"]), ("1", "n2", "2"), "who had most memory: %s, said %s" % (two, said))
    near(size(two["MaxRSS"]), pair[1][2] * 1024, "MaxRSS over two nodes")
    near(size(two["AveRSS"]), (pair[0][2] + pair[1][2]) * 512, "AveRSS over two nodes")
    near(seconds(two["TotalCPU"]), sum(s[0] + s[1] for s in pair), "CPU time over two nodes", 0.12)
    check(two["MinCPUNode"] in ("n1", "n2"), "MinCPUNode is %r", two["MinCPUNode"])
    short = seen["%d.2" % job]
    near(size(short["MaxRSS"]), said[3][2] * 1024, "MaxRSS of a short step")
    check(seconds(short["TotalCPU"]) > 0, "a short step used no CPU time")
    equal((seen["%d.extern" % job]["State"], seen["%d.3" % job]["State"]), ("COMPLETED", "FAILED"), "states")
    equal((seen[str(job)]["DerivedExitCode"], seen[str(job)]["State"]), ("7:0", "COMPLETED"), "the highest exit code of the steps")
    near(seconds(seen[str(job)]["TotalCPU"]), sum(seconds(r["TotalCPU"]) for k, r in seen.items() if "." in k), "the job's CPU time", 0.01)


@test()
def test_sstat(t):
    """What runs now, on two nodes, by the nodes' own word; who may ask; what does not run."""
    c = t.cluster(controllers=1, nodes=2, cpus=2, settings={"DefMemPerCPU": "1000"})
    program = c.script(PROGRAM, name="use")
    job = job_of(c.run("salloc", "--no-shell", "-N2", "-n4", user=USER).ok().err)
    inside = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n[1-2]"}
    step = subprocess.Popen(["setpriv", "--reuid", USER, "--clear-groups", "srun", "-N2", "-n2", "--overlap", program, "0.3", "50", "16", "wait"],
                            env=dict(local.environment(c.c), **inside), cwd=c.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    pair = sorted([[float(word) for word in step.stdout.readline().split()] for _ in range(2)], key=lambda s: s[2])
    names = "JobID,NTasks,MaxRSS,MaxRSSNode,MaxRSSTask,AveRSS,MinCPU,MaxDiskWrite,NodeList,TRESUsageInMax"

    def ask(*words, user=USER):
        return c.run("sstat", "-n", "-P", "--noconvert", *words, user=user)

    seen = ask("-j", job, "-o", names).ok().out.strip().split("|")
    equal((seen[0], seen[1], seen[3], seen[4], seen[8]), ("%d.0" % job, "2", "n2", "1", "n[1-2]"), "the running step")
    near(size(seen[2]), pair[1][2] * 1024, "MaxRSS")
    near(size(seen[5]), (pair[0][2] + pair[1][2]) * 512, "AveRSS")
    near(size(seen[7]), 16 << 20, "MaxDiskWrite", 1 << 17)
    other = subprocess.Popen(["srun", "-n1", "--overlap", "sleep", "300"], env=dict(local.environment(c.c), **inside), cwd=c.home)
    wait_until("a second step", 30, lambda: len(ask("-a", "-j", job, "-o", "jobid").out.split()) == 2)
    equal(ask("-j", "%d.1" % job, "-o", "jobid,ntasks").ok().out, "%d.1|1\n" % job, "a step by its number")
    pids = ask("-i", "-j", "%d.0" % job).ok().out.strip().split("|")
    equal((pids[0], pids[1], len(pids[2].split(","))), ("%d.0" % job, "n[1-2]", 2), "process ids")
    for pid in pids[2].split(","):
        check("use" in open("/proc/%s/cmdline" % pid).read(), "process %s is none of the step's", pid)
    check("MaxRSS" in c.run("sstat", "-e").ok().out and "AveCPU" in c.run("sstat", "-j", job, user=USER).ok().out, "its columns")
    check(ask("-j", job, user="daemon").code != 0, "another user saw the step")
    ask("-j", "%d.7" % job).refused("no such step runs")
    ask("-j", job + 100).refused("sstat: error: ")
    c.run("sstat").refused("You didn't give me any jobs to stat.")
    step.communicate("\n\n", timeout=60)
    c.run("scancel", job).ok()
    other.wait(60)
    equal(settle(c, job)[0], "CANCELLED", "the allocation")
    ask("-j", job).refused("sstat: error: ")
