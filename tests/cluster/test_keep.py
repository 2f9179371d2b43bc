"""Retention: what is let go under load leaves a history that verifies, replays to one State on all controllers, and says what it lacks."""
import os

import wire
from harness import Clients, check, equal, test, wait_until
from test_history import add, listed, members, promote, wipe
from test_kills import FAST

SPAN = "0-00:00:03"
RULES = {"MusterKeepEvents": SPAN, "PurgeJobAfter": SPAN, "MusterKeepScripts": SPAN, "BlobRetention": SPAN}


def where(c, name):
    return os.path.join(c.dir, "state", name)


def cut(c, name):
    """True where the archive of a controller was cut, and the rest of it verifies."""
    done = c.run("muster", "log", "verify", where(c, name))
    return done.code == 0 and "are no longer kept: MusterKeepEvents=00:00:03" in done.out


def first_kept(c, name):
    return int(c.run("muster", "log", "dump", where(c, name)).ok().out.split(".", 1)[0].lstrip("@"))


def keep_the_rest(c):
    """From here on nothing more goes, so that what is there can be looked at in peace."""
    path = os.path.join(c.dir, "muster.conf")
    with open(path) as f:
        lines = [line for line in f.read().splitlines() if not line.split("=")[0] in RULES]
    with open(path, "w") as f:
        f.write("\n".join(lines) + "\n")
    c.run("scontrol", "reconfigure").ok()


def replace(c, name):
    """A controller comes back with an empty disk, to peers whose archives are cut."""
    old = members(c)[name]["replica"]
    c.kill(name)
    wipe(c, name)
    c.run("muster", "controller", "remove", name).ok()
    wait_until("%s off the list" % name, 30, lambda: old not in {m["replica"] for m in members(c).values()})
    c.start(name)
    wait_until("the addition of %s" % name, 60, lambda: add(c, name), 0.5)
    wait_until("%s as a voter" % name, 60, lambda: promote(c, name), 0.5)


def written(path, text):
    if os.path.exists(path):
        with open(path) as f:
            return f.read() == text
    return False


@test(build="plain", seconds=240)
def test_keep(t):
    """Entries, records and scripts go while jobs run and controllers are killed and replaced; the rest verifies and replays."""
    c = t.cluster(settings=dict(FAST, **RULES), nodes=1, cpus=8)
    check("MusterKeepJobs          = 00:00:03" in c.run("scontrol", "show", "config").ok().out, "PurgeJobAfter is not shown under its own name")
    outputs = [os.path.join(c.dir, name) for name in ("early", "held")]
    early = c.sbatch("-o", outputs[0], "--wrap", "echo early")
    held = c.sbatch("-H", "-o", outputs[1], "--wrap", "echo kept all the time")
    wait_until("an early job", 60, lambda: written(outputs[0], "early\n"))
    load = Clients(t, 2, lambda index, draw: c.run("sbatch", "-o", "/dev/null", "--mem", "16", "--wrap", "exit %d" % draw.randrange(1000), timeout=60))
    try:
        wait_until("a cut on each controller", 60, lambda: all(cut(c, n) for n in c.controllers()))
        killed, replaced = [n for n in c.controllers() if n != c.leader()]
        c.kill(killed)
        c.start(killed)
        wait_until("%s again" % killed, 30, lambda: (listed(c, killed) or {}).get("role") in ("leader", "follower"))
        replace(c, replaced)
    finally:
        load.stop()
    # What a waiting job needs is there, though it came with an entry that is gone.
    c.run("scontrol", "release", held).ok()
    wait_until("the job that waited", 60, lambda: written(outputs[1], "kept all the time\n"))
    wait_until("job %d to be forgotten" % early, 60, lambda: not c.run("sacct", "-n", "-X", "-j", early).ok().out)
    wait_until("a cut archive of %s" % replaced, 60, lambda: cut(c, replaced))
    keep_the_rest(c)
    check("is no longer kept (MusterKeepJobs)" in c.run("sacct", "-n", "-X", "-j", early).ok().err, "sacct of a dropped job says nothing of it")
    check("is no longer kept (MusterKeepJobs)" in c.run("sacct", "-S", "now-1hour").ok().err, "sacct of an older window says nothing of it")
    for moment in ("now-1hour", "@2"):
        c.run("squeue", "--at", moment).refused("the earliest moment that can be asked for is", "position @")
    c.check_history(*c.controllers())
    for name in c.controllers():
        said = c.run("muster", "log", "verify", where(c, name)).ok().out
        check("signed by the cluster" in said and "the chain is whole" in said, "verify of %s says %r", name, said)
        check(first_kept(c, name) > 2, "%s has all of its entries", name)
    said = c.run("muster", "log", "verify").ok().out
    check("MusterKeepEvents=00:00:03, configured by" in said and "the chain holds" in said, "verify by a controller says %r", said)
    pos, path = wire.digest(c.socket(c.leader()))[0], os.path.join(c.dir, "slice")
    c.run("muster", "log", "export", path, "1").refused("no longer kept")
    for words in (["%d" % pos], []):
        c.run("muster", "log", "export", path, *words).ok()
        c.run("muster", "log", "verify", path).ok()
        os.remove(path)
    t.say("entries kept from %s of %d", ", ".join("%d" % first_kept(c, n) for n in c.controllers()), pos)
