"""What users and administrators do every day, seen from the prompt."""
from harness import USER, check, equal, local, test, wait_until


@test(build="plain")
def test_wait(t):
    """sbatch --wait gives the job's exit code, also where a follower answers it before it has applied the submission."""
    c = t.cluster()
    for _ in range(5):
        done = c.run("sbatch", "--wait", "--wrap", "exit 7", user=USER)
        equal((done.code, done.err), (7, ""), "sbatch --wait of a job that ends with 7")
    done = c.run("sbatch", "--wait", "--wrap", "kill -9 $$", user=USER)
    equal(done.code, 137, "sbatch --wait of a killed job")


@test()
def test_steps_at_the_end(t):
    """Steps that end together with their job, while a report of earlier ones is on its way."""
    c = t.cluster(controllers=1, nodes=1)
    c.script("#!/bin/bash\n#SBATCH -n1\nfor i in 1 2 3; do srun true; sleep 0.$((RANDOM % 9)); done\nsrun true & wait\n", "steps.sh")
    jobs = [c.sbatch("steps.sh", user=USER) for _ in range(8)]
    rows = c.wait_ended(*jobs, seconds=90)
    for job in jobs:
        equal(rows[job][:2], ("COMPLETED", "0:0"), "job %d" % job)
        lines = c.run("sacct", "-n", "-P", "-j", job, "-o", "JobID,State").ok().out.split()
        equal(lines[2:], ["%d.%d|COMPLETED" % (job, step) for step in range(4)], "the steps of job %d" % job)


@test(build="plain")
def test_warning(t):
    """--signal comes before the time limit: to the steps, or with B: to the batch script alone."""
    c = t.cluster(controllers=1, nodes=1)
    c.script("#!/bin/bash\ntrap 'echo batch; exit 3' USR1\n"
             "srun bash -c 'trap \"echo step; exit 5\" USR1; while :; do sleep 0.2; done' & wait; wait\n", "warned.sh")
    batch = c.sbatch("-t", "1", "--signal=B:USR1@57", "-o", "batch", "warned.sh", user=USER)
    steps = c.sbatch("-t", "1", "--signal=USR1@57", "-o", "steps", "warned.sh", user=USER)
    rows = c.wait_ended(batch, steps, seconds=40)
    equal(rows[batch][:2], ("FAILED", "3:0"), "the job whose script is warned")
    equal(rows[steps][0], "COMPLETED", "the job whose step is warned")
    equal(c.read("batch").splitlines()[0], "batch", "output of the first")
    # The whole step is warned: where its sleep is struck first, bash says so before its own trap speaks.
    check("step" in c.read("steps").splitlines(), "the step's trap did not speak: %r", c.read("steps"))


@test(build="plain")
def test_sacct_order(t):
    """sacct lists jobs by id, whatever ended first."""
    c = t.cluster(controllers=1, nodes=1)
    jobs = [c.sbatch("--wrap", "sleep %s" % s, user=USER) for s in ("1.5", "0.7", "0")]
    c.wait_ended(*jobs)
    lines = c.run("sacct", "-n", "-P", "-X", "-o", "JobID", user=USER).ok().out.split()
    equal(lines, [str(j) for j in jobs], "sacct's order")


@test(build="plain")
def test_limits(t):
    """An ordinary user against a partition's limits, and an administrator who changes them."""
    c = t.cluster(controllers=1, nodes=2)
    c.run("scontrol", "update", "partition=debug", "MaxTime=10", "MaxNodes=1").ok()
    c.run("sbatch", "--test-only", "-t20", "--wrap", "true", user=USER).refused("allocation failure: Requested time limit is invalid")
    c.run("sbatch", "--test-only", "-N2", "--wrap", "true", user=USER).refused("allocation failure: Node count specification invalid")
    long = c.sbatch("-t20", "--wrap", "true", user=USER)
    wide = c.sbatch("-N2", "--wrap", "true", user=USER)
    reasons = c.run("squeue", "-h", "-o", "%i %r").ok().out.split("\n")[:-1]
    equal(sorted(reasons), ["%d PartitionTimeLimit" % long, "%d PartitionNodeLimit" % wide], "reasons")
    c.run("scontrol", "update", "part=debug", "MaxTime=INFINITE", "MaxNodes=INFINITE", "Nodes=ALL").ok()
    check("MaxNodes=UNLIMITED" in c.run("scontrol", "show", "partition").ok().out, "MaxNodes is not unlimited again")
    c.wait_ended(long, wide)
    c.run("scontrol", "update", "node=ALL", "state=drain", "reason=all of them").ok()
    equal(c.run("sinfo", "-h", "-o", "%N %T").ok().out, "n[1-2] drained\n", "sinfo of drained nodes")
    done = c.run("sbatch", "-H", "--nice=-5", "--begin=now+1hour", "--parsable", "--wrap", "true", user=USER).ok()
    equal(done.err, "sbatch: error: Nice value must be non-negative, value ignored\n", "a negative nice value")
    job = done.out.strip()
    c.run("scontrol", "update", "job=" + job, "StartTime=now").ok()
    equal(c.run("squeue", "-h", "-j", job, "-o", "%S %y").ok().out, "N/A 0\n", "start and nice of a job that may start at once")
    steers = c.sbatch("-H", "-J", "a\nb\x1b[1m", "--wrap", "true", user=USER)
    equal(c.run("squeue", "-h", "-j", steers, "-o", "%j").ok().out, "a?b?[1m\n", "a name that would steer the terminal")
    check(" JobName=a?b?[1m\n" in c.run("scontrol", "show", "job", steers).ok().out, "scontrol lets a name steer the terminal")


@test(build="plain")
def test_script(t):
    """What a script finds: its own name, three descriptors and no more; and where sbatch takes it from."""
    c = t.cluster(nodes=1)
    c.script("#!/bin/bash\necho ${0##*/} $1\nls /proc/$$/fd\n", "names.sh")
    job = int(c.run("bash", "-c", "sbatch --parsable <(cat names.sh) arg", user=USER).ok().out)
    c.wait_ended(job)
    # 255 is the script as the shell reads it. A pipe to ls would be seen with one end or both, as the shell has time.
    words = c.read("slurm-%d.out" % job).split()
    equal(words[:2], ["slurm_script", "arg"], "name and argument")
    equal(sorted(words[2:]), ["0", "1", "2", "255"], "its descriptors")
    c.run("scontrol", "setdebug", "debug2").ok()
    for name in c.controllers():
        with open("%s/log/%s.log" % (c.dir, name)) as f:
            check("debug level is debug2" in f.read(), "%s was not told the debug level", name)


@test(build="plain")
def test_lost_steps(t):
    """A node that was silent comes back and says how the steps ended that it ran for an attempt given up."""
    c = t.cluster(controllers=1, nodes=1, settings={"SlurmdTimeout": "4", "MusterHeartbeat": "1", "KillWait": "2"})
    job = c.sbatch("--wrap", "sleep 300", user=USER)

    def rows():
        return c.run("sacct", "-D", "-n", "-P", "-j", job, "-o", "JobID,State").ok().out.split()
    # The job runs as soon as it is decided, its script some time later: an agent killed between has no step to tell of.
    wait_until("the script to run", 30, lambda: "%d.batch|RUNNING" % job in rows())
    c.kill("n1")
    wait_until("the node to be down", 30, lambda: c.run("sinfo", "-h", "-o", "%T").ok().out.startswith("down"))
    c.start("n1")
    expected = ["%d|NODE_FAIL" % job, "%d.batch|NODE_FAIL" % job, "%d|RUNNING" % job, "%d.batch|RUNNING" % job]
    wait_until("both runs with their steps, not %s" % rows(), 30, lambda: rows() == expected)
    c.run("scancel", job).ok()


@test(build="plain")
def test_large_script(t):
    """A script and an environment that no entry of the log holds whole, and small jobs behind them."""
    c = t.cluster(nodes=1)
    c.script("#!/bin/bash\n#" + "y" * 300000 + "\necho $((${#A} + ${#B}))\n", "long.sh")
    jobs = [c.sbatch("-o", "long", "long.sh", user=USER, env={"A": "a" * 99000, "B": "b" * 99001})]
    jobs += [c.sbatch("--wrap", "true", user=USER) for _ in range(3)]
    rows = c.wait_ended(*jobs, seconds=30)
    for job in jobs:
        equal(rows[job][:2], ("COMPLETED", "0:0"), "job %d" % job)
    equal(c.read("long"), "198001\n", "what the long script found")


@test(build="plain")
def test_ulimit(t):
    """A job has the limits of the shell that submitted it, as PropagateResourceLimitsExcept allows; a step those of its script."""
    c = t.cluster(controllers=1, nodes=1, settings={"PropagateResourceLimitsExcept": "CORE"})
    c.script("#!/bin/bash\nulimit -Sn; ulimit -Sc; env | grep -c RLIMIT; ulimit -Sn 321; srun bash -c 'ulimit -Sn'\n", "limits.sh")
    done = c.run("bash", "-c", "ulimit -Sn 555; ulimit -Sc 7; sbatch --parsable -o limits limits.sh", user=USER).ok()
    c.wait_ended(int(done.out))
    lines = c.read("limits").split()
    equal((lines[0], lines[2], lines[3]), ("555", "0", "321"), "open files, variables left over, open files of a step")
    check(lines[1] != "7", "the size of core files was taken along")


@test(build="plain")
def test_special_exit(t):
    """A job held as a special exit is listed as that, and no longer once it is cancelled."""
    c = t.cluster(controllers=1, nodes=1)
    job = c.sbatch("--wrap", "sleep 300", user=USER)
    wait_until("the job to run", 30, lambda: c.states(job).get(job, ("",))[0] == "RUNNING")
    c.run("scontrol", "requeuehold", "State=SpecialExit", job).ok()
    wait_until("the special exit to be listed", 30, lambda: c.run("squeue", "-h", "-o", "%i %t").ok().out == "%d SE\n" % job)
    equal(c.run("squeue", "-h", "-t", "SE", "-o", "%i").ok().out, "%d\n" % job, "the special exits")
    c.run("scancel", job).ok()
    equal(c.run("squeue", "-h").ok().out + c.run("squeue", "-h", "-t", "SE").ok().out, "", "what is listed of a cancelled one")


@test(build="plain")
def test_reasons(t):
    """A signal has its number in the reason; a hidden partition is for those who ask for it."""
    c = t.cluster(controllers=1, nodes=1)
    job = c.sbatch("--wrap", "kill -9 $$", user=USER)
    c.wait_ended(job)
    for words in (["job=%d" % job], ["jobid", job], ["nodename=n1"], ["partition=debug"]):
        c.run("scontrol", "show", *words).ok()
    equal(c.run("squeue", "-h", "-t", "all", "-o", "%r").ok().out, "RaisedSignal:9(Killed)\n", "reason of a killed job")
    c.run("scontrol", "update", "partition=debug", "hidden=yes").ok()
    for words, user, lines in ((["-h"], USER, 0), (["-h", "-a"], USER, 1), (["-h", "-p", "debug"], USER, 1), (["-h"], None, 1)):
        equal(len(c.run("sinfo", *words, user=user).ok().out.splitlines()), lines, "lines of sinfo %s of %s" % (words, user))


@test(build="plain")
def test_overcommit(t):
    """More tasks than CPUs, in the job and in its step."""
    c = t.cluster(controllers=1, nodes=1)
    job = c.sbatch("-n", "9", "-O", "-o", "tasks", "--wrap", "srun true && srun -n 9 hostname | wc -l", user=USER)
    equal(c.wait_ended(job)[job][0], "COMPLETED", "the job")
    equal(c.read("tasks"), "9\n", "tasks of its step")


@test(build="plain")
def test_operator_words(t):
    """What an operator types at the controllers: who leads, what they print of themselves, and their end."""
    c = t.cluster(nodes=1, settings={"KillWait": "2"})
    for name in c.controllers():
        c.run("scontrol", "takeover", name).ok()
        wait_until("%s to lead" % name, 20, lambda: c.leader() == name)
    c.run("scontrol", "takeover").ok()
    c.run("scontrol", "takeover", "nosuch").refused("slurm_takeover error: nosuch is no member of this cluster")
    c.run("scontrol", "setdebug", "debug2").ok()
    c.run("scontrol", "setdebugflags", "+raft").ok()
    shown = c.run("scontrol", "show", "config").ok().out
    check("SlurmctldDebug          = debug2\n" in shown and "DebugFlags              = Raft\n" in shown, "config after setdebug: %s", shown)
    equal(c.run("scontrol", "errnumstr", "2017").ok().out, "Invalid job id specified\n", "an error's number")
    c.run("scontrol", "errnumstr", "x").refused("is no error number")
    for command in (["squeue"], ["sinfo"], ["sacct"], ["scontrol", "show", "job"]):
        equal(c.run(*command, "--json=list").ok().out, "Possible data_parser plugins:\ndata_parser/v0.0.41\ndata_parser/v0.0.40\n", "models of " + command[0])
        c.run(*command, "--json=v0.0.37").refused("Invalid --json specification")
    c.run("sbatch", "-k5", "--wrap", "true").refused("Invalid --no-kill specification")
    job = c.sbatch("-n1", "--mem", "99", "--gres=gpu:1", "--wrap", "trap '' TERM; srun sleep 1; while :; do sleep 1; done")
    wait_until("a step to be shown", 20, lambda: "StepId=%d.batch UserId=0 " % job in c.run("scontrol", "show", "step").out)
    check("TRES=cpu=1,mem=99M,node=1,gres/gpu=1\n" in c.run("scontrol", "show", "step", "%d.batch" % job).ok().out, "TRES of a step")
    check('"tres_used": "cpu=1,mem=99M,gres/gpu=1"' in c.run("sinfo", "--json").ok().out, "TRES of a node in JSON")
    c.run("scancel", job).ok()
    wait_until("the job to be completing", 10, lambda: c.run("scontrol", "completing").ok().out.startswith("JobId=%d EndTime=" % job))
    wait_until("the end of completing", 20, lambda: c.run("scontrol", "completing").ok().out == "")
    c.run("scontrol", "shutdown", "everything").refused("is none of slurmctld and controller")
    before = {n: local.child_of(c.c, n) for n in c.controllers()}
    c.run("scontrol", "shutdown", "slurmctld").ok()
    wait_until("new processes", 30, lambda: all(local.child_of(c.c, n) not in (0, before[n]) for n in c.controllers()))
    wait_until("a job to be taken", 30, lambda: c.run("sbatch", "-H", "--wrap", "true").code == 0)


@test(build="plain")
def test_environment(t):
    """SLURM_NTASKS only where tasks were asked for, the node's memory for --mem=0; and what srun says when its job is cancelled."""
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2"})
    line = "echo ${SLURM_NTASKS-none} ${SLURM_NPROCS-none} ${SLURM_MEM_PER_NODE-none}"
    for words, expected in ((["--mem=100"], "none none 100"), (["--exclusive", "--mem=0"], "none none 2048"), (["-n2", "--mem=0"], "2 2 2048"),
                            (["-N1", "--ntasks-per-node=3"], "3 3 none")):
        job = c.sbatch("-o", "env", *words, "--wrap", line, user=USER)
        c.wait_ended(job)
        equal(c.read("env"), expected + "\n", "environment of sbatch %s" % " ".join(words))
    job = c.sbatch("-o", "out", "--wrap", "trap '' TERM; srun sleep 300", user=USER)
    wait_until("a step", 30, lambda: "%d.0 " % job in c.run("squeue", "-s", "-h", "-o", "%i ").out)
    c.run("scancel", job, user=USER).ok()
    wait_until("srun's words", 20, lambda: "srun: Job step aborted: Waiting up to 4 seconds for job step to finish.\n" in c.read("out"))
    c.wait_ended(job)


@test(build="plain")
def test_private_data(t):
    """PrivateData keeps people to themselves; others' jobs in a hidden partition are for those who ask for all."""
    c = t.cluster(controllers=1, nodes=1, settings={"PrivateData": "accounts,users,usage"})
    c.run("sacctmgr", "-i", "add", "account", "bio,chem").ok()
    c.run("sacctmgr", "-i", "add", "user", USER, "account=bio").ok()
    c.run("sacctmgr", "-i", "add", "user", "daemon", "account=chem").ok()

    def listed(*words, user=None):
        return sorted(c.run("sacctmgr", "-n", "-P", "show", *words, user=user).ok().out.split())
    equal(listed("user", "format=user", user=USER), [USER], "users that a user sees")
    equal(listed("account", "format=account", user=USER), ["bio"], "accounts that a user sees")
    equal(listed("assoc", "format=account,user", user=USER), ["bio|", "bio|" + USER, "root|"], "associations that a user sees")
    equal(listed("account", "format=account"), ["bio", "chem", "root"], "accounts that an operator sees")
    shares = c.run("sshare", "-a", "-n", "-P", "-o", "User", user=USER).ok().out.split()
    check(USER in shares and "daemon" not in shares, "shares that a user sees: %s", shares)
    theirs = c.sbatch("-H", "--wrap", "true")
    own = c.sbatch("-H", "--wrap", "true", user=USER)
    c.run("scontrol", "update", "partition=debug", "hidden=yes").ok()
    for words, user, jobs in (([], USER, [own]), (["-a"], USER, [theirs, own]), (["-p", "debug"], USER, [theirs, own]), ([], None, [theirs, own]),
                              (["-j", theirs], USER, [theirs])):
        equal(sorted(int(n) for n in c.run("squeue", "-h", "-o", "%i", *words, user=user).ok().out.split()), jobs, "squeue %s of %s" % (words, user))


@test(build="plain")
def test_requeued(t):
    """A job that waits again has no nodes and no end, whatever its last run had; that run keeps its own."""
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "1"})
    job = c.sbatch("--requeue", "-o", "/dev/null", "--wrap", "sleep 300", user=USER)
    wait_until("the job to run", 30, lambda: c.states(job).get(job, ("",))[0] == "RUNNING")
    c.run("scontrol", "requeuehold", job).ok()
    wait_until("the job to wait again", 30, lambda: c.states(job)[job][0] == "PENDING")
    rows = c.run("sacct", "-D", "-X", "-n", "-P", "-j", job, "-o", "State,NodeList,End").ok().out.split("\n")
    check(rows[0].startswith("REQUEUED|n1|2") and rows[1] == "PENDING|None assigned|Unknown", "sacct of a requeued job: %s", rows)
    shown = c.run("scontrol", "show", "job", job).ok().out
    check(" NodeList=\n" in shown and " EndTime=Unknown " in shown, "scontrol of a requeued job: %s", shown)
    check('"nodes": "",' in c.run("sacct", "-X", "--json", "-j", job).ok().out, "JSON of a requeued job has nodes")
    c.run("scancel", job).ok()
    wait_until("its end", 10, lambda: " NodeList=(null)\n" in c.run("scontrol", "show", "job", job).ok().out)
