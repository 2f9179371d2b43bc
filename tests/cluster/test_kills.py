"""Controllers killed, cut off and robbed of their power under load."""
import os
import signal
import subprocess
import time

from harness import Clients, Skip, check, equal, local, size, test, wait_until
from load import Load, check_recovery, recovery

# Short waits, so that hundreds of jobs run through; the cluster's own timing is as shipped.
FAST = {"SchedulerParameters": "defer", "KillWait": "2"}


def answers(c, name):
    """True when controller NAME answers for itself."""
    import wire
    return wire.digest(c.socket(name), 5)[0] > 0


def kill_in_turn(t, count, pick, what):
    c = t.cluster(settings=FAST, cpus=8)
    load = Load(c)
    times = []
    try:
        for _ in range(count):
            time.sleep(t.draw.uniform(0.2, 1.5))
            victim = pick(c)
            moment = time.monotonic()
            c.kill(victim)
            times.append(recovery(load, moment, t.draw))
            time.sleep(t.draw.uniform(0, 0.8))
            c.start(victim)
            wait_until("%s after its restart" % victim, 30, lambda: answers(c, victim))
    finally:
        load.stop()
    load.verify()
    check_recovery(t, what, times)


@test(build="plain", seconds=420)
def test_leader_killed(t):
    kill_in_turn(t, size("leader_kills"), lambda c: c.leader(), "leader killed")


@test(sizes="ci full", build="plain", seconds=240)
def test_follower_killed(t):
    def follower(c):
        leader = c.leader()
        return t.draw.choice([n for n in c.controllers() if n != leader])
    kill_in_turn(t, size("follower_kills"), follower, "follower killed")


# ---- power -----------------------------------------------------------------------------------------------------------------------

def must(*words):
    ran = subprocess.run(words, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    check(ran.returncode == 0, "%s: %s", " ".join(words), ran.stdout)


class Disk:
    """An ext4 file system in a file, mounted where the controllers keep their state."""

    def __init__(self, t, where, size_bytes=1 << 30):
        self.test, self.where, self.number = t, where, 0
        self.image = os.path.join(t.dir, "disk.%s.0" % os.path.basename(where))
        with open(self.image, "wb") as f:
            f.truncate(size_bytes)
        must("mkfs.ext4", "-q", "-F", "-m", "0", self.image)
        os.makedirs(where, exist_ok=True)
        if subprocess.run(["mount", "-o", "loop", self.image, where], stderr=subprocess.DEVNULL).returncode:
            raise Skip("this host cannot mount a file (no loop device)")
        t.after.append(self.unmount)

    def unmount(self):
        if os.path.ismount(self.where):
            subprocess.run(["umount", "-l", self.where])

    def cut(self):
        """What the disk has got so far becomes the disk; what the kernel still holds is forgotten."""
        self.number += 1
        copy = os.path.join(self.test.dir, "disk.%d" % self.number)
        must("cp", "--sparse=always", self.image, copy)
        # A process that was just killed may hold the mount for a moment; what the copy has not got is lost either way.
        for _ in range(50):
            if subprocess.run(["umount", self.where], stderr=subprocess.DEVNULL).returncode == 0:
                break
            time.sleep(0.1)
        else:
            must("umount", "-l", self.where)
        os.unlink(self.image)
        self.image = copy
        checked = subprocess.run(["e2fsck", "-f", "-y", copy], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(checked.returncode in (0, 1), "e2fsck of the copy ends with %d: %s", checked.returncode, checked.stdout)
        must("mount", "-o", "loop", copy, self.where)


@test(sizes="ci full", build="plain", seconds=300)
def test_power_cut(t):
    """All controllers lose power at once: what was printed is there afterwards."""
    c = t.cluster(settings=FAST, cpus=8, start=False)
    disk = Disk(t, os.path.join(c.dir, "state"))
    local.up(c.c, None, 60)
    load = Load(c)
    try:
        for _ in range(size("power_cuts")):
            time.sleep(t.draw.uniform(1.5, 3.5))
            for name in c.controllers():
                local.signal_daemon(c.c, name, signal.SIGKILL, "down")
            for name in c.controllers():
                c.kill(name)
            disk.cut()
            moment = time.monotonic()
            for name in t.draw.sample(c.controllers(), 3):
                c.start(name)
            t.say("power came back; first submission after %.2f s", recovery(load, moment, t.draw))
    finally:
        load.stop()
    load.verify()


# ---- network ---------------------------------------------------------------------------------------------------------------------

def need_netns():
    if subprocess.run(["ip", "netns", "add", "mu-probe-%d" % os.getpid()], stderr=subprocess.DEVNULL).returncode:
        raise Skip("this host has no network namespaces for us")
    subprocess.run(["ip", "netns", "del", "mu-probe-%d" % os.getpid()])


def only(c, name):
    """Environment in which commands know one controller only."""
    path = os.path.join(c.dir, "only-%s.conf" % name)
    if not os.path.exists(path):
        with open(os.path.join(c.dir, "muster.conf")) as f:
            lines = [line for line in f if not line.startswith("SlurmctldHost=") or line.startswith("SlurmctldHost=%s(" % name)]
        with open(path, "w") as f:
            f.writelines(lines)
    return {"SLURM_CONF": path}


@test(sizes="ci full", build="plain", seconds=300)
def test_network_cut(t):
    """A controller cut off from the others acknowledges nothing; the others go on; healed, all agree."""
    need_netns()
    c = t.cluster(netns=True, nodes=1, settings=FAST)
    printed, asked = {}, set()
    for round_number in range(size("net_cuts")):
        leader = c.leader()
        victim = leader if round_number % 2 == 0 else t.draw.choice([n for n in c.controllers() if n != leader])
        others = [n for n in c.controllers() if n != victim]
        local.link_state(c.c, victim, "down")
        cut = time.monotonic()
        lonely = []

        def try_lonely(index, draw):
            name = "lonely-%d-%d-%d" % (round_number, index, len(asked))
            asked.add(name)
            lonely.append(c.run("sbatch", "--parsable", "-H", "-J", name, "--wrap", "true", env=only(c, victim), timeout=4))
        clients = Clients(t, 3, try_lonely)
        took = []
        while time.monotonic() < cut + 6:
            name = "most-%d-%d" % (round_number, len(took))
            asked.add(name)
            began = time.monotonic()
            done = c.run("sbatch", "--parsable", "-J", name, "-o", "/dev/null", "--wrap", "true", env=only(c, t.draw.choice(others)), timeout=20)
            if done.code == 0:
                printed[name] = int(done.out)
                took.append(time.monotonic() - (cut if not took else began))
            time.sleep(0.1)
        clients.stop()
        for done in lonely:
            check(done.code != 0, "%s was cut off and printed id %s", victim, done.out)
        check(took, "the majority accepted nothing within 6 s of the cut")
        t.say("cut %s (%s): majority accepted again after %.2f s, %d refused on the lonely side", victim,
              "leader" if victim == leader else "follower", took[0], len(lonely))
        local.link_state(c.c, victim, "up")
        c.check_equal(30)
    rows = c.states()
    for name, job in printed.items():
        check(rows.get(job, (0, 0, ""))[2] == name, "job %d (%s) is gone", job, name)
    check({row[2] for row in rows.values()} <= asked, "a job exists that nobody asked for: %s", rows)
    for job, (state, _, name) in rows.items():
        if name.startswith("lonely"):
            c.run("scancel", job)
    equal({r[0] for r in c.wait_ended(*printed.values()).values()} <= {"COMPLETED", "CANCELLED"}, True, "ends of the majority's jobs")


# ---- a limit under concurrency ---------------------------------------------------------------------------------------------------

@test(build="plain")
def test_submit_limit(t):
    """At a limit of 10 jobs, many submissions at once, to all controllers, give exactly 10 ids."""
    c = t.cluster(nodes=1, settings={"MaxJobCount": "10", "MinJobAge": "2"})
    count = size("limit_clients")
    running = []
    for index in range(count):
        env = dict(local.environment(c.c), **only(c, c.controllers()[index % 3]))
        running.append(subprocess.Popen(["sbatch", "--parsable", "-H", "--wrap", "true"], env=env, cwd=c.home, text=True,
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE))
    ids, refusals = [], []
    for child in running:
        out, err = child.communicate(timeout=60)
        ids += [int(out)] if child.returncode == 0 else []
        refusals += [err] if child.returncode else []
    equal(len(ids), 10, "ids printed at a limit of 10 by %d submissions" % count)
    equal(len(set(ids)), 10, "different ids")
    for err in refusals:
        check("sbatch: error: Batch job submission failed: " in err, "a refusal says %r", err)
    equal(sorted(c.states()), sorted(ids), "jobs that exist")
    c.run("scancel", ids[0]).ok()
    wait_until("room for another job", 10, lambda: c.run("sbatch", "-H", "--wrap", "true").code == 0)
