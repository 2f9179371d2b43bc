"""A node that loses its power: its spool on an ext4 image, its boot another one."""
import os
import signal
import time
import uuid

from harness import USER, Skip, check, equal, local, size, test, wait_until
from test_kills import Disk


def new_boot(c, name):
    with open(os.path.join(c.dir, "boot." + name), "w") as f:
        f.write("%s\n" % uuid.uuid4())


def end_all(c):
    """Every process of the cluster's jobs, and their groups, as a node without power has none."""
    for _ in range(200):
        for folder in local.cgroups(c.c):
            for name, word in (("freezer.state", "THAWED"), ("cgroup.freeze", "0")):
                try:
                    with open(os.path.join(folder, name), "r+") as f:
                        f.write(word)
                except OSError:
                    pass
        for pid in local.below(c.c):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        for folder in local.cgroups(c.c):
            try:
                os.rmdir(folder)
            except OSError:
                pass
        if not local.below(c.c) and not local.cgroups(c.c):
            return
        time.sleep(0.02)


def power_cut(c, disk, name):
    c.kill(name)
    end_all(c)
    disk.cut()
    new_boot(c, name)


@test(sizes="ci full", build="plain", seconds=240)
def test_node_power_cut(t):
    """No attempt runs twice, whatever the disk remembers; every job ends; an end that was on the disk and told nobody is kept."""
    library = os.path.join(os.environ["MUSTER_BUILD"], "tests/cluster/libboot.so")
    if not os.path.exists(library):
        raise Skip("the build has no tests/cluster/libboot.so")
    c = t.cluster(controllers=1, nodes=1, cpus=16, start=False, settings={"KillWait": "2", "SlurmdTimeout": "300"})
    disk = Disk(t, os.path.join(c.dir, "spool"), 64 << 20)
    c.c["nodes"]["n1"]["env"] = {"LD_PRELOAD": library, "MUSTER_BOOT_ID": os.path.join(c.dir, "boot.n1")}
    new_boot(c, "n1")
    local.up(c.c, None, 60)
    jobs = {}
    for _ in range(size("node_power_cuts")):
        for _ in range(6):
            name = "p%d" % len(jobs)
            wrap = "echo ${SLURM_RESTART_COUNT:-0} >> ran.%s; sleep %.1f" % (name, t.draw.choice((0, 0.3, 1, 3)))
            jobs[c.sbatch("-J", name, "-o", "/dev/null", "--mem", "16", "--wrap", wrap, user=USER)] = name
        time.sleep(t.draw.uniform(0, 2))
        power_cut(c, disk, "n1")
        c.start("n1")
        wait_until("n1 back", 60, lambda: "n1" in local.idle_nodes(c.c))
    rows = c.wait_ended(*jobs, seconds=90)
    again = 0
    for job, name in jobs.items():
        equal(rows[job][:2], ("COMPLETED", "0:0"), "end of job %d" % job)
        runs = c.read("ran." + name).split()
        check(len(set(runs)) == len(runs), "an attempt of job %d ran twice: %s", job, runs)
        again += len(runs) > 1
    t.say("%d of %d jobs ran again after a power cut", again, len(jobs))
    job = c.sbatch("-o", "/dev/null", "--wrap", "echo run >> over; sleep 2; echo end >> over; exit 5", user=USER)
    wait_until("the job to run", 30, lambda: "run" in c.read("over"))
    c.stop("c1")

    def kept():
        with open(os.path.join(c.dir, "log", "n1.log"), errors="replace") as f:
            return "job %d attempt 1: nobody has taken its end yet" % job in f.read()
    wait_until("an end that nobody takes", 60, kept)
    power_cut(c, disk, "n1")
    c.start("n1")
    c.start("c1")
    equal(c.wait_ended(job)[job][:2], ("FAILED", "5:0"), "the end that was on the disk")
    wait_until("n1 back", 60, lambda: "n1" in local.idle_nodes(c.c))
    equal(c.read("over").split(), ["run", "end"], "runs of that job")
