"""The log as truth: replaced and recovered controllers, damage found, the past shown as it was."""
import glob
import json
import os
import shutil
import time

import wire
from harness import USER, check, equal, local, size, test, wait_until
from load import Load
from test_kills import FAST, only


def members(c):
    """{name: row} of the controllers as the leader lists them."""
    return wire.controllers(c.socket(c.leader()))


def wipe(c, name):
    """An empty disk for a controller that does not run."""
    where = os.path.join(c.dir, "state", name)
    shutil.rmtree(where)
    os.makedirs(where, mode=0o700)


def peer_address(c, name):
    x = c.c["controllers"][name]
    return "%s:%d" % (x["addr"], x["peer"])


def listed(c, name):
    return members(c).get(name)


def add(c, name):
    """Adds a controller that waits; a refusal is raised, so that it is seen when it lasts."""
    done = c.run("muster", "controller", "add", name, peer_address(c, name), timeout=30)
    if done.code:
        raise local.Trouble(done.err.strip())
    return True


def promote(c, name):
    """True once the controller votes; asks for it where that is an act of its own."""
    if (listed(c, name) or {}).get("voter"):
        return True
    done = c.run("muster", "controller", "promote", name, timeout=30)
    raise local.Trouble(done.err.strip() or "promoted, not seen as a voter")


@test(build="plain", seconds=300)
def test_controller_replaced(t):
    """A controller with an empty disk joins anew under load and catches up; all digests and chains are equal afterwards."""
    c = t.cluster(settings=FAST, cpus=8)
    load = Load(c, 4)
    try:
        for _ in range(size("replacements")):
            time.sleep(3)
            leader = c.leader()
            victim = t.draw.choice([n for n in c.controllers() if n != leader])
            old = members(c)[victim]["replica"]
            c.kill(victim)
            wipe(c, victim)
            c.run("muster", "controller", "remove", victim).ok()
            wait_until("%s off the list" % victim, 20, lambda: old not in {m["replica"] for m in members(c).values()})
            c.start(victim)
            wait_until("%s to answer" % victim, 20, lambda: os.path.exists(c.socket(victim)))
            wait_until("the addition of %s" % victim, 60, lambda: add(c, victim), 0.5)
            wait_until("%s as a voter" % victim, 60, lambda: promote(c, victim), 0.5)
            check(members(c)[victim]["replica"] != old, "%s came back under its old id", victim)
    finally:
        load.stop()
    load.verify()
    c.check_history(*c.controllers())


@test(sizes="ci full", build="plain")
def test_empty_disk_never_votes(t):
    """A controller whose disk was emptied under its old id gives no vote and no false history, however long it waits."""
    c = t.cluster(settings=FAST, nodes=1)
    job = c.sbatch("-H", "--wrap", "true")
    leader = c.leader()
    emptied, other = [n for n in c.controllers() if n != leader]
    c.kill(emptied)
    wipe(c, emptied)
    c.start(emptied)
    wait_until("the leader to see it all level", 20, lambda: c.states().get(job))
    # One of three is left that knows the log; the emptied one must not make it a majority.
    c.kill(other)
    time.sleep(2)
    done = c.run("sbatch", "--parsable", "-H", "--wrap", "true", timeout=6)
    check(done.code != 0, "an emptied controller helped to commit: %r", done.out)
    c.kill(leader)
    time.sleep(2)
    try:
        seen = wire.controllers(c.socket(emptied), 3)
        check(seen.get(emptied, {}).get("role") not in ("leader", "candidate"), "the emptied controller is %s", seen.get(emptied))
    except (OSError, ConnectionError):
        pass
    c.start(leader)
    c.start(other)
    wait_until("the first job", 30, lambda: c.states().get(job))
    c.kill(emptied)


@test(build="plain")
def test_archive_damage(t):
    """A flipped byte in the archive is found by `muster log verify`, with its position; an undamaged archive passes."""
    c = t.cluster(controllers=1, nodes=1)
    jobs = [c.sbatch("-o", "/dev/null", "-J", "mark-%03d" % n, "--mem", "16", "--wrap", "true") for n in range(10)]
    c.wait_ended(*jobs)
    c.check_history()
    c.stop("c1")
    where = os.path.join(c.dir, "state", "c1")
    c.run("muster", "log", "verify", where).ok()
    check("mark-005" in c.run("muster", "log", "dump", where).ok().out, "the dump does not show the name of a job")
    # The store's own log becomes tables at the next start; what was only in the former is still in the log of Raft.
    c.start("c1")
    wait_until("c1 again", 20, lambda: wire.digest(c.socket("c1"))[0] > 0)
    c.check_history()
    c.stop("c1")
    whole = c.run("muster", "log", "verify", where).ok().out
    found = []
    for path in sorted(glob.glob(os.path.join(where, "view", "*.sst"))):
        for part in (8, 4, 2):
            at = os.path.getsize(path) // part
            with open(path, "r+b") as f:
                f.seek(at)
                byte = f.read(1)
                f.seek(at)
                f.write(bytes([byte[0] ^ 0x20]))
            done = c.run("muster", "log", "verify", where)
            check(done.code is not None and done.code >= 0, "verify crashes on a damaged archive: %s", done.err)
            if done.code:
                found.append(done.err.strip())
            else:
                equal(done.out, whole, "what verify says of an archive whose damage is elsewhere")
            with open(path, "r+b") as f:
                f.seek(at)
                f.write(byte)
    check(found, "no flipped byte was found")
    t.say("%d of the flipped bytes found; e.g. %s", len(found), found[0])
    check(any("position" in sentence for sentence in found), "verify names no position: %s", found[0])
    equal(c.run("muster", "log", "verify", where).ok().out, whole, "verify of the archive made whole again")
    c.start("c1")
    wait_until("c1 to take a job", 20, lambda: c.run("sbatch", "-H", "--wrap", "true").code == 0)


@test(build="plain")
def test_recover(t):
    """Two of three are lost for ever: the survivor becomes a cluster of one with everything that it had, and shuts the others out."""
    c = t.cluster(settings=FAST, nodes=1)
    kept = [c.sbatch("-H", "-J", "kept%d" % n, "--wrap", "true") for n in range(5)]
    c.check_equal()
    for name in c.controllers():
        c.kill(name)
    survivor, *lost = t.draw.sample(c.controllers(), 3)
    where = os.path.join(c.dir, "state", survivor)
    c.run("muster", "controller", "recover", where).refused()
    done = c.run("muster", "controller", "recover", where, "--i-have-lost-the-others").ok()
    t.say("recover says: %s", (done.out + done.err).strip().replace("\n", " / ")[:300])
    c.start(survivor)
    wait_until("the survivor to lead", 30, lambda: c.leader(among=[survivor]))
    equal(sorted(c.states()), sorted(kept), "jobs after the recovery")
    again = int(c.run("sbatch", "--parsable", "-o", "/dev/null", "--mem", "16", "--wrap", "true", env=only(c, survivor)).ok().out)
    check(again not in kept, "an id was given twice")
    equal(c.wait_ended(again)[again][:2], ("COMPLETED", "0:0"), "a job after the recovery")
    # One of the lost comes back: it is of the old generation and has no say. Both could still outvote the survivor among themselves,
    # which is why the operator swears that they are lost.
    c.start(lost[0])
    time.sleep(4)
    try:
        seen = wire.controllers(c.socket(lost[0]), 3).get(lost[0], {})
        check(seen.get("role") != "leader", "%s of the old cluster leads", lost[0])
    except (OSError, ConnectionError):
        pass
    equal(c.leader(among=[survivor]), survivor, "leader after an old controller came back")
    before = wire.digest(c.socket(survivor))[0]
    c.run("sbatch", "-H", "--wrap", "true", env=only(c, survivor)).ok()
    check(wire.digest(c.socket(survivor))[0] > before, "the survivor does not go on")
    c.kill(lost[0])


@test(seconds=300)
def test_at(t):
    """`squeue --at` for past positions equals what was printed then, byte for byte, and so do sinfo and scontrol show job."""
    c = t.cluster(nodes=2, cpus=8)
    form = ["-a", "-t", "all", "-S", "i", "-o", "%i|%j|%u|%T|%P|%D|%C|%R|%r|%V|%S|%N|%Q"]
    printed = []
    jobs = []
    for _ in range(size("at_positions")):
        for _ in range(t.draw.randrange(1, 4)):
            jobs.append(c.sbatch(*t.draw.choice(([], ["-H"], ["-n2"])), "-o", "/dev/null", "--mem", "16", "--wrap",
                                 "sleep %.1f" % t.draw.choice((0, 0.2, 1)), user=t.draw.choice((USER, None))))
        if t.draw.random() < 0.4:
            c.run("scancel", t.draw.choice(jobs))
        for _ in range(10):  # until the log stands still for as long as two commands take
            before = wire.digest(c.socket("c1"))[0]
            text = c.run("squeue", *form).ok().out
            nodes = c.run("sinfo", "-h", "-N", "-o", "%N|%T|%C").ok().out
            if before == wire.digest(c.socket("c1"))[0]:
                printed.append((before, text, nodes))
                break
    check(len(printed) >= min(3, size("at_positions")), "the log never stood still: only %d moments to compare", len(printed))
    c.run("scancel", *jobs)
    c.wait_ended(*jobs)
    for name in c.controllers():
        for pos, text, nodes in printed:
            env = only(c, name)
            equal(c.run("squeue", "--at", "@%d" % pos, *form, env=env).ok().out, text, "squeue --at @%d on %s" % (pos, name))
            equal(c.run("sinfo", "--at", "@%d" % pos, "-h", "-N", "-o", "%N|%T|%C", env=env).ok().out, nodes, "sinfo --at @%d on %s" % (pos, name))
    c.run("squeue", "--at", "@999999999").refused()
    c.run("squeue", "--at", "1980-01-01").refused()
    t.say("%d moments on %d controllers", len(printed), len(c.controllers()))


def rss_mib(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmRSS")) / 1024


@test(sizes="ci full", build="plain", seconds=400)
def test_many_waiting(t):
    """Thousands of waiting jobs: squeue answers, a submission costs what it cost before, memory per job is told."""
    c = t.cluster(nodes=1, settings={"MaxJobCount": "1000000"})
    count = size("waiting_jobs")

    def cost():
        """Median CPU and wall time of a submission."""
        took = []
        for _ in range(15):
            done = c.run("sbatch", "--parsable", "-H", "--wrap", "true").ok()
            took.append(done.took)
        return sorted(took)[len(took) // 2]
    first = cost()
    before = {n: rss_mib(local.child_of(c.c, n)) for n in c.controllers()}
    done = c.run("muster", "bench", "submit", "-c", 16, "-n", count, timeout=300)
    if done.code != 0:
        t.say("muster bench submit says %r; one process a job instead", done.err.strip()[:100])
        for _ in range(count // 4):
            c.sbatch("-H", "--wrap", "true")
    listed = c.run("squeue", "-h", "-o", "%i").ok()
    number = len(listed.out.split())
    last = cost()
    grown = {n: (rss_mib(local.child_of(c.c, n)) - before[n]) * 1024 / max(number, 1) for n in c.controllers()}
    t.say("%d waiting: squeue takes %.2f s, sbatch %.0f ms before and %.0f ms now, %s KiB a job", number, listed.took, first * 1e3, last * 1e3,
          " ".join("%.1f" % g for g in grown.values()))
    check(listed.took < 10, "squeue of %d jobs takes %.1f s", number, listed.took)
    check(last < 4 * first + 0.05, "a submission takes %.0f ms with %d waiting, %.0f ms with none", last * 1e3, number, first * 1e3)
    began = time.monotonic()
    c.run("scancel", "-u", "root", timeout=120).ok()
    wait_until("an empty queue", 60, lambda: not c.run("squeue", "-h", "-o", "%i").ok().out.split())
    t.say("scancel of all took %.1f s", time.monotonic() - began)


@test(build="plain")
def test_backup(t):
    """A backup taken under load has, restored in another place, the digest of its position; started there it goes on with all that it knew."""
    c = t.cluster(settings=FAST, nodes=1, cpus=8)
    kept = [c.sbatch("-H", "-J", "kept%d" % n, "--wrap", "true") for n in range(5)]
    load = Load(c, 3)
    backup, elsewhere = os.path.join(c.dir, "backup"), os.path.join(c.dir, "elsewhere")
    try:
        wait_until("some load", 30, lambda: len(c.states()) > len(kept) + 12)
        said = c.run("muster", "backup", backup, timeout=60).ok().out
    finally:
        load.stop()
    load.verify()
    check("holds what controller" in said, "it says %r", said)
    note = dict(line.split(" ", 1) for line in open(os.path.join(backup, "BACKUP")).read().splitlines())
    c.run("muster", "backup", backup).refused()
    c.run("muster", "backup", os.path.join(c.dir, "mine"), user=USER).refused()
    # The cluster that goes on, and what was restored from it, have one and the same State at that position.
    for where in (os.path.join(c.dir, "state", "c2"), os.path.join(backup)):
        wait_until("position %s in %s" % (note["position"], where), 20, lambda: c.run("muster", "replay", where, "--to", note["position"]).code == 0)
        told = json.loads(c.run("muster", "replay", where, "--to", note["position"], "--json").ok().out)
        equal((told["pos"], told["digest"], told["chain"]), (int(note["position"]), note["digest"], note["chain"]), "position, digest and chain of %s" % where)
    said = c.run("muster", "restore", backup, elsewhere, "--name", "c1", timeout=60).ok().out
    check(note["digest"] in said, "it says %r", said)
    c.run("muster", "restore", backup, elsewhere, "--name", "c1").refused()
    c.run("muster", "restore", os.path.join(c.dir, "state"), elsewhere + "2", "--name", "c1").refused()
    for name in c.controllers():
        c.kill(name)
    shutil.rmtree(os.path.join(c.dir, "state", "c1"))
    os.rename(elsewhere, os.path.join(c.dir, "state", "c1"))
    c.start("c1")
    wait_until("the restored controller to lead", 30, lambda: c.leader(among=["c1"]))
    check(set(kept) <= set(c.states()), "of the jobs %s are there", sorted(c.states()))
    again = int(c.run("sbatch", "--parsable", "-o", "/dev/null", "--mem", "16", "--wrap", "true", env=only(c, "c1")).ok().out)
    check(again not in kept, "an id was given twice")
    told = json.loads(c.run("muster", "replay", os.path.join(c.dir, "state", "c1"), "--to", note["position"], "--json").ok().out)
    equal(told["digest"], note["digest"], "the digest of that position after the restored cluster went on")
