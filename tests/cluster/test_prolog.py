"""The site's own programs: prolog, epilog, task prologs, srun's, health check; and what survives its own end."""
import glob
import os
import subprocess

from harness import USER, check, equal, local, test, wait_until
from test_steps import job_of, settle


def write(path, text):
    with open(path + ".new", "w") as f:
        f.write(text)
    os.chmod(path + ".new", 0o755)
    os.rename(path + ".new", path)


def node_of(c, name):
    """State and reason as scontrol has them."""
    text = c.run("scontrol", "-o", "show", "node", name).ok().out
    state = text.split("State=", 1)[1].split()[0]
    reason = text.split(" Reason=", 1)[1].split(" [", 1)[0] if " Reason=" in text else ""
    return state, reason


@test()
def test_prologs(t):
    """Who is called when and with what; a failing prolog drains its node and the job goes elsewhere; a failing epilog drains it."""
    log = os.path.join(t.dir, "said")
    for kind in ("prolog", "epilog"):
        write(os.path.join(t.dir, kind), "#!/bin/sh\necho %s $SLURM_JOB_ID $SLURM_JOB_USER $SLURMD_NODENAME $SLURM_SCRIPT_CONTEXT $(id -u) >>%s\n"
              "! [ -e %s/bad-%s-$SLURMD_NODENAME ]\n" % (kind, log, t.dir, kind))
    write(os.path.join(t.dir, "health"), "#!/bin/sh\necho $SLURMD_NODENAME $SLURM_SCRIPT_CONTEXT >>%s/checked\n" % t.dir)
    c = t.cluster(controllers=1, nodes=2, settings={"Prolog": t.dir + "/prolog", "Epilog": t.dir + "/epi*g", "HealthCheckProgram": t.dir + "/health",
                                                    "HealthCheckInterval": "1", "HealthCheckNodeState": "IDLE"})
    open(log, "w").close()
    job = c.sbatch("-N2", "-o", "out", "--wrap", "echo script >>%s; srun true" % os.path.join(c.home, "said"), user=USER)
    equal(settle(c, job), ("COMPLETED", "0:0"), "a job between prolog and epilog")
    lines = [line.split() for line in open(log).read().splitlines()]
    for name in ("n1", "n2"):
        equal([line for line in lines if line[3] == name], [["prolog", str(job), USER, name, "prolog_slurmd", "0"],
                                                            ["epilog", str(job), USER, name, "epilog_slurmd", "0"]], "the programs of " + name)
    wait_until("health checks of both nodes", 30, lambda: {"n1 health_check", "n2 health_check"} <= set(open(t.dir + "/checked").read().splitlines()))

    write(os.path.join(t.dir, "bad-prolog-n1"), "")
    job = c.sbatch("-o", "elsewhere", "--wrap", "echo $SLURMD_NODENAME $SLURM_RESTART_COUNT", user=USER)
    equal(settle(c, job), ("COMPLETED", "0:0"), "a job whose first prolog failed")
    equal(c.read("elsewhere").split(), ["n2", "1"], "where it ran, and after how many restarts")
    equal(node_of(c, "n1"), ("IDLE+DRAIN", "Prolog error"), "the node of the failing prolog")
    held = c.run("salloc", "-w", "n1", "-n1", "true", user=USER, timeout=5)
    check(held.code != 0, "a drained node took an allocation: %r", held.err)
    c.run("scancel", "-u", USER).ok()
    os.unlink(os.path.join(t.dir, "bad-prolog-n1"))
    c.run("scontrol", "update", "nodename=n1", "state=resume").ok()

    write(os.path.join(t.dir, "bad-prolog-n1"), "")
    lost = c.run("salloc", "-w", "n1", "-n1", "true", user=USER)
    check(lost.code != 0 and "has been revoked" in lost.err, "salloc on a node whose prolog fails: %r", lost.err)
    os.unlink(os.path.join(t.dir, "bad-prolog-n1"))
    c.run("scontrol", "update", "nodename=n1", "state=resume").ok()

    write(os.path.join(t.dir, "bad-epilog-n2"), "")
    job = c.sbatch("-w", "n2", "-o", "none", "--wrap", "exit 3", user=USER)
    equal(settle(c, job), ("FAILED", "3:0"), "a job whose epilog failed")
    wait_until("the node to be drained", 30, lambda: node_of(c, "n2") == ("IDLE+DRAIN", "Epilog error"))


@test()
def test_slow_epilog(t):
    """While the epilog runs the job is completing, with its end known; a restarted agent runs it again."""
    gate = os.path.join(t.dir, "gate")
    write(os.path.join(t.dir, "epilog"), "#!/bin/sh\necho $$ >>%s/begun\nwhile ! [ -e %s ]; do sleep 0.1; done\n" % (t.dir, gate))
    c = t.cluster(controllers=1, nodes=1, settings={"Epilog": t.dir + "/epilog"})
    job = c.sbatch("-o", "none", "--wrap", "exit 5", user=USER)
    wait_until("COMPLETING", 30, lambda: "COMPLETING" in c.run("scontrol", "show", "job", job).ok().out)
    check("ExitCode=5:0" in c.run("scontrol", "show", "job", job).ok().out, "the end is not known while the epilog runs")
    c.kill("n1")
    c.start("n1")
    wait_until("the epilog to begin again", 30, lambda: len(open(t.dir + "/begun").read().split()) >= 2)
    equal(c.run("squeue", "-h", "-t", "all", "-o", "%t").ok().out.split(), ["CG"], "the job")
    open(gate, "w").close()
    equal(settle(c, job), ("FAILED", "5:0"), "in the end")


@test()
def test_unkillable(t):
    """Processes that survive SIGKILL past UnkillableStepTimeout drain the node, by name and number; when they go at last the job ends."""
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "1", "UnkillableStepTimeout": "1", "UnkillableStepProgram": t.dir + "/called"})
    write(os.path.join(t.dir, "called"), "#!/bin/sh\necho $SLURM_JOB_ID >%s/called.out\n" % t.dir)
    job = c.sbatch("-o", "none", "--wrap", "sleep 300", user=USER)
    where = "/sys/fs/cgroup/freezer/muster_%s/n1" % c.c["name"]
    v2 = not os.path.isdir("/sys/fs/cgroup/freezer")
    if v2:
        where = "/sys/fs/cgroup/muster_%s/n1" % c.c["name"]
    wait_until("the job to run", 30, lambda: glob.glob(where + "/job_%d_1/step_batch" % job) and c.states(job)[job][0] == "RUNNING")
    if v2:
        return  # there SIGKILL ends frozen processes too
    with open(where + "/freezer.state", "w") as f:
        f.write("FROZEN")
    try:
        c.run("scancel", job, user=USER).ok()
        wait_until("the node to be drained", 60, lambda: node_of(c, "n1")[1].startswith("Kill task failed: "))
        reason = node_of(c, "n1")[1]
        check("sleep[" in reason and "slurm_script[" in reason, "the reason names no process: %r", reason)
        wait_until("the site's program", 30, lambda: open(t.dir + "/called.out").read().strip() == str(job))
        check("COMPLETING" in c.run("scontrol", "show", "job", job).ok().out, "a job with processes left is not completing")
    finally:
        with open(where + "/freezer.state", "w") as f:
            f.write("THAWED")
    equal(settle(c, job, 60)[0], "CANCELLED", "when they are gone")


@test()
def test_task_prologs(t):
    """TaskProlog changes the task's environment and prints; epilogs run behind each task; srun's own programs run where srun does."""
    said = os.path.join(t.dir, "said")
    open(said, "w").close()
    os.chmod(said, 0o666)
    write(os.path.join(t.dir, "prolog"), "#!/bin/sh\necho export GIVEN=by the site\necho unset GONE\necho print task $SLURM_PROCID begins\necho ignored\n")
    write(os.path.join(t.dir, "mine"), "#!/bin/sh\necho \"export GIVEN=$GIVEN and me\"\n")
    write(os.path.join(t.dir, "epilog"), "#!/bin/sh\necho epilog $SLURM_PROCID $(id -un) >>%s\n" % said)
    write(os.path.join(t.dir, "around"), "#!/bin/sh\necho $SLURM_SCRIPT_CONTEXT \"$@\" >>%s\n" % said)
    c = t.cluster(controllers=1, nodes=2, settings={"TaskProlog": t.dir + "/prolog", "TaskEpilog": t.dir + "/epilog", "SrunProlog": t.dir + "/around"})
    done = c.run("srun", "-N2", "-l", "--task-prolog=" + t.dir + "/mine", "--epilog=" + t.dir + "/around", "sh", "-c", "echo $GIVEN, ${GONE-gone}",
                 user=USER, env={"GONE": "here"}).ok()
    equal(sorted(done.out.splitlines()), sorted(["%d: task %d begins" % (n, n) for n in (0, 1)] + ["%d: by the site and me, gone" % n for n in (0, 1)]),
          "what the tasks say")
    lines = sorted(open(said).read().splitlines())
    equal(lines, ["epilog 0 " + USER, "epilog 1 " + USER, "srun_epilog sh -c echo $GIVEN, ${GONE-gone}", "srun_prolog sh -c echo $GIVEN, ${GONE-gone}"],
          "the programs that ran")
    equal(c.run("srun", "--prolog=none", "sh", "-c", "exit 4", user=USER).code, 4, "a task's exit code with an epilog behind it")
    job = c.sbatch("-o", "out", "--wrap", "echo $GIVEN", user=USER)
    equal(settle(c, job), ("COMPLETED", "0:0"), "a batch job")
    equal(c.read("out"), "task begins\nby the site\n".replace("task ", "task 0 "), "what a batch script gets")
    killed = subprocess.Popen(["srun", "--task-epilog=/bin/sleep", "sleep", "300"], env=local.environment(c.c), cwd=c.home, stderr=subprocess.DEVNULL)
    wait_until("it to run", 30, lambda: "R" in c.run("squeue", "-h", "-o", "%t").ok().out)
    c.run("scancel", "-u", "root").ok()
    killed.wait(60)


@test()
def test_login_environment(t):
    """--get-user-env and --export=NONE begin with what su finds on the node; what the job brings wins; without it the job goes on and says so."""
    login = dict(line.split("=", 1) for line in subprocess.run(["su", "-", "root", "-c", "env"], capture_output=True, text=True, stdin=subprocess.DEVNULL,
                                                               env={"PATH": os.environ["PATH"], "TERM": "dumb"}, check=True).stdout.splitlines() if "=" in line)
    c = t.cluster(controllers=1, nodes=1)

    def environment(*words, user="root", more={}):
        done = subprocess.run(["sbatch", "--parsable", "-o", "out.%j", *words, "--wrap", "env"], cwd=c.home, text=True, capture_output=True, check=True,
                              env=dict(local.environment(c.c), **more)) if user == "root" else c.run("sbatch", "--parsable", "-o", "out.%j", *words, "--wrap", "env", user=user).ok()
        job = int(done.stdout if user == "root" else done.out)
        equal(settle(c, job), ("COMPLETED", "0:0"), "the job with %s" % (words,))
        text = c.read("out.%d" % job)
        return dict(line.split("=", 1) for line in text.splitlines() if "=" in line), text

    for words in (["--export=NONE"], ["--export=NONE", "--get-user-env=20L"]):
        env, text = environment(*words)
        for name in ("PATH", "HOME", "LOGNAME", "MAIL"):
            equal(env.get(name), login.get(name), "%s with %s" % (name, words))
        check("error" not in text and env["SLURM_PROCID"] == "0", "the output with %s: %r", words, text)
    mine = {"PATH": local.environment(c.c)["PATH"] + ":/of/the/submitter", "SBATCH_GET_USER_ENV": "30"}
    env, _ = environment("--export=ALL", more=mine)
    equal(env["PATH"], mine["PATH"], "what the job brings along")
    equal(env.get("MAIL"), os.environ.get("MAIL", login.get("MAIL")), "what only the login sets")
    env, text = environment("--get-user-env", user=USER)
    check("slurmstepd: error: Failed to load the login environment of %s: " % USER in text and env["USER"] == USER, "no login: %r", text)
    refused = c.run("sbatch", "--get-user-env=5X", "--wrap", "true", user=USER)
    check(refused.code != 0 and "--get-user-env" in refused.err, "a value that means nothing: %r", refused)
