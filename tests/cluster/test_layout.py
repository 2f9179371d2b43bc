"""Which task runs where, what it runs, and steps side by side."""
import os
import subprocess
import time

from harness import USER, check, equal, local, test, wait_until
from test_steps import job_of, settle


@test()
def test_layouts(t):
    """--distribution and SLURM_HOSTFILE, --multi-prog, binding that nobody asked for, steps beside each other, KillOnBadExit."""
    c = t.cluster(controllers=1, nodes=2, cpus=4, settings={"KillOnBadExit": "1"})
    hosts = c.script("n2\nn1\nn2\nn1,n2\n", name="hosts")
    for words in (), ("-m", "arbitrary"):
        alone = c.run("srun", *words, "sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME", env={"SLURM_HOSTFILE": hosts}, user=USER).ok()
        equal(sorted(alone.out.splitlines()), ["0 n2", "1 n1", "2 n2", "3 n1", "4 n2"], "an allocation of the file's nodes")
    job = job_of(c.run("salloc", "--no-shell", "-m", "arbitrary", "-n1", env={"SLURM_HOSTFILE": hosts}, user=USER).ok().err)
    check("ReqNodeList=n2" in c.run("scontrol", "show", "job", job).ok().out, "one task wants the first host only")
    c.run("scancel", job, user=USER).ok()
    job = job_of(c.run("salloc", "--no-shell", "-N2", "-n8", user=USER).ok().err)
    inside = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2", "SLURM_NTASKS": "8"}

    def step(*words, env=None):
        done = c.run("srun", *words, "sh", "-c", "echo $SLURM_PROCID $SLURMD_NODENAME", env=dict(inside, **(env or {})), user=USER).ok()
        where = dict(line.split() for line in done.out.splitlines())
        return "".join(where[str(k)][1] for k in range(len(where)))

    equal(step("-n8"), "11112222", "blocks")
    equal(step("-n8", "-m", "cyclic"), "12121212", "in turn")
    equal(step("-n8", "-m", "plane=2"), "11221122", "planes of two")
    equal(step("-n4", env={"SLURM_DISTRIBUTION": "cyclic"}), "1212", "SLURM_DISTRIBUTION")
    equal(step("-n5", "-m", "arbitrary", env={"SLURM_HOSTFILE": hosts}), "21212", "a host for each task")
    c.run("srun", "-n6", "-m", "arbitrary", "true", env=dict(inside, SLURM_HOSTFILE=hosts), user=USER).refused("too few for 6 tasks")
    c.run("srun", "-n2", "-m", "arbitrary", "true", env=inside, user=USER).refused("needs SLURM_HOSTFILE")

    twice = c.run("srun", "-n8", "cat", "/proc/self/environ", env=dict(inside, SLURM_PROCID="77", SLURM_TASK_PID="1"), user=USER).ok().out.split("\0")
    equal(sorted(word for word in twice if word.startswith("SLURM_PROCID=")), ["SLURM_PROCID=%d" % n for n in range(8)], "each task's number, once")

    programs = c.script("# who runs what\n0  echo master %t of '%t'\n1-2,4 echo worker %t %o \\\n  more\n*  sh -c \"echo rest $SLURM_PROCID\"\n",
                        name="jobs.conf")
    done = c.run("srun", "-l", "-n6", "--multi-prog", programs, "tail", env=inside, user=USER).ok()
    equal(sorted(done.out.splitlines()), ["0: master 0 of %t tail", "1: worker 1 0 more tail", "2: worker 2 1 more tail", "3: rest 3",
                                          "4: worker 4 2 more tail", "5: rest 5"], "--multi-prog")
    wait_until("its name in sacct", 30, lambda: "jobs.conf" in c.run("sacct", "-n", "-P", "-j", job, "-o", "JobName").ok().out)
    short = c.script("0 true\n", name="short.conf")
    c.run("srun", "-n2", "--multi-prog", short, env=inside, user=USER).refused("No executable program specified for this task")
    wrong = c.script("zero true\n", name="wrong.conf")
    c.run("srun", "-n1", "--multi-prog", wrong, env=inside, user=USER).refused("invalid: line 1")

    def bound(*words):
        done = c.run("srun", "-N1", "-l", *words, "grep", "Cpus_allowed_list", "/proc/self/status", env=inside, user=USER).ok()
        return [line.split("\t")[1] for line in sorted(done.out.splitlines())]
    host = os.cpu_count()
    if host >= 4:
        equal(len(set(bound("-n4"))), 4, "four tasks on four CPUs, each on its own")
    for one in bound("-n4"):
        check(one.isdigit(), "a task of four on four CPUs may use CPUs %s", one)
    equal(len(set(bound("-n3"))), 1, "three tasks on four CPUs are not bound")
    equal(len(set(bound("-n4", "--cpu-bind=none"))), 1, "--cpu-bind=none")

    began = time.monotonic()
    check(c.run("srun", "-n8", "sh", "-c", "[ $SLURM_PROCID = 7 ] && exit 3; exec sleep 300", env=inside, user=USER, timeout=100).code > 0, "exit code")
    check(time.monotonic() - began < 90, "KillOnBadExit=1 did not end the step")
    equal(c.run("srun", "-K0", "-n2", "sh", "-c", "[ $SLURM_PROCID = 0 ] && exit 3; sleep 1; echo on", env=inside, user=USER).out, "on\n", "-K0")

    full = dict(local.environment(c.c), **inside)
    first = subprocess.Popen(["srun", "-N1", "-n2", "--exact", "sh", "-c", "read x; echo $x"], env=full, cwd=c.home, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, text=True)
    wait_until("the first step", 30, lambda: "%d.%s" % (job, "") in c.run("squeue", "-s", "-h", "-o", "%i").ok().out)
    equal(c.run("srun", "-n6", "--exclusive", "true", env=inside, user=USER).err, "", "what is left is enough for six")
    equal(c.run("srun", "-n8", "--overlap", "true", env=inside, user=USER).err, "", "all of it, shared")
    waits = subprocess.Popen(["srun", "-n8", "echo", "there"], env=full, cwd=c.home, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE, text=True)
    equal(waits.stderr.readline(), "srun: Job %d step creation temporarily disabled, retrying (Requested nodes are busy)\n" % job, "a step that waits")
    c.run("srun", "-n8", "--immediate", "true", env=inside, user=USER).refused("Unable to create step for job %d: Requested nodes are busy" % job)
    equal(first.communicate("done\n", 60)[0].splitlines(), ["done", "done"], "the first step")
    out, err = waits.communicate(timeout=60)
    equal((out, err.splitlines()[0].rsplit(".", 1)[0]), ("there\n" * 8, "srun: Step created for StepId=%d" % job), "when it went on")
    c.run("scancel", job, user=USER).ok()
    equal(settle(c, job)[0], "CANCELLED", "the allocation")
