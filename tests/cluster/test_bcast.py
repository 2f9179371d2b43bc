"""sbcast: a file on every node of a job."""
import os

from harness import USER, check, equal, test
from test_steps import job_of, settle


@test()
def test_sbcast(t):
    """Bytes, mode and time of the copy; what is there already; what cannot be copied."""
    c = t.cluster(controllers=1, nodes=2, cpus=2)
    source = c.script("".join("line %d\n" % n for n in range(50000)), name="source")
    os.chmod(source, 0o750)
    os.chown(source, 65534, -1)
    os.utime(source, (1000000000, 1000000000))
    job = job_of(c.run("salloc", "--no-shell", "-N2", "-n2", user=USER).ok().err)
    inside = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n[1-2]"}
    where = os.path.join(c.home, "copy")
    c.run("sbcast", "-p", source, where, env=inside, user=USER).ok()
    equal((open(where).read() == open(source).read(), oct(os.stat(where).st_mode & 0o7777), int(os.stat(where).st_mtime)), (True, "0o750", 1000000000), "the copy")
    there = c.run("sbcast", source, where, env=inside, user=USER)
    check(there.code == 1 and "File exists" in there.err, "a file that was there: %r", there.err)
    c.run("sbcast", "--force", "-j", job, source, where, user=USER).ok()
    check(int(os.stat(where).st_mtime) != 1000000000, "the time was kept without -p")
    equal([name for name in os.listdir(c.home) if ".sbcast." in name], [], "what is left of the copies")
    c.run("sbcast", source + "x", where, env=inside, user=USER).refused("sbcast: error: Can't open")
    c.run("sbcast", source, "/no/such/folder/file", env=inside, user=USER).refused("")
    c.run("sbcast", source, where, user=USER).refused("Command only valid from within SLURM job")
    c.run("sbcast", source).refused("Need two file names")
    c.run("scancel", job).ok()
    equal(settle(c, job)[0], "CANCELLED", "the allocation")
