"""What a node promises: limits, devices, agents and shepherds that die."""
import json
import os
import signal
import stat
import time

from harness import USER, Skip, check, equal, local, size, test, wait_until
from test_ends import check_end

KILL = {"KillWait": "2"}


def shepherds(c):
    """Process ids of the cluster's shepherds."""
    found = []
    for pid in local.below(c.c):
        try:
            with open("/proc/%d/comm" % pid) as f:
                if f.read().strip().startswith("muster-shep"):
                    found.append(pid)
        except OSError:
            pass
    return found


@test(seconds=600)
def test_agent_killed(t):
    """Agents killed again and again under running jobs: none lost, none doubled, right exit codes, nothing left behind."""
    c = t.cluster(controllers=1, nodes=2, cpus=8, settings=KILL)
    jobs = {}
    serial = 0
    for _ in range(size("agent_restarts")):
        for _ in range(4):
            serial += 1
            code = t.draw.choice((0, 0, 5))
            name = "a%d" % serial
            wrap = "echo start >> ran.%s; sleep %.1f; echo end >> ran.%s; exit %d" % (name, t.draw.choice((0, 0.5, 2, 4)), name, code)
            jobs[c.sbatch("-J", name, "-o", "/dev/null", "--mem", "32", "--wrap", wrap, user=USER)] = (name, code)
        time.sleep(t.draw.uniform(0, 1))
        victim = t.draw.choice(list(c.c["nodes"]))
        c.kill(victim)
        time.sleep(t.draw.choice((0, 0.2, 1.5)))
        c.start(victim)
        wait_until("%s known again" % victim, 30, lambda: victim in local.idle_nodes(c.c))
    rows = c.wait_ended(*jobs, seconds=120)
    for job, (name, code) in jobs.items():
        expected = ("FAILED", "%d:0" % code) if code else ("COMPLETED", "0:0")
        equal(rows[job], expected + (name,), "end of job %d" % job)
        equal(c.read("ran." + name), "start\nend\n", "runs of job %d" % job)
    wait_until("no process of a job left", 20, lambda: not local.below(c.c))
    wait_until("no cgroup of a job left", 20, lambda: not [g for g in local.cgroups(c.c) if "job_" in g or "step_" in g])


@test()
def test_shepherd_killed(t):
    """A shepherd that dies is reported as such; nothing of its job stays."""
    c = t.cluster(controllers=1, nodes=1, settings=KILL)
    job = c.sbatch("-o", "/dev/null", "--wrap", "echo go > started; sleep 300 & sleep 301", user=USER)
    c.read("started", 30)
    before = shepherds(c)
    check(before, "no shepherd runs")
    for pid in before:
        os.kill(pid, signal.SIGKILL)
    row = c.wait_ended(job, seconds=30)[job]
    check(row[0] in ("FAILED", "NODE_FAIL", "CANCELLED"), "a job whose shepherd was killed is %s", row)
    shown = c.run("scontrol", "show", "job", job).out + "".join(c.run("sacct", "-n", "-P", "-j", job, "-o", "State,ExitCode,Reason").out)
    t.say("shown: %s", " ".join(w for w in shown.split() if w.startswith(("Reason=", "JobState="))))
    wait_until("no process of the job left", 20, lambda: not local.below(c.c))
    c.wait_idle(20)


@test()
def test_memory(t):
    """Over --mem is OUT_OF_MEMORY by the kernel's count, also when the script itself ends well; the neighbour lives."""
    c = t.cluster(controllers=1, nodes=1, settings=KILL)
    eat = "python3 -c 'x = bytearray(300 << 20); import time; time.sleep(1)'"
    neighbour = c.sbatch("-o", "/dev/null", "--mem", "200", "--wrap", "sleep 6", user=USER)
    greedy = c.sbatch("-o", "/dev/null", "--mem", "100", "--wrap", eat, user=USER)
    hidden = c.sbatch("-o", "hidden", "-e", "hidden.err", "--mem", "100", "--wrap", "%s & wait; exit 0" % eat, user=USER)
    modest = c.sbatch("-o", "/dev/null", "--mem", "500", "--wrap", eat, user=USER)
    rows = c.wait_ended(neighbour, greedy, hidden, modest)
    equal(rows[greedy][0], "OUT_OF_MEMORY", "a job over its memory")
    equal(rows[hidden][:2], ("OUT_OF_MEMORY", "0:125"), "one whose child was over while the script ends with 0")
    equal(rows[neighbour][:2], ("COMPLETED", "0:0"), "its neighbour")
    equal(rows[modest][:2], ("COMPLETED", "0:0"), "the same program with enough memory")


@test()
def test_affinity(t):
    """A job sees exactly its CPUs; two jobs on one node never share one; the mask of each is what was allocated."""
    have = len(os.sched_getaffinity(0))
    c = t.cluster(controllers=1, nodes=1, cpus=min(have, 4), gpus=0, settings=KILL)
    script = "python3 -c 'import os, json; print(json.dumps(sorted(os.sched_getaffinity(0))))'; sleep 2"
    jobs = [c.sbatch("-n1", "-c1", "--mem", "64", "-o", "mask.%j", "--wrap", script, user=USER) for _ in range(min(have, 4))]
    c.wait_ended(*jobs)
    masks = [json.loads(c.read("mask.%d" % job)) for job in jobs]
    for mask in masks:
        equal(len(mask), 1, "CPUs in the mask of a job of one CPU (of %d)" % have)
    equal(len({m[0] for m in masks}), len(jobs), "different CPUs of %d jobs side by side" % len(jobs))
    whole = c.sbatch("-n1", "-c%d" % min(have, 4), "--mem", "64", "-o", "mask.%j", "--wrap", script, user=USER)
    c.wait_ended(whole)
    equal(len(json.loads(c.read("mask.%d" % whole))), min(have, 4), "CPUs of a job that asked for all")


@test()
def test_devices(t):
    """A device that was allocated opens, one that was not is refused, for the user and inside steps."""
    c = t.cluster(controllers=1, nodes=1, settings=KILL)
    devices = sorted(d for d in os.listdir(os.path.join(c.dir, "dev")) if d.startswith("n1-gpu"))
    if len(devices) < 2:
        raise Skip("this kernel has fewer than two character devices that may stand in for GPUs")
    for d in devices:
        check(stat.S_ISCHR(os.stat(os.path.join(c.dir, "dev", d)).st_mode), "%s is no character device", d)
    c.script("import os, sys\nfor d in sys.argv[1:]:\n    try:\n        os.close(os.open(d, os.O_RDWR | os.O_NONBLOCK))\n"
             "        print(os.path.basename(d), 'opens')\n    except OSError as e:\n        print(os.path.basename(d), e.strerror)\n", "try.py")
    line = "python3 try.py %s" % " ".join(os.path.join(c.dir, "dev", d) for d in devices)
    none = c.sbatch("--mem", "64", "-o", "dev.%j", "--wrap", line, user=USER)
    one = c.sbatch("--mem", "64", "--gres=gpu:test:1", "-o", "dev.%j", "--wrap", line + "; echo visible $CUDA_VISIBLE_DEVICES; sleep 1", user=USER)
    other = c.sbatch("--mem", "64", "--gres=gpu:1", "-o", "dev.%j", "--wrap", line + "; sleep 1", user=USER)
    both = c.sbatch("--mem", "64", "--gres=gpu:2", "-o", "dev.%j", "--wrap", "srun " + line, user=USER)
    rows = c.wait_ended(none, one, other, both)
    for job in (none, one, other, both):
        equal(rows[job][:2], ("COMPLETED", "0:0"), "job %d" % job)

    def opened(job):
        return {line.split()[0] for line in c.read("dev.%d" % job).splitlines() if line.endswith(" opens")}
    equal(opened(none), set(), "devices that open without --gres")
    equal(len(opened(one)), 1, "devices that open with one allocated")
    equal(len(opened(other)), 1, "devices that open with one allocated (2)")
    equal(opened(one) | opened(other), set(devices[:2]), "devices of two jobs side by side")
    equal(opened(both), set(devices[:2]), "devices that open with both allocated, in a step")
    check("Operation not permitted" in c.read("dev.%d" % none), "the refusal is %r", c.read("dev.%d" % none))
    c.run("sbatch", "--gres=gpu:3", "--wrap", "true").refused("Requested node configuration is not available")


@test()
def test_signals(t):
    """scancel with a signal reaches who it should, and exit by signal is told apart from exit by code."""
    c = t.cluster(controllers=1, nodes=1, settings=KILL)
    job = c.sbatch("-o", "sig.out", "--wrap", "trap 'echo got USR1' USR1; echo ready; for i in $(seq 100); do sleep 0.1; done", user=USER)
    wait_until("the script's trap", 20, lambda: "ready" in c.read("sig.out", 20))
    c.run("scancel", "-b", "-s", "USR1", job, user=USER).ok()
    wait_until("the signal in the batch shell", 10, lambda: "got USR1" in c.read("sig.out"))
    equal(c.states(job)[job][0], "RUNNING", "a job after a signal that it traps")
    c.run("scancel", "-f", "-s", "KILL", job, user=USER).ok()
    row = c.wait_ended(job, seconds=20)[job]
    equal(row[0], "CANCELLED", "a job whose processes were all killed by scancel")


@test()
def test_node_states(t):
    """Drain, resume, an agent that stops and comes back, a node that is silent for too long."""
    c = t.cluster(controllers=3, nodes=2, settings=dict(KILL, SlurmdTimeout="6"))
    c.run("scontrol", "update", "nodename=n1", "state=drain").refused("You must specify a reason when DOWNING or DRAINING a node")
    c.run("scontrol", "update", "nodename=n1", "state=drain", "reason=check disk").ok()
    check("check disk" in c.run("sinfo", "-R", "-h").ok().out, "sinfo -R does not show the reason")
    jobs = [c.sbatch("-o", "/dev/null", "--mem", "16", "--wrap", "true", user=USER) for _ in range(4)]
    c.wait_ended(*jobs)
    nodes = c.run("sacct", "-X", "-n", "-P", "-o", "NodeList").ok().out.split()
    equal(set(nodes), {"n2"}, "nodes used while n1 drains")
    c.run("scontrol", "update", "nodename=n1", "state=resume").ok()
    wait_until("n1 idle", 20, lambda: "n1" in local.idle_nodes(c.c))
    lost = c.sbatch("-w", "n2", "-o", "/dev/null", "--mem", "16", "--no-requeue", "--wrap", "sleep 300", user=USER)
    back = c.sbatch("-w", "n2", "-o", "back.%j", "--mem", "16", "--requeue", "--wrap", "echo run $SLURM_RESTART_COUNT; sleep 3", user=USER)
    wait_until("both to run", 20, lambda: {r[0] for r in c.states(lost, back).values()} == {"RUNNING"})
    c.stop("n2")
    wait_until("n2 down", 60, lambda: "n2" not in local.idle_nodes(c.c))
    wait_until("NODE_FAIL of the job", 30, lambda: c.states(lost)[lost][0] == "NODE_FAIL")
    check_end(c, "its node is lost", lost)
    c.start("n2")
    wait_until("n2 back unaided (ReturnToService=2)", 60, lambda: "n2" in local.idle_nodes(c.c))
    equal(c.wait_ended(back, seconds=90)[back][:2], ("COMPLETED", "0:0"), "the requeued job")
    c.wait_idle(30)
