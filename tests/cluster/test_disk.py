"""Disks that fill up: submissions are refused by name, ends and cancels go on, leadership leaves the full disk."""
import errno
import os
import subprocess
import time

import wire
from harness import USER, check, equal, local, test, wait_until
from test_kills import Disk


def fill(where, leave_mib):
    """Takes room on the file system WHERE until LEAVE_MIB are left; gives the path of what takes it."""
    path = os.path.join(where, "filler")
    with open(path, "wb") as f:
        while True:
            at = os.statvfs(where)
            try:
                os.posix_fallocate(f.fileno(), 0, os.fstat(f.fileno()).st_size + at.f_bavail * at.f_frsize - (leave_mib << 20))
                return path
            except OSError as trouble:  # Others wrote meanwhile.
                check(trouble.errno == errno.ENOSPC, "%s", trouble)


def disks(t, c):
    """A file system of 3 GiB for each controller's state."""
    found = {}
    os.makedirs(os.path.join(c.dir, "state"))
    for name in c.controllers():
        found[name] = Disk(t, os.path.join(c.dir, "state", name), 3 << 30)
        os.chmod(found[name].where, 0o700)
        lost = os.path.join(found[name].where, "lost+found")
        if os.path.isdir(lost):
            os.rmdir(lost)
    return found


@test(sizes="ci full", build="plain", seconds=180)
def test_disk_full(t):
    c = t.cluster(nodes=1, start=False, settings={"KillWait": "2"})
    mounted = disks(t, c)
    local.up(c.c, None, 60)
    running = c.sbatch("-o", "/dev/null", "--mem", "16", "--wrap", "sleep 8; exit 4", user=USER)
    waiting = c.sbatch("-H", "--wrap", "true", user=USER)

    leader = c.leader()
    t.say("the disk of the leader %s is full", leader)
    filler = {leader: fill(mounted[leader].where, 100)}
    wait_until("another leader", 30, lambda: c.leader(among=[n for n in c.controllers() if n != leader]) != leader)
    c.sbatch("-H", "--wrap", "true")

    for name in c.controllers():
        if name not in filler:
            filler[name] = fill(mounted[name].where, 100)
    wait_until("a refusal", 30, lambda: c.run("sbatch", "-H", "--wrap", "true", timeout=20).code != 0, 0.5)
    refused = c.run("sbatch", "-H", "--wrap", "true", timeout=20).refused("Batch job submission failed", "No space left on the controller's disk")
    t.say("refused with: %s", refused.err.strip())
    before = wire.digest(c.socket(c.leader()))[0]
    c.run("scancel", waiting, user=USER).ok()
    rows = c.wait_ended(running, waiting, seconds=40)
    equal(rows[running][:2], ("FAILED", "4:0"), "a job that ran while all disks are full")
    equal(rows[waiting][0], "CANCELLED", "a job cancelled while all disks are full")
    check(wire.digest(c.socket(c.leader()))[0] > before, "nothing was written")
    for path in filler.values():
        os.unlink(path)
    wait_until("submissions again", 30, lambda: c.run("sbatch", "-H", "--wrap", "true", timeout=20).code == 0, 0.5)


@test(sizes="full", build="plain", seconds=180)
def test_disk_error(t):
    """A disk with no room at all under one follower: that controller ends or waits, the others go on, and it comes back with room."""
    c = t.cluster(nodes=1, start=False)
    mounted = disks(t, c)
    local.up(c.c, None, 60)
    leader = c.leader()
    victim = next(n for n in c.controllers() if n != leader)
    path = fill(mounted[victim].where, 0)
    subprocess.run(["sync", "-f", mounted[victim].where], check=False)
    for _ in range(30):
        c.sbatch("-H", "--wrap", "x" * 20000, timeout=20)
    os.unlink(path)
    time.sleep(1)
    c.check_equal(60)
