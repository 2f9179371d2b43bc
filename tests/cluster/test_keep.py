"""Retention: what is let go under load leaves a history that verifies, replays to one State on all controllers, and says what it lacks."""
import os

import wire
from harness import Clients, check, equal, test, wait_until
from test_clusters import Follower
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


def keep(c, rules):
    """Reconfigures the cluster to these rules. With none nothing more goes, so that what is there can be looked at in peace."""
    path = os.path.join(c.dir, "muster.conf")
    with open(path) as f:
        lines = [line for line in f.read().splitlines() if not line.split("=")[0] in RULES]
    with open(path, "w") as f:
        f.write("\n".join(lines + ["%s=%s" % rule for rule in rules.items()]) + "\n")
    c.run("scontrol", "reconfigure").ok()


def replace(c, name):
    """A controller comes back with an empty disk, to peers whose archives are cut."""
    old = members(c)[name]["replica"]
    c.kill(name)
    wipe(c, name)

    def removed():
        """What a removal came to may stay unknown where leadership changes meanwhile; then it is asked for again."""
        if old in {m["replica"] for m in members(c).values()}:
            c.run("muster", "controller", "remove", name)
        return old not in {m["replica"] for m in members(c).values()}
    wait_until("%s off the list" % name, 60, removed, 0.5)
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
        behind = wire.digest(c.socket(c.leader()))[0]
        wait_until("%s to be level" % killed, 60, lambda: wire.digest(c.socket(killed))[0] >= behind)
        replace(c, replaced)
    finally:
        load.stop()
    # What a waiting job needs is there, though it came with an entry that is gone.
    c.run("scontrol", "release", held).ok()
    wait_until("the job that waited", 60, lambda: written(outputs[1], "kept all the time\n"))
    wait_until("job %d to be forgotten" % early, 60, lambda: not c.run("sacct", "-n", "-X", "-j", early).ok().out)
    wait_until("a cut archive of %s" % replaced, 60, lambda: cut(c, replaced))
    keep(c, {})
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


@test(build="plain", seconds=240)
def test_archive(t):
    """History goes into files before it is let go; what is made of them answers sacct and --at as the cluster did before."""
    name = "arch-%d" % os.getpid()
    store, other = os.path.join(t.dir, "store"), os.path.join(t.dir, "other")
    conf = os.path.join(t.dir, "c", "muster.conf")
    c = t.cluster(name=name, controllers=1, nodes=1, settings={"MusterFollower": os.path.join(t.dir, "f.sock"), "MusterFollow": conf,
                                                               "MusterFollowerDir": store})
    files = [os.path.join(t.dir, "file%d" % n) for n in range(3)]

    def account(*words, env=None):
        return c.run("sacct", "-n", "-P", "-j", job, "-o", "JobID,JobName,State,ExitCode,Start,End", *words, env=env).ok().out

    def then(*words, env=None):
        rows = c.run("squeue", "--at", "@%d" % pos, "-h", "-t", "all", "-o", "%i|%j|%T|%S", *words, env=env).ok().out.splitlines()
        return [row for row in rows if not row.startswith("CLUSTER")]
    job = c.sbatch("-J", "old", "-o", "/dev/null", "--wrap", "exit 7")
    wait_until("the old job", 60, lambda: "FAILED" in account())
    pos = wire.digest(c.socket("c1"))[0]
    before = account(), then()
    check("signed" in c.run("muster", "archive", "export", files[0], where(c, "c1")).ok().out, "an export says nothing of the signature")
    check("from position 1 to" in c.run("muster", "archive", "import", files[0], store).ok().out, "an import does not say what it made")
    c.run("muster", "archive", "export", files[0]).refused("cannot be made")
    c.run("muster", "archive", "export", files[1], where(c, "c1"), "--to", "@%d" % (pos - 1)).ok()
    keep(c, RULES)

    def gone():
        c.run("sbatch", "-o", "/dev/null", "--wrap", "true").ok()
        return cut(c, "c1") and not account() and c.run("squeue", "--at", "@%d" % pos).code != 0
    wait_until("the end of the old job", 90, gone, 0.3)
    keep(c, {})
    c.run("squeue", "--at", "@%d" % pos).refused("no longer kept")
    c.run("muster", "archive", "export", files[2], where(c, "c1")).ok()
    # From the cut on, into an empty place; and what lies between two files is asked for.
    c.run("muster", "archive", "import", files[2], other).ok()
    check(cut(c, "c1"), "the archive does not verify")
    # Byte by byte what was exported, or nothing.
    with open(files[1], "r+b") as f:
        f.seek(os.path.getsize(files[1]) // 2)
        byte = f.read(1)
        f.seek(-1, os.SEEK_CUR)
        f.write(bytes([byte[0] ^ 4]))
    c.run("muster", "archive", "import", files[1], os.path.join(t.dir, "bad")).refused()
    check(not os.path.exists(os.path.join(t.dir, "bad")), "a damaged file made something")
    Follower(t, conf, c)
    # A cluster is asked by its own name through a follower from where another one is at home.
    reader = {"SLURM_CONF": os.path.join(t.dir, "reader.conf")}
    with open(reader["SLURM_CONF"], "w") as f:
        f.write("ClusterName=reader\nSlurmctldHost=localhost\nMusterFollower=%s\n" % os.path.join(t.dir, "f.sock"))
    wait_until("what the follower knows of the old job", 60, lambda: c.run("sacct", "-n", "-M", name, "-j", job, env=reader).out)
    equal((account("-M", name, env=reader), then("-M", name, env=reader)), before, "what the archive says of then")
