"""Heterogeneous jobs, as their user sees them."""
import json
import os

from harness import USER, check, equal, test, wait_until


def lines(c, *words):
    return c.run(*words).ok().out.split()


def ended(c, job):
    """States of all components, once they have ended."""
    def states():
        rows = [l.split("|")[1].split()[0] for l in c.run("sacct", "-XnP", "-j", job, "-o", "JobID,State").ok().out.splitlines()]
        return rows and not {"PENDING", "RUNNING", "COMPLETING"} & set(rows) and rows
    return wait_until("all components of %s have ended" % job, 60, states)


@test()
def test_het(t):
    """From submission to accounts: two components, their steps together and alone, their end."""
    c = t.cluster(controllers=1, nodes=3, cpus=2, gpus=0, settings={"KillWait": "2"})
    gate = os.path.join(c.home, "gate")
    script = c.script("#!/bin/sh\n#SBATCH -n2 --mem=300 -J two -t 5 -o two.out\n#SBATCH hetjob\n#SBATCH -N2 --mem=100 --ntasks-per-node=1\n"
                      "env | grep -E '^SLURM_(HET_SIZE|JOB_ID|.*_HET_GROUP_1)=' | sort\n"
                      "srun --het-group=0,1 sh -c 'echo all $SLURM_PROCID $SLURM_NTASKS $SLURM_JOB_ID $SLURM_STEP_ID' | sort\n"
                      "srun --het-group=1 sh -c 'echo one $SLURM_PROCID $SLURM_NTASKS' | sort\n"
                      "srun -l sh -c 'exit 3' : sh -c 'echo of two' | sort; echo \"rc $?\"\n"
                      "srun --het-group=2 true\nsrun --het-group=1,1 true\n"
                      "touch " + gate + ".1\nwhile ! test -e " + gate + "; do sleep 0.1; done\nexit 4\n", "two.sh")
    job = c.sbatch(script, user=USER)
    wait_until("the script has come to its gate", 60, lambda: os.path.exists(gate + ".1"))
    names = ["%d+%d" % (job, k) for k in (0, 1)]
    equal(lines(c, "squeue", "-h", "-o", "%i", "-j", job), names, "components of the job")
    equal(lines(c, "squeue", "-h", "-o", "%i %A", "-j", names[1]), [names[1], str(job + 1)], "the second by its name")
    equal(lines(c, "squeue", "-h", "-O", "HetJobID,HetJobOffset,HetJobIdSet", "-j", job + 1), [str(job), "1", "%d-%d" % (job, job + 1)], "its columns")
    said = c.run("scontrol", "show", "job", job).ok().out
    equal(said.count("HetJobIdSet=%d-%d" % (job, job + 1)), 2, "records of the job")
    check(said.startswith("JobId=%d HetJobId=%d HetJobOffset=0 JobName=two" % (job, job)), "it is shown as %r", said)
    rows = json.loads(c.run("squeue", "--json", "-j", job).ok().out)["jobs"]
    equal([(r["het_job_id"]["number"], r["het_job_offset"]["number"], r["het_job_id_set"]) for r in rows],
          [(job, k, "%d-%d" % (job, job + 1)) for k in (0, 1)], "components in the model")
    equal(len({r["start_time"]["number"] for r in rows}), 1, "moments of their start")
    c.run("scontrol", "show", "job", "%d+2" % job).refused("Invalid job id specified")
    c.run("scancel", "%d+7" % job, user=USER)
    open(gate, "w").close()
    equal(ended(c, job), ["FAILED", "FAILED"], "how they ended")
    wait_until("both are gone", 30, lambda: not lines(c, "squeue", "-h", "-o", "%i"))
    equal(c.run("sacct", "-nP", "-j", job, "-o", "JobID,State,ExitCode", user=USER).ok().out.split(),
          ["%s|FAILED|4:0" % names[0], "%s.batch|FAILED|4:0" % names[0], "%s.0|COMPLETED|0:0" % names[0], "%s.2|FAILED|3:0" % names[0],
           "%s|FAILED|4:0" % names[1], "%s.0|COMPLETED|0:0" % names[1], "%s.1|COMPLETED|0:0" % names[1], "%s.2|FAILED|3:0" % names[1]],
          "the accounts")
    equal(lines(c, "sacct", "-XnP", "-j", names[1], "-o", "JobID"), names[1:], "the second in the accounts")
    equal(lines(c, "sacct", "-XnP", "-j", names[1], "--whole-hetjob", "-o", "JobID"), names, "all of which one is named")
    equal(lines(c, "sacct", "-XnP", "-j", job, "--whole-hetjob=no", "-o", "JobID"), names[:1], "the first alone")
    out = c.read("two.out").splitlines()
    for line in ("SLURM_HET_SIZE=2", "SLURM_JOB_ID=%d" % job, "SLURM_JOB_ID_HET_GROUP_1=%d" % (job + 1), "SLURM_JOB_NUM_NODES_HET_GROUP_1=2",
                 "SLURM_NTASKS_HET_GROUP_1=2", "one 0 2", "one 1 2", "1: 2: of two", "1: 3: of two", "rc 0"):
        check(line in out, "%r is not in %r", line, out)
    equal([l for l in out if l.startswith("all ")], ["all %d 4 %d 0" % (k, job) for k in range(4)], "tasks of the step over both")
    check(any("Duplicate het groups" in l for l in out) and any("maximum value of 1" in l for l in out), "what srun refuses is not in %r", out)


@test()
def test_het_together(t):
    """Components start together or not at all; people end them together, one alone while it runs."""
    c = t.cluster(controllers=1, nodes=2, cpus=2, gpus=0, settings={"KillWait": "2"})
    first = c.sbatch("-N1", "--exclusive", "--wrap", "sleep 600", user=USER)
    job = c.sbatch("-N1", "--exclusive", "-J", "pair", "--wrap", "sleep 600", ":", "-N1", "--exclusive", user=USER)
    names = ["%d+%d" % (job, k) for k in (0, 1)]
    wait_until("they wait for a second node", 30,
               lambda: lines(c, "squeue", "-h", "-o", "%i,%T,%r", "-j", job) == ["%s,PENDING,Resources" % n for n in names])
    c.run("scancel", first, user=USER).ok()
    wait_until("both run", 30, lambda: lines(c, "squeue", "-h", "-o", "%i,%T", "-j", job) == ["%s,RUNNING" % n for n in names])
    c.run("scancel", names[1], user=USER).ok()
    wait_until("one is over and the other runs", 30, lambda: lines(c, "squeue", "-h", "-o", "%i,%T", "-j", job) == ["%s,RUNNING" % names[0]])
    c.run("scontrol", "requeue", job).ok()
    wait_until("both run again", 60, lambda: lines(c, "squeue", "-h", "-O", "State,RestartCnt", "-j", job) == ["RUNNING", "1"] * 2)
    c.run("scontrol", "hold", names[1]).refused()
    c.run("scancel", job, user=USER).ok()
    equal(ended(c, job), ["CANCELLED", "CANCELLED"], "how they ended")
    held = c.sbatch("-n1", "-H", "--wrap", "true", ":", "-n1", user=USER)
    wait_until("both are held", 30, lambda: lines(c, "squeue", "-h", "-o", "%r", "-j", held) == ["JobHeldUser"] * 2)
    c.run("scontrol", "release", "%d+1" % held, user=USER).ok()
    equal(ended(c, held), ["COMPLETED", "COMPLETED"], "the job that was released")
    c.run("sbatch", "-n1", "-a1-3", "--wrap", "true", ":", "-n1", user=USER).refused("Invalid job array specification")
    got = c.run("srun", "-n1", "sh", "-c", "echo A $SLURM_PROCID of $SLURM_NTASKS", ":", "-n2", "sh", "-c", "echo B $SLURM_PROCID of $SLURM_NTASKS",
                user=USER).ok().out
    equal(sorted(got.splitlines()), ["A 0 of 3", "B 1 of 3", "B 2 of 3"], "a step of an allocation of its own")
    got = c.run("salloc", "-Q", "-n1", ":", "-n2", "sh", "-c", "echo $SLURM_HET_SIZE; srun --het-group=0-1 sh -c 'echo $SLURM_PROCID'", user=USER).ok().out
    equal(sorted(got.split()), ["0", "1", "2", "2"], "the step of an allocation")
    wait_until("all is over", 60, lambda: not lines(c, "squeue", "-h", "-o", "%i"))
