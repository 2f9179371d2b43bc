"""Large configurations: ten thousand nodes in one line, and one that no entry of the log holds."""
import os

from harness import check, equal, local, test, wait_until


def config_with(c, extra):
    """Writes the cluster's file with EXTRA lines behind it; gives its path."""
    text, _ = local.default_conf(c.c)
    path = os.path.join(c.dir, "extra.conf")
    os.makedirs(c.dir, exist_ok=True)
    with open(path, "w") as f:
        f.write(text + extra)
    return path


@test(build="plain", seconds=240)
def test_ten_thousand_nodes(t):
    c = t.cluster(nodes=1, start=False)
    local.up(c.c, config_with(c, "NodeName=f[0001-9999] CPUs=8 RealMemory=1000 State=UNKNOWN\nPartitionName=far Nodes=f[0001-9999]\n"), 60)
    equal(c.run("sinfo", "-h", "-o", "%D").ok().out.split()[0].isdigit(), True, "sinfo's counts")
    equal(sum(int(n) for n in c.run("sinfo", "-h", "-p", "far", "-o", "%D").ok().out.split()), 9999, "nodes of the partition")
    job = c.sbatch("-p", "far", "-N", "9000", "--wrap", "true")
    check(c.run("squeue", "-h", "-j", job, "-o", "%T").ok().out.strip() == "PENDING", "a job for nodes that are not there yet")
    path = os.path.join(c.dir, "muster.conf")
    with open(path) as f:
        text = f.read()
    with open(path, "w") as f:
        f.write(text.replace("f[0001-9999] CPUs=8", "f[0001-9999] CPUs=16 Weight=7"))
    c.run("scontrol", "reconfigure").ok()
    wait_until("the new weight everywhere", 30, lambda: set(c.run("sinfo", "-h", "-N", "-p", "far", "-o", "%w").ok().out.split()) == {"7"})
    # Nodes of which no two are alike cannot be folded: refused in one sentence, and the cluster keeps what it has.
    with open(path, "w") as f:
        f.write(text + "".join("NodeName=x%d CPUs=%d RealMemory=%d NodeAddr=10.%d.%d.1 Feature=only%d\n" %
                               (k * 7919, 1 + k % 61, 1000 + k * 13 % 977, k // 250, k % 250, k) for k in range(6000)))
    done = c.run("scontrol", "reconfigure").refused("The configuration takes")
    equal(len(done.err.strip().splitlines()), 1, "lines of the refusal: %s" % done.err)
    equal(set(c.run("sinfo", "-h", "-N", "-p", "far", "-o", "%w").ok().out.split()), {"7"}, "weights after a refused configuration")
    # A file of another cluster is a slip, not a new name.
    name = c.run("muster", "config", "get", "ClusterName").ok().out.strip()
    with open(path, "w") as f:
        f.write(text.replace("ClusterName=" + name, "ClusterName=other"))
    c.run("scontrol", "reconfigure").refused("The file is of cluster other, but this is cluster " + name)
    equal(c.run("muster", "config", "get", "ClusterName").ok().out.strip(), name, "the name of the cluster")
    done = c.run("musterd", "-D", "-f", path, "-n", "c1", timeout=30, env={"MUSTER_UNUSED": "1"})
    check(done.code not in (0, None), "a second controller of that name started")
