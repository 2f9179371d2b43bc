"""Slices of the log and receipts of submissions: checked without the cluster, and refused when a byte differs."""
import os

from harness import USER, check, equal, test


def flipped(path, at):
    """A copy of the file with one byte changed."""
    data = bytearray(open(path, "rb").read())
    data[at] ^= 1
    copy = path + ".bad"
    with open(copy, "wb") as f:
        f.write(data)
    os.chmod(copy, 0o644)
    return copy


@test(build="plain")
def test_proofs(t):
    c = t.cluster(controllers=1, nodes=1)
    receipt = os.path.join(c.home, "receipt")
    job = c.run("sbatch", "--parsable", "--receipt=" + receipt, "--wrap", "true", user=USER).ok().out.strip()
    c.wait_ended(int(job))
    key = os.path.join(c.home, "cluster.pub")
    c.run("cp", c.run("sh", "-c", "ls %s/keys/cluster.pub %s/*/cluster.pub 2>/dev/null | head -1" % (c.dir, c.dir)).ok().out.strip(), key).ok()
    slice_ = os.path.join(c.home, "slice")
    c.run("muster", "log", "export", slice_, "2-").ok()
    some = os.path.join(c.home, "some")
    c.run("muster", "log", "export", some, "3-6").ok()
    other = os.path.join(c.home, "other")
    os.mkdir(other)
    c.run("muster", "key", "make", other).ok()
    equal(c.run("muster", "log", "export", os.path.join(c.home, "no"), user=USER).code, 1, "a slice for an ordinary user")
    c.down()
    # No cluster answers any more.
    check("are whole, and signed by the cluster" in c.run("muster", "log", "verify", slice_, "--key", key).ok().out, "a good slice")
    check("@3 to @6" in c.run("muster", "log", "verify", some, "--key", key).ok().out, "a slice of some entries")
    size = os.path.getsize(slice_)
    for at in (8, 30, 70, 100, 200, size // 2, size - 1):
        equal(c.run("muster", "log", "verify", flipped(slice_, at), "--key", key).code, 1, "byte %d changed" % at)
    check("not that of this cluster's key" in c.run("muster", "log", "verify", slice_, "--key", other + "/cluster.pub").err, "another key")
    said = c.run("muster", "receipt", "verify", receipt, "--key", key).ok().out
    check("holds this submission" in said and "nobody" in said, "the receipt says %r", said)
    lines = open(receipt).read().splitlines()
    for number, line in enumerate(lines):
        if line.startswith(("muster-receipt", "cluster", "job")):
            continue
        bad = line[:-1] + ("0" if line[-1] != "0" else "1")
        with open(receipt + ".bad", "w") as f:
            f.write("\n".join(lines[:number] + [bad] + lines[number + 1:]) + "\n")
        equal(c.run("muster", "receipt", "verify", receipt + ".bad", "--key", key).code, 1, "a receipt with another %s" % line.split()[0])
    equal(c.run("muster", "receipt", "verify", receipt, "--key", other + "/cluster.pub").code, 1, "a receipt under another key")
