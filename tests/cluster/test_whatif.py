"""Questions that only a whole log answers: what would have been under other rules."""
import json
import os

from harness import USER, check, equal, size, test, wait_until
from load import Load
from test_kills import FAST

SETTINGS = {"PriorityType": "priority/multifactor", "PriorityWeightFairshare": "10000", "PriorityWeightAge": "1000", "KillWait": "2"}


def told(c, *words):
    return json.loads(c.run("muster", "whatif", "--from", "@1", "--json", *words, timeout=60).ok().out)


def wait_of(said, account, which):
    return [a[which]["wait_p50"] for a in said["accounts"] if a["name"] == account][0]


@test(build="plain")
def test_whatif(t):
    """Nothing changed gives the real history; without the share's weight the elder job of the account that used most goes first."""
    c = t.cluster(controllers=1, nodes=1, settings=SETTINGS)
    for account in ("heavy", "light"):
        c.run("sacctmgr", "-i", "add", "account", account).ok()
        c.run("sacctmgr", "-i", "add", "user", "root", "account=" + account).ok()
    used = c.sbatch("-A", "heavy", "--exclusive", "-t5", "--wrap", "sleep 2")
    c.wait_ended(used)
    gate = os.path.join(c.dir, "gate")
    holder = c.sbatch("-A", "heavy", "--exclusive", "-t5", "--wrap", "while [ ! -e %s ]; do sleep 0.1; done" % gate)
    wait_until("the node is taken", 20, lambda: c.states(holder)[holder][0] == "RUNNING")
    # Both are let go by one act, and only when the shares count: whoever goes first, no earlier plan has said so.
    elder = c.sbatch("-H", "-A", "heavy", "--exclusive", "-t5", "--wrap", "sleep 2")
    younger = c.sbatch("-H", "-A", "light", "--exclusive", "-t5", "--wrap", "sleep 2")

    def shares():
        rows = [line.split("|") for line in c.run("sshare", "-a", "-n", "-P", "-o", "Account,User,FairShare").ok().out.splitlines()]
        return {account.strip(): float(fair) for account, user, fair in rows if user == "root" and account.strip() in ("heavy", "light")}
    wait_until("the shares to count", 90, lambda: shares()["heavy"] < shares()["light"])
    c.run("scontrol", "release", "%d,%d" % (elder, younger)).ok()
    open(gate, "w").close()
    c.wait_ended(elder, younger)
    same = told(c)
    equal(same["real"], same["what_if"], "the history told again with nothing changed")
    equal((same["same_start"], same["sooner"], same["later"], same["moved"], same["different"]), (4, 0, 0, 0, 0), "what differs in it")
    check(same["equal"] == same["slices"] > 0, "of %d slices %d are equal", same["slices"], same["equal"])
    check(wait_of(same, "light", "real") > 0, "the younger job did not wait")
    picture = os.path.join(c.dir, "whatif.svg")
    other = told(c, "--set", "PriorityWeightFairshare=0", "--svg", picture)
    begun = [c.run("sacct", "-n", "-X", "-P", "-j", job, "-o", "Start").ok().out.strip() for job in (elder, younger)]
    check(begun[1] < begun[0], "the younger job of the account that used less did not go first: %s", begun)
    check(wait_of(other, "light", "what_if") > wait_of(other, "light", "real"), "the light account waits no longer: %s", other["accounts"])
    equal((other["sooner"], other["later"], other["moved"]), (1, 1, 2), "other starts of %s, begun %s" % (other["accounts"], begun))
    check(other["assumed"] == 0, "run times were invented: %s", other)
    check(open(picture).read().endswith("</svg>\n"), "the picture is not whole")
    more = told(c, "--add-nodes", "n[7-8]=n1")
    check(more["later"] == 0 and more["sooner"] == 2 and more["all"]["what_if"]["wait_p99"] < 1, "with more nodes: %s", more["all"])
    said = c.run("muster", "whatif", os.path.join(c.dir, "state", "c1"), "--from", "@1", "--set", "PriorityWeightFairshare=0").ok().out
    check("kept: submissions" in said and "assumed: 2 attempts moved; 0 of them" in said and "another history" in said, "the report says %r", said)
    for words, sentence in ((["--set", "PriorityWeightFairshar=0"], "PriorityWeightFairshar"), (["--set", "NodeName=x"], "--set changes one key"),
                            (["--add-nodes", "n9=nosuch"], "no node nosuch"), (["--from", "@999999"], "999999")):
        done = c.run("muster", "whatif", os.path.join(c.dir, "state", "c1"), "--from", "@1", *words)
        check(done.code == 1 and sentence in done.err, "whatif %s says %r", " ".join(words), done.err)


def submissions(c):
    """Positions of all that was submitted, in order."""
    dump = c.run("muster", "log", "dump", os.path.join(c.dir, "state", "c1")).ok().out
    return [line.split(".")[0] for line in dump.splitlines() if " submitted " in line]


def run_array(c, command):
    c.sbatch("--array=1-2", "--exclusive", "-N1", "-t5", "-o", "/dev/null", "--wrap", command)
    wait_until("the array is over", 60, lambda: not c.run("squeue", "-h").ok().out.strip())


@test(build="plain")
def test_bisect(t):
    """Of three acts between a good moment and a bad one the drain is found, and nobody else is accused."""
    c = t.cluster(controllers=1, nodes=2, settings={"KillWait": "2"})
    run_array(c, "sleep 1.5")
    c.run("scontrol", "update", "nodename=n1", "weight=7").ok()
    c.run("scontrol", "update", "nodename=n2", "state=drain", "reason=look").ok()
    c.run("scontrol", "update", "nodename=n1", "weight=8").ok()
    run_array(c, "sleep 2")
    good, bad = submissions(c)
    words = ["muster", "bisect", os.path.join(c.dir, "state", "c1"), "--metric", "wait:p99", "--window", "1"]
    said = json.loads(c.run(*words, "--good", good, "--bad", bad, "--json", timeout=60).ok().out)
    equal((said["good_jobs"], said["bad_jobs"], len(said["events"])), (2, 2, 3), "jobs and candidates of %s" % said)
    check(said["events"][0]["takes_back"] > 0.9 and all(e["takes_back"] < 0.1 for e in said["events"][1:]), "the events are %s", said["events"])
    text = c.run(*words, "--good", good, "--bad", bad, timeout=60).ok().out
    check("reason=\"look\"" in text and text.splitlines()[-1].startswith("It was @%d." % said["events"][0]["pos"]), "it says %r", text)
    done = c.run(*words, "--good", bad, "--bad", good)
    check(done.code == 1 and "must lie behind" in done.err, "turned round it says %r", done.err)


SHOWN = (["squeue"], ["squeue", "-o", "%i %j %T %M %L %S %Q %r %R"], ["sinfo", "-N"], ["sinfo", "-O", "NodeList,StateLong,CPUsState,Reason"], ["sacct", "-a", "-X"],
         ["sacct", "-a", "-o", "JobID,State,Elapsed,Start,End,NodeList"], ["scontrol", "show", "job"], ["scontrol", "show", "node"], ["scontrol", "show", "partition"],
         ["sprio", "-l"], ["sshare", "-a", "-l"])


def one_moment(c, words, form):
    """What is shown now under load, and again by the moment that the answer names."""
    if form == "--json":
        first = c.run(*words, "--json").ok().out
        moment = json.loads(first)["meta"]["as_of"]
        moment = "@%d,%d" % (moment["position"], moment["now_usec"])
    else:
        first = c.run(*words, "--as-of").ok().out
        last = first.splitlines()[-1]
        check(last.startswith("As of @"), "%s ends with %r", words, last)
        moment = last.split()[2]
    return first, moment


@test(build="plain", seconds=7200)
def test_as_of(t):
    """Every answer knows its moment: asked for again by that it is the same, byte for byte, on whatever controller."""
    c = t.cluster(settings=dict(FAST, **SETTINGS), nodes=2, cpus=8)
    load = Load(c, 3)
    try:
        seen = []
        for n in range(size("moments")):
            words, form = t.draw.choice(SHOWN), t.draw.choice(["--as-of", "--json"])
            if words[0] in ("sprio", "sshare"):
                form = "--as-of"
            seen.append((words, form) + one_moment(c, words, form))
            words, form, first, moment = t.draw.choice(seen)
            equal(c.run(*words, form, "--at", moment).ok().out, first, "%s %s --at %s beside what it was" % (" ".join(words), form, moment))
    finally:
        load.stop()
    load.verify()
    check(len({moment for _, _, _, moment in seen}) > len(seen) // 2, "the moments are all the same: nothing went on")
    for words in (["squeue", "--at", "@5,"], ["squeue", "--at", "@5,x"], ["squeue", "--at", "@,5"]):
        check(c.run(*words).code == 1, "%s is taken", words)


def last(c, kind):
    """Where the log has the last event of KIND."""
    dump = c.run("muster", "log", "dump", os.path.join(c.dir, "state", "c1")).ok().out
    return [line.split(" ")[0] for line in dump.splitlines() if line.split(" ")[2:3] == [kind]][-1]


def undo(c, place, *pieces):
    """What is planned for PLACE has all PIECES; then it is done."""
    said = c.run("muster", "undo", place, "--plan").ok().out
    for piece in pieces:
        check(piece in said, "the plan of %s is %r, without %r", place, said, piece)
    return c.run("muster", "undo", place, "--apply").ok().out


@test(build="plain")
def test_undo(t):
    """Acts of an administrator are made up for by new ones, each under its author; what cannot be is said by name."""
    c = t.cluster(controllers=1, nodes=2, settings={"KillWait": "2"})
    node = lambda: c.run("scontrol", "-o", "show", "node", "n2").ok().out
    c.run("scontrol", "update", "nodename=n2", "state=drain", "reason=look").ok()
    place = last(c, "node_update")
    undo(c, place, "by root", "would: node n2: UNDRAIN")
    check("DRAIN" not in node(), "n2 is still drained: %s", node())
    done = c.run("muster", "undo", place, "--apply")
    check(done.code == 1 and "cannot: node n2 is in service again" in done.out and "nothing of" in done.err, "twice it says %r %r", done.out, done.err)
    acts = [json.loads(line) for line in c.run("muster", "audit", "acts", "--who", "root", "--json").ok().out.splitlines()]
    check(len([act for act in acts if act["event"] == 53]) == 2, "the acts are %s", acts)
    c.run("scontrol", "update", "nodename=n2", "weight=7").ok()
    undo(c, last(c, "node_update"), "Weight=1")
    check("Weight=1 " in node(), "its weight is %s", node())
    partition = lambda: c.run("scontrol", "-o", "show", "partition").ok().out
    was = partition()
    name = was.split()[0].split("=")[1]
    c.run("scontrol", "update", "partitionname=" + name, "MaxTime=40", "MaxNodes=1").ok()
    check(partition() != was, "the partition is as it was")
    undo(c, last(c, "partition_update"), "max_time_sec", "max_nodes")
    equal(partition(), was, "the partition after the undo")
    qos = lambda: c.run("sacctmgr", "-n", "-P", "show", "qos").ok().out
    was = qos()
    c.run("sacctmgr", "-i", "modify", "qos", "normal", "set", "MaxJobsPerUser=3", "Priority=5", "MaxTRESPerJob=cpu=2").ok()
    check(qos() != was, "the QOS is as it was")
    undo(c, last(c, "accounts_changed"), "QOS normal", "max_jobs_user", "max_tres_job", "priority")
    equal(qos(), was, "the QOS after the undo")
    c.run("sacctmgr", "-i", "add", "account", "bio").ok()
    done = c.run("muster", "undo", last(c, "accounts_changed"), "--plan")
    check(done.code == 1 and "remove it with sacctmgr" in done.out, "of an addition it says %r", done.out)
    path = os.path.join(c.dir, "muster.conf")
    text = open(path).read()
    with open(path, "w") as f:
        f.write(text + "PriorityWeightAge=77\n")
    c.run("scontrol", "reconfigure").ok()
    weight = lambda: c.run("muster", "config", "get", "PriorityWeightAge").ok().out
    check("77" in weight(), "the configuration was not taken in: %s", weight())
    place = last(c, "config_set")
    undo(c, place, "the configuration of @")
    check("77" not in weight(), "the configuration stands: %s", weight())
    check("another configuration was set" in c.run("muster", "undo", place, "--plan").out, "a configuration is undone twice")
    mine, other = c.sbatch("-H", "-J", "mine", "--wrap", "echo mine"), c.sbatch("-H", "--wrap", "true", user=USER)
    c.run("scancel", mine, other).ok()
    said = undo(c, last(c, "job_signal"), "job %d submitted again" % mine)
    again = int(said.split()[-1])
    equal(c.run("squeue", "-h", "-j", again, "-o", "%j %T %r").ok().out.strip(), "mine PENDING JobHeldUser", "the job submitted again")
    check("echo mine" in c.run("scontrol", "write", "batch_script", again, "-").ok().out, "its script is another")
    for words, sentence in (([last(c, "node_registered"), "--plan"], "no act of an administrator"), (["@99999", "--plan"], "nothing at @99999"), (["x", "--plan"], "no place in the log"),
                            ([place], "usage: muster undo"), ([place, "--plan", "--apply"], "usage: muster undo")):
        done = c.run("muster", "undo", *words)
        check(done.code == 1 and sentence in done.err, "undo %s says %r", words, done.err)
    c.run("muster", "undo", place, "--plan", user=USER).refused()
