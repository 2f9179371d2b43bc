"""scontrol update: fields of jobs, nodes and partitions, and what is refused."""
import re

from harness import USER, check, equal, test


def shown(c, *words):
    """What scontrol show says of one thing, as a dictionary."""
    return dict(pair.split("=", 1) for pair in re.findall(r"\S+=\S*", c.run("scontrol", "-o", "show", *words).ok().out))


@test(build="plain")
def test_update(t):
    c = t.cluster(controllers=1, nodes=2, settings={"KillWait": "2"})
    # A job that waits, held so that nothing moves.
    job = c.sbatch("-H", "-n2", "-t", "60", "-J", "first", "--wrap", "true", user=USER)

    def update(*words, user=None):
        return c.run("scontrol", "update", "JobId=%d" % job, *words, user=user)

    update("JobName=second", "TimeLimit=30", "TimeMin=10", "NumTasks=1", "CPUsPerTask=2", "Comment=none of it", "Requeue=0", "Contiguous=yes",
           "MinMemoryNode=10", "MailUser=someone", "MailType=END", "StdOut=/tmp/other-%j", "WorkDir=/", "ExcNodeList=n2", "ReqNodeList=n1",
           "OverSubscribe=yes", "Extra=words", "Deadline=now+2days", "StartTime=now+1hour", user=USER).ok()
    row = shown(c, "job", job)
    for key, value in {"JobName": "second", "TimeLimit": "00:30:00", "TimeMin": "00:10:00", "CPUs/Task": "2", "Requeue": "0", "Contiguous": "1", "MinMemoryNode": "10M",
                       "MailUser": "someone", "StdOut": "/tmp/other-%d" % job, "Extra": "words", "WorkDir": "/", "ExcNodeList": "n2", "ReqNodeList": "n1"}.items():
        equal(row.get(key), value, key)
    check(row["StartTime"] != "Unknown" and row["Deadline"] != "N/A", "the times are %s, %s", row["StartTime"], row["Deadline"])
    update("TimeLimit-=10", "MinMemoryNode=0", "ExcNodeList=", "ReqNodeList=", "MailUser=", "Nice=20", user=USER).ok()
    row = shown(c, "job", job)
    equal((row["TimeLimit"], row["ExcNodeList"], row["ReqNodeList"], row["Nice"]), ("00:20:00", "(null)", "(null)", "20"), "fields taken back")
    update("NumCPUs=2", user=USER).ok()
    equal(shown(c, "job", job)["NumTasks"], "1", "tasks of two CPUs each")
    for words, piece in ((["TimeLimit+=10"], "Access/permission denied"), (["Nice=-5"], "Access/permission denied"), (["AdminComment=x"], "Access/permission denied"),
                         (["SiteFactor=1"], "Access/permission denied"), (["Partition=nosuch"], "Invalid partition name specified"),
                         (["NumCPUs=3"], "no whole number of tasks"), (["EndTime=now+1hour"], "Job is pending execution"), (["QOS=nosuch"], "Invalid qos specification"),
                         (["Features=nosuch"], "Invalid feature specification"), (["UserID=root"], "a job stays its submitter's"), (["BurstBuffer=x"], "there are no burst buffers"),
                         (["Nonsense=1"], "Invalid input: Nonsense=1"), (["NumNodes=9"], "Requested node configuration is not available"), ([], "No changes specified")):
        done = update(*words, user=USER)
        check(done.code == 1 and piece in done.err, "update %s: %d %r", words, done.code, done.err)
    # Jobs by name, of one user.
    c.run("scontrol", "update", "JobName=second", "UserID=%s" % USER, "Comment=by-name").ok()
    equal(shown(c, "job", job)["Comment"], "by-name", "the comment given by name")
    check("No jobs with name nosuch" in c.run("scontrol", "update", "JobName=nosuch", "Comment=x").err, "a name that no job has")
    # A job that runs.
    job = c.sbatch("-t", "60", "--wrap", "sleep 100", user=USER)
    c.states(job)
    c.run("muster", "wait", job, "--state", "RUNNING").ok()
    update("TimeLimit-=10", "Comment=runs", user=USER).ok()
    update("EndTime=now+2hours").ok()
    row = shown(c, "job", job)
    check(row["Comment"] == "runs" and row["TimeLimit"].startswith("02:0"), "the running job reads %s, %s", row["Comment"], row["TimeLimit"])
    done = update("NumNodes=2")
    check(done.code == 1 and "Job is no longer pending execution" in done.err, "a running job is given nodes: %r", done.err)
    c.run("scancel", job).ok()
    # More nodes than there are.
    check("Requested node configuration is not available" in c.run("sbatch", "-N9", "--wrap", "true").err, "a job of nine nodes is taken")


@test(build="plain")
def test_update_nodes(t):
    c = t.cluster(controllers=1, nodes=2)

    def update(*words, user=None):
        return c.run("scontrol", "update", *words, user=user)

    update("NodeName=n1", "Comment=rack 4", "Extra=e", "InstanceId=i-1", "InstanceType=t", "Weight=7", "Features=fast,new").ok()
    row = shown(c, "node", "n1")
    equal([row[key] for key in ("Extra", "InstanceId", "InstanceType", "Weight", "AvailableFeatures")], ["e", "i-1", "t", "7", "fast,new"], "what was noted of n1")
    check("Comment=rack 4" in c.run("scontrol", "show", "node", "n1").ok().out, "the comment of n1")
    update("NodeName=n1", "Comment=").ok()
    check("Comment=" not in c.run("scontrol", "show", "node", "n1").ok().out, "the comment stays")
    update("NodeName=n2", "State=DRAIN", "Reason=disk", "ResumeAfter=100000", "ReasonUid=%s" % USER).ok()
    text = c.run("scontrol", "show", "node", "n2").ok().out
    check("Reason=disk [%s@" % USER in text and "ResumeAfterTime=None" not in text, "n2 reads %s", text)
    update("NodeName=n2", "State=RESUME").ok()
    check("ResumeAfterTime=None" in c.run("scontrol", "show", "node", "n2").ok().out, "n2 resumes twice")
    for words, piece in ((["State=POWER_DOWN"], "neither powered nor rebooted"), (["NodeAddr=x"], "a node says itself where it listens"), (["Gres=gpu:9"], "devices are what"),
                         (["Weight=x"], "Invalid input: Weight=x"), (["Nonsense=1"], "Invalid input: Nonsense=1"), ([], "No changes specified")):
        done = update("NodeName=n1", *words)
        check(done.code == 1 and piece in done.err, "update n1 %s: %d %r", words, done.code, done.err)
    # Partitions: words of their line.
    part = shown(c, "partition")["PartitionName"]
    update("PartitionName=%s" % part, "MaxTime=2:00:00", "DefMemPerCPU=100", "AllowAccounts=a,b", "PriorityTier=5", "Hidden=YES", "MaxNodes=1", "TRESBillingWeights=CPU=2.0",
           "DefCpuPerGPU=3", "LLN=YES", "ReqResv=NO", "MinNodes=1").ok()
    row = shown(c, "partition", part)
    equal([row[key] for key in ("MaxTime", "DefMemPerCPU", "AllowAccounts", "PriorityTier", "Hidden", "MaxNodes", "JobDefaults", "LLN")],
          ["02:00:00", "100", "a,b", "5", "YES", "1", "DefCpuPerGPU=3", "YES"], "the partition")
    equal(row["TRESBillingWeights"], "CPU=2.0", "the weights")
    update("PartitionName=%s" % part, "MaxTime=UNLIMITED", "DefMemPerNode=50", "AllowAccounts=ALL", "MaxNodes=UNLIMITED", "Hidden=NO", "TRESBillingWeights=", "Nodes-=n2").ok()
    row = shown(c, "partition", part)
    equal([row.get(key) for key in ("MaxTime", "DefMemPerNode", "AllowAccounts", "MaxNodes", "Hidden", "TRESBillingWeights", "Nodes", "TotalNodes")],
          ["UNLIMITED", "50", "ALL", "UNLIMITED", "NO", None, "n1", "1"], "the partition, taken back")
    update("PartitionName=%s" % part, "Nodes+=n2").ok()
    equal(shown(c, "partition", part)["TotalNodes"], "2", "its nodes")
    for words, piece in ((["QOS=nosuch"], "Invalid qos specification"), (["State=ASLEEP"], "Acceptable State values are"), (["Nodes=n9"], "Invalid node name specified"),
                         (["MaxTimes=5"], "did you mean MaxTime"), (["MaxNodes=x"], "Invalid input: MaxNodes=x")):
        done = update("PartitionName=%s" % part, *words)
        check(done.code == 1 and piece in done.err, "update partition %s: %d %r", words, done.code, done.err)
    c.run("scontrol", "create", "partition", "PartitionName=more", "Nodes=n1", "MaxTime=10").ok()
    equal(shown(c, "partition", "more")["MaxTime"], "00:10:00", "the new partition's limit")
    c.run("scontrol", "delete", "partition=more").ok()
    equal(c.run("scontrol", "show", "partition", "more").code, 1, "a partition that is gone")
    for words, piece in ((["create", "nodename=x"], "configuration"), (["delete", "nodename=n1"], "configuration"), (["update", "StepId=1.0", "TimeLimit=5"], "steps"),
                         (["show"], "too few arguments for keyword:show")):
        done = c.run("scontrol", *words)
        check(done.code == 1 and piece in done.err, "scontrol %s: %d %r", words, done.code, done.err)


@test(build="plain")
def test_show_cluster(t):
    c = t.cluster(controllers=1, nodes=2)
    equal(c.run("scontrol", "show", "topology").ok().out, "No topology information available\n", "a flat topology")
    c.run("scontrol", "show", "daemons").ok()
    text = c.run("scontrol", "show", "slurmd", env={"SLURMD_NODENAME": "n1"}).ok().out
    check(re.search(r"^Active Steps +=", text) and re.search(r"^Hostname +=\s*n1$", text, re.M), "slurmd of n1 reads %r", text)
    check("no node" in c.run("scontrol", "show", "slurmd", env={"SLURMD_NODENAME": "n9"}).err, "slurmd of a host that is no node")
    for words in (["account", "lab"], ["user", USER, "account=lab"]):
        c.run("sacctmgr", "-i", "add", *words).ok()
    c.run("sacctmgr", "-i", "modify", "account", "lab", "set", "GrpTRES=cpu=7", "GrpJobs=3").ok()
    job = c.sbatch("-A", "lab", "-n1", "--wrap", "sleep 100", user=USER)
    c.run("muster", "wait", job, "--state", "RUNNING").ok()
    text = c.run("scontrol", "show", "assoc_mgr").ok().out
    lab = text.split("Account=lab UserName= ")[1]
    check(text.startswith("Current Association Manager state\n") and "UserName=%s(" % USER in text and "QOS=normal(" in text, "assoc_mgr reads %r", text)
    check("GrpJobs=3(1)" in lab.split("Account=")[0] + lab and "GrpTRES=cpu=7(1)" in lab, "the limits of lab read %r", lab[:600])
    c.run("scancel", job).ok()
    check("invalid entity:nonsense for keyword:show" in c.run("scontrol", "show", "nonsense").err, "an unknown word")


@test(build="plain")
def test_wishes(t):
    """Where a job runs: preferred nodes, the node of its script, hosts that may submit, the partition that stands in."""
    c = t.cluster(controllers=1, nodes=2, settings={"KillWait": "2"})
    part = shown(c, "partition")["PartitionName"]
    c.run("scontrol", "update", "NodeName=n2", "Features=fast").ok()

    def ran(*words):
        job = c.sbatch(*words)
        c.wait_ended(job)
        return job, shown(c, "job", job)

    job, row = ran("--prefer=fast", "-n1", "--wrap", "true")
    equal((row["NodeList"], row["Prefer"]), ("n2", "fast"), "the node preferred")
    job, row = ran("-N2", "-n2", "--batch=fast", "-o", "lead-%j", "--wrap", "echo script on $SLURMD_NODENAME; srun -l sh -c 'echo $SLURMD_NODENAME'")
    equal((row["BatchHost"], row["JobState"]), ("n2", "COMPLETED"), "the node of the script")
    lines = sorted(c.read("lead-%d" % job).splitlines())
    equal(lines[-1], "script on n2", "where the script ran")
    equal(sorted(line.split(": ")[1] for line in lines[:-1]), ["n1", "n2"], "where the tasks ran")
    # Nor need the first node be the first by name where weights say otherwise.
    c.run("scontrol", "update", "NodeName=n1", "Weight=9").ok()
    job, row = ran("-N2", "-n2", "-o", "heavy-%j", "--wrap", "srun -l sh -c 'echo $SLURM_NODEID $SLURMD_NODENAME'")
    equal((row["BatchHost"], row["JobState"]), ("n2", "COMPLETED"), "the node of least weight")
    equal(sorted(c.read("heavy-%d" % job).splitlines()), ["0: 0 n2", "1: 1 n1"], "the order of the nodes")
    for words in (["--hint=nomultithread"], ["--gres-flags=enforce-binding", "--gres=gpu:test:1"], ["--gres-flags=disable-binding"], ["--time-min=1", "-t5"]):
        equal(ran("-n1", *words, "--wrap", "true")[1]["JobState"], "COMPLETED", "a job with %s" % words)
    c.run("scontrol", "update", "PartitionName=%s" % part, "AllocNodes=elsewhere").ok()
    check("Access/permission denied" in c.run("sbatch", "--wrap", "true").err, "a host that may not submit")
    c.run("scontrol", "update", "PartitionName=%s" % part, "AllocNodes=ALL").ok()
    c.run("scontrol", "create", "PartitionName=side", "Nodes=n1", "Alternate=%s" % part, "State=DRAIN").ok()
    equal(ran("-n1", "-p", "side", "--wrap", "true")[1]["Partition"], part, "the partition that stands in")
