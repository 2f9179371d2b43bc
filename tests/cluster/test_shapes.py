"""What a job may ask of nodes, as its user sees it."""
from harness import USER, check, equal, test, wait_until


def shown(c, job):
    """The keys of scontrol show job."""
    words = c.run("scontrol", "show", "job", "-d", job).ok().out.split()
    return dict(w.split("=", 1) for w in words if "=" in w)


@test()
def test_gpu_counts(t):
    """GPUs for the whole job, each task and each node: what is given, shown and set in the environment."""
    c = t.cluster(controllers=1, nodes=2, cpus=4, gpus=2)
    script = "env | grep -E '^SLURM_(JOB_GPUS|GPUS|TRES_PER|CPUS_PER|MEM_PER|NTASKS|JOB_NUM|CPUS_ON)' | sort > env.$SLURM_JOB_ID; sleep 0.1"
    runs = {
        "job": (["-G", "3", "--cpus-per-gpu=1", "--mem-per-gpu=20"],
                {"SLURM_GPUS": "3", "SLURM_CPUS_PER_GPU": "1", "SLURM_MEM_PER_GPU": "20", "SLURM_JOB_NUM_NODES": "2", "SLURM_GPUS_ON_NODE": "2"},
                {"TresPerJob": "gres:gpu:3", "CpusPerTres": "gres:gpu:1", "MemPerTres": "gres:gpu:20", "NumNodes": "2", "NumCPUs": "3"}),
        "task": (["-n2", "--gpus-per-task=1", "-c2", "--mem=20"],
                 {"SLURM_GPUS_PER_TASK": "1", "SLURM_TRES_PER_TASK": "cpu=2,gres/gpu=1", "SLURM_NTASKS": "2", "SLURM_JOB_GPUS": "0,1", "SLURM_CPUS_ON_NODE": "4"},
                 {"TresPerTask": "gres:gpu:1", "NumNodes": "1", "NumCPUs": "4"}),
        "node": (["-N2", "--gpus-per-node=1", "--ntasks-per-node=2", "--mem=20"],
                 {"SLURM_GPUS_PER_NODE": "1", "SLURM_NTASKS_PER_NODE": "2", "SLURM_NTASKS": "4", "SLURM_GPUS_ON_NODE": "1"},
                 {"TresPerNode": "gres:gpu:1", "NumNodes": "2", "NumTasks": "4"}),
    }
    for name, (words, env, keys) in runs.items():
        job = c.sbatch("-J", name, "-o", "/dev/null", *words, "--wrap", script, user=USER)
        equal(c.wait_ended(job)[job], ("COMPLETED", "0:0", name), "the job by " + name)
        have = dict(line.split("=", 1) for line in c.read("env.%d" % job).splitlines())
        for key, value in env.items():
            equal(have.get(key), value, "%s of the job by %s" % (key, name))
        row = shown(c, job)
        for key, value in keys.items():
            equal(row.get(key), value, "%s of the job by %s" % (key, name))
        total = "3" if name == "job" else "2"
        check("gres/gpu=" + total in c.run("sacct", "-nPX", "-j", job, "-o", "AllocTRES").ok().out, "sacct does not count %s GPUs", total)
    refused = c.run("sbatch", "-G", "9", "--wrap", "true", user=USER)
    equal(refused.code, 1, "exit of a request for too many GPUs")
    check("Requested node configuration is not available" in refused.err, "it says %r", refused.err)
    waiting = c.sbatch("-G", "2", "-H", "--wrap", "true", user=USER)
    out = c.run("squeue", "-h", "-j", waiting, "-O", "tres-per-job,tres-per-task").ok().out.split()
    equal(out, ["gres:gpu:2", "N/A"], "squeue's columns")
    for flags, whole in ([], False), (["--gres-flags=allow-task-sharing"], True):
        seen = c.run("srun", "-N1", "-n2", "--gpus-per-task=1", "--mem=20", *flags, "sh", "-c", "echo $CUDA_VISIBLE_DEVICES", user=USER).ok().out.split()
        equal(seen == ["0,1", "0,1"], whole, "each of two tasks sees both GPUs with %s: %s" % (flags, seen))
    c.run("scancel", waiting).ok()


@test()
def test_node_counts(t):
    """Ranges of nodes, features with counts, nodes side by side."""
    c = t.cluster(controllers=1, nodes=3, cpus=2, gpus=0)
    c.run("scontrol", "update", "nodename=n1", "features=big,fast").ok()
    c.run("scontrol", "update", "nodename=n2", "features=fast").ok()
    wait_until("the features known", 10, lambda: "big" in c.run("sinfo", "-h", "-o", "%f").ok().out)
    for words, nodes in ((["-N1-2"], "n[1-2]"), (["-N1-3", "--use-min-nodes"], "n1"), (["-N2", "-C", "[big|fast]"], "n[1-2]"),
                         (["-N2", "-C", "big*1"], "n[1-2]"), (["-N2", "--contiguous", "-x", "n1"], "n[2-3]"),
                         (["-n3", "--spread-job"], "n[1-3]")):
        job = c.sbatch("-J", "x", "-o", "/dev/null", "--mem=20", *words, "--wrap", "true", user=USER)
        equal(c.wait_ended(job)[job][0], "COMPLETED", "the job with %s" % words)
        equal(shown(c, job)["NodeList"], nodes, "nodes of the job with %s" % words)
    bad = c.run("sbatch", "-C", "nosuch", "--wrap", "true", user=USER)
    check("Invalid feature specification" in bad.err, "an unknown feature: %r", bad.err)
    bad = c.run("sbatch", "-N2", "--contiguous", "-x", "n2", "--wrap", "true", user=USER)
    check("Requested node configuration is not available" in bad.err, "nodes that are no neighbours: %r", bad.err)


@test()
def test_shared_cpus(t):
    """Two jobs on one CPU at the same time, where the partition says so; a third waits."""
    c = t.cluster(controllers=1, nodes=1, cpus=1, gpus=0,
                  settings={"PartitionName": "both Nodes=n1 OverSubscribe=FORCE:2 OverTimeLimit=7 MaxTime=INFINITE State=UP"})
    script = "touch here.%s; until [ -e here.%s ] && [ -e go ]; do sleep 0.1; done"
    words = ("-p", "both", "-o", "/dev/null", "--mem=20", "--wrap")
    first = c.sbatch(*words, script % ("a", "b"), user=USER)
    second = c.sbatch(*words, script % ("b", "a"), user=USER)
    third = c.sbatch(*words, "true", user=USER)
    running = lambda: c.run("squeue", "-h", "-t", "R", "-o", "%i %h").ok().out.split("\n")[:-1]
    wait_until("two jobs on the CPU", 30, lambda: sorted(running()) == ["%d YES" % first, "%d YES" % second])
    wait_until("the third job's reason", 30, lambda: shown(c, third).get("Reason") == "Resources")
    equal(shown(c, second)["CPU_IDs"], "0", "the second job's CPU")
    equal(c.run("sinfo", "-h", "-p", "both", "-o", "%C %T %h").ok().out.split(), ["1/0/0/1", "allocated", "FORCE:2"], "the node by sinfo")
    check("OverTimeLimit=7 " in c.run("scontrol", "show", "partition", "both").ok().out, "the partition's OverTimeLimit is not shown")
    open("%s/go" % c.home, "w").close()
    for job in (first, second, third):
        equal(c.wait_ended(job)[job][:2], ("COMPLETED", "0:0"), "the job")
