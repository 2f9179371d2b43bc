"""Job arrays, as their user sees them."""
import json
import os

from harness import USER, check, equal, test, wait_until


def ids(c, *words, **more):
    return c.run("squeue", "-h", "-o", "%i", *words, **more).ok().out.split()


def waits(c, array, rest):
    wait_until("%s left of array %s" % (rest, array), 30, lambda: rest in ids(c, "-t", "PD", "-j", array))


@test()
def test_array(t):
    """From submission to accounts: numbers, names, files, environment, single tasks, the whole."""
    c = t.cluster(controllers=1, nodes=2, cpus=4, gpus=0, settings={"KillWait": "2"})
    gate = os.path.join(c.home, "gate")
    script = c.script("#!/bin/sh\n#SBATCH --array=0-12:3,20%2 --mem=20\nenv | grep ^SLURM_ARRAY | sort\nwhile ! test -e " + gate +
                      "; do sleep 0.1; done\nexit $((SLURM_ARRAY_TASK_ID == 3 ? 5 : 0))\n", "many.sh")
    job = c.sbatch("--requeue", script, user=USER)
    waits(c, job, "%d_[6,9,12,20%%2]" % job)
    equal(ids(c, "-t", "R", "-j", job), ["%d_0" % job, "%d_3" % job], "the tasks that run")
    equal(ids(c, "-r", "-t", "PD", "-j", job), ["%d_%d" % (job, i) for i in (6, 9, 12, 20)], "one line for each task")
    equal(c.run("squeue", "-h", "-j", "%d_9" % job, "-o", "%i %F %K %A %r").ok().out.split(),
          ["%d_9" % job, str(job), "9", str(job), "JobArrayTaskLimit"], "a task that waits with others")
    own = c.run("squeue", "-h", "-j", "%d_3" % job, "-o", "%A").ok().out.strip()
    check(own != str(job), "task 3 has the number of its array")
    said = c.run("scontrol", "show", "job", "%d_3" % job).ok().out
    check(said.startswith("JobId=%s ArrayJobId=%d ArrayTaskId=3 ArrayTaskThrottle=2 JobName=many.sh" % (own, job)), "it is shown as %r", said)
    check("StdOut=%s/slurm-%d_3.out" % (c.home, job) in said or "/slurm-%d_3.out" % job in said, "its file is not in %r", said)
    equal(c.run("scontrol", "show", "job", job).ok().out.count("JobId="), 6, "records of the array")
    c.run("scontrol", "show", "job", "%d_7" % job).refused("Invalid job id specified")
    rows = json.loads(c.run("squeue", "--json", "-j", job).ok().out)["jobs"]
    equal(sorted(r["array_task_id"]["number"] for r in rows if r["array_task_id"]["set"]), [0, 3], "task numbers of the model")
    equal([r["array_task_string"] for r in rows if not r["array_task_id"]["set"]], ["6,9,12,20%2"], "the others in the model")
    # Some tasks by themselves.
    c.run("scontrol", "hold", "%d_[9,20]" % job, user=USER).ok()
    equal(c.run("squeue", "-h", "-j", "%d_9,%d_20" % (job, job), "-o", "%r").ok().out.split(), ["JobHeldUser"], "the held tasks")
    c.run("scontrol", "update", "JobId=%d_12" % job, "Nice=50", user=USER).ok()
    c.run("scancel", "%d_20" % job, user=USER).ok()
    c.run("scancel", "%d_7" % job, user=USER)
    c.run("scontrol", "release", "%d_9" % job, user=USER).ok()
    c.run("scontrol", "update", "JobId=%d" % job, "ArrayTaskThrottle=4", user=USER).ok()
    wait_until("four tasks run", 30, lambda: len(ids(c, "-t", "R", "-j", job)) == 4)
    after = c.sbatch("--mem=20", "-d", "afterany:%d" % job, "--wrap", "true", user=USER)
    never = c.sbatch("--mem=20", "-d", "afterok:%d_3" % job, "--kill-on-invalid-dep=yes", "--wrap", "true", user=USER)
    each = c.sbatch("--mem=20", "-a", "0,3", "-d", "aftercorr:%d" % job, "--wrap", "true", user=USER)
    open(gate, "w").close()
    c.wait_ended(after)
    got = c.run("sacct", "-XnP", "-j", job, "-o", "JobID,State,ExitCode", user=USER).ok().out.splitlines()
    equal([g.split("|")[0] for g in got], ["%d_%d" % (job, i) for i in (0, 3, 6, 9, 12, 20)], "tasks in the accounts")
    equal([g.split("|")[1] for g in got if g.startswith("%d_3|" % job)], ["FAILED"], "the state of task 3")
    equal(c.run("sacct", "-XnP", "-j", "%d_3" % job, "-o", "ExitCode", user=USER).ok().out.strip(), "5:0", "how task 3 ended")
    steps = c.run("sacct", "-nP", "-j", "%d_0" % job, "-o", "JobID", user=USER).ok().out.split()
    equal(steps, ["%d_0" % job, "%d_0.batch" % job], "a task and its step")
    wait_until("the task without hope ends", 20, lambda: c.states(never)[never][0].startswith("CANCELLED"))
    wait_until("the corresponding task ends", 20, lambda: "COMPLETED" in c.run("sacct", "-XnP", "-j", "%d_0" % each, "-o", "State").ok().out)
    equal(c.run("squeue", "-h", "-j", "%d_3" % each, "-o", "%r").ok().out.strip(), "DependencyNeverSatisfied", "the task whose counterpart failed")
    c.run("scancel", each).ok()
    env = dict(line.split("=", 1) for line in c.read("slurm-%d_9.out" % job).split())
    equal(env, {"SLURM_ARRAY_JOB_ID": str(job), "SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_COUNT": "6", "SLURM_ARRAY_TASK_MIN": "0",
                "SLURM_ARRAY_TASK_MAX": "20", "SLURM_ARRAY_TASK_STEP": "1"}, "the environment of task 9")
    late = c.sbatch("--mem=20", "-d", "afternotok:%d" % job, "--wrap", "true", user=USER)
    equal(c.wait_ended(late)[late][0], "COMPLETED", "the job that waited for a failure")
    done = c.run("sbatch", "--wait", "--mem=20", "-a", "1-3", "-o", "%A.%a.txt", "--wrap", "exit $SLURM_ARRAY_TASK_ID", user=USER)
    equal(done.code, 3, "the highest exit code")
    wait_until("all is over", 20, lambda: not ids(c))


@test(build="plain")
def test_old_parents(t):
    """Dependencies on jobs and tasks that State has let go: history answers for them."""
    c = t.cluster(controllers=3, nodes=1, cpus=4, gpus=0, settings={"MinJobAge": "2"})
    small = ["--mem=20", "-o", "/dev/null"]
    good = c.sbatch(*small, "--wrap", "true", user=USER)
    bad = c.sbatch(*small, "--wrap", "exit 3", user=USER)
    many = c.sbatch(*small, "-a", "1-3", "--wrap", "test $SLURM_ARRAY_TASK_ID != 2", user=USER)
    wait_until("State lets them go", 60, lambda: all(c.run("scontrol", "show", "job", j).code == 1 for j in (good, bad, many)))
    after = c.sbatch(*small, "-d", "afterok:%d,afternotok:%d,afterok:%d_3" % (good, bad, many), "--wrap", "true", user=USER)
    never = c.sbatch(*small, "-d", "afterok:%d" % bad, "--kill-on-invalid-dep=yes", "--wrap", "true", user=USER)
    each = c.sbatch(*small, "-a", "2,3", "-d", "aftercorr:%d" % many, "--wrap", "true", user=USER)
    equal(c.wait_ended(after)[after][0], "COMPLETED", "the job whose parents ended as it wants")
    wait_until("the job without hope ends", 30, lambda: c.states(never)[never][0].startswith("CANCELLED"))
    wait_until("task 3 ends", 30, lambda: "COMPLETED" in c.run("sacct", "-XnP", "-j", "%d_3" % each, "-o", "State").ok().out)
    equal(c.run("squeue", "-h", "-j", "%d_2" % each, "-o", "%r").ok().out.strip(), "DependencyNeverSatisfied", "the task whose counterpart failed")
    c.run("sbatch", *small, "-d", "afterok:999999", "--wrap", "true", user=USER).refused("dependency")
    c.run("scancel", each).ok()


@test(build="plain")
def test_array_million(t):
    """A million tasks are submitted, listed and cancelled as one."""
    c = t.cluster(controllers=1, nodes=1, cpus=4, gpus=0, settings={"MaxArraySize": "1000001", "MaxJobCount": "1000010"})
    job = c.sbatch("-H", "-a", "1-1000000", "--mem=20", "--wrap", "true", user=USER)
    equal(ids(c), ["%d_[1-1000000]" % job], "the array folded")
    lines = ids(c, "-r")
    equal((len(lines), lines[0], lines[-1]), (1000000, "%d_1" % job, "%d_1000000" % job), "the array task by task")
    check("Resource temporarily unavailable" in c.run("sbatch", "-a", "1-11", "--wrap", "true", user=USER).err, "eleven more are too many")
    c.run("scontrol", "release", "%d_[1-50]" % job, user=USER).ok()
    wait_until("fifty tasks end", 60, lambda: len(c.run("sacct", "-XnP", "-j", job, "-s", "CD", "-o", "JobID").ok().out.split()) == 50)
    c.run("scancel", job, user=USER).ok()
    wait_until("all is over", 20, lambda: not ids(c))
    equal(c.run("sacct", "-XnP", "-j", job, "-s", "CA", "-o", "JobID").ok().out.split(), ["%d_[51-1000000]" % job], "the cancelled tasks")
