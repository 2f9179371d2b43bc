"""Controllers whose clocks are hours apart, and clocks that jump: no freeze, no divergence, the culprit named."""
import os
import struct
import time

import wire
from harness import Skip, check, equal, local, test, wait_until


def shim(c, name, seconds):
    """Gives controller NAME a wrong clock from its next start on; returns a function that sets another error at once."""
    library = os.path.join(os.environ["MUSTER_BUILD"], "tests/cluster/libskew.so")
    if not os.path.exists(library):
        raise Skip("the build has no tests/cluster/libskew.so")
    path = os.path.join(c.dir, "skew." + name)

    def set_to(value):
        with open(path, "r+b" if os.path.exists(path) else "w+b") as f:
            f.write(struct.pack("<q", int(value * 1e6)))
    set_to(seconds)
    c.c["controllers"][name]["env"] = {"LD_PRELOAD": library, "MUSTER_SKEW": path}
    return set_to


def works(c, what):
    job = c.sbatch("-o", "/dev/null", "--mem", "16", "--wrap", "true", timeout=20)
    equal(c.wait_ended(job, seconds=30)[job][:2], ("COMPLETED", "0:0"), "a job " + what)


def named(c, name):
    """True when some controller's own words name NAME and its clock."""
    where = os.path.join(c.dir, "log")
    for log in os.listdir(where):
        with open(os.path.join(where, log), errors="replace") as f:
            if any("clock" in line.lower() and name in line for line in f):
                return True
    return False


@test(sizes="ci full", build="plain", seconds=180)
def test_clocks_apart(t):
    """Two hours fast, three hours slow, one right: time in the log stays near the median and work goes on."""
    c = t.cluster(nodes=1, start=False)
    for name, seconds in zip(t.draw.sample(c.controllers(), 3), (7200, -10800, 0)):
        shim(c, name, seconds)
        t.say("clock of %s is off by %d s", name, seconds)
    local.up(c.c, None, 60)
    works(c, "with clocks hours apart")
    c.kill(c.leader())
    works(c, "after another controller took over")
    for name in c.controllers():
        c.start(name)
    wait_until("the three level", 30, lambda: c.check_equal(5))


@test(sizes="ci full", build="plain", seconds=240)
def test_clock_jumps(t):
    """The leader's clock jumps a day ahead, a day back and home again: submissions go on, ends have sane times, the culprit is named."""
    c = t.cluster(nodes=1, start=False)
    set_to = {name: shim(c, name, 0) for name in c.controllers()}
    local.up(c.c, None, 60)
    works(c, "before any jump")
    began = time.time()
    for jump in (86400, -86400, 60, 0):
        leader = c.leader()
        t.say("clock of %s jumps to %+d s", leader, jump)
        set_to[leader](jump)
        time.sleep(1)
        works(c, "while the clock of %s is off by %d s" % (leader, jump))
        if abs(jump) > 3600:
            wait_until("%s to be named for its clock" % leader, 15, lambda: named(c, leader))
        set_to[leader](0)
        time.sleep(1)
    for line in c.run("sacct", "-X", "-n", "-P", "-a", "-S", "1970-01-01", "-o", "JobID,Submit,Start,End").ok().out.splitlines():
        for stamp in line.split("|")[1:]:
            at = time.mktime(time.strptime(stamp, "%Y-%m-%dT%H:%M:%S"))
            check(began - 120 < at < time.time() + 120, "the log took a wrong clock's time: %s", line)
    check(wire.digest(c.socket(c.leader()))[0] > 0, "no position")
