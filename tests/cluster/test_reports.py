"""Reports of use, events as they happen, waiting for a state, differences between two moments."""
import json
import os
import subprocess

from harness import USER, check, equal, local, test, wait_until

NAME = "nobody"


def amounts(c, *words):
    """Lines of a report in seconds, without headings."""
    return [line.split("|") for line in c.run("sreport", "-n", "-P", "-t", "Seconds", *words, "start=now-1hour", "end=now+1minute").ok().out.splitlines()]


def reserved(c):
    """A reservation's time is kept, also when it is gone; what its jobs held of it is told apart."""
    c.run("scontrol", "create", "reservation", "reservationname=show", "starttime=now", "duration=60", "users=root", "nodes=n1").ok()
    job = c.sbatch("-n2", "--reservation=show", "--wrap", "sleep 2")
    c.wait_ended(job)
    used = int(c.run("sacct", "-X", "-n", "-P", "-o", "CPUTimeRAW", "-j", job).ok().out)
    c.run("scontrol", "delete", "reservation", "show").ok()
    row = amounts(c, "reservation", "utilization", "format=name,allocated,idle,totaltime")[0]
    equal(row[:2], ["show", str(used)], "the use of the reservation")
    check(int(row[1]) + int(row[2]) == int(row[3]) > used, "allocated and idle are not the whole: %s", row)
    equal(dict(amounts(c, "cluster", "UtilizationByReservation", "format=reservation,used"))["show"], str(used), "the use by reservation")
    return job


@test(build="plain")
def test_reports(t):
    c = t.cluster(controllers=1, nodes=2, settings={"AccountingStorageEnforce": "associations", "KillWait": "2"})
    for words in (["account", "bio"], ["account", "lab", "parent=bio"], ["user", NAME, "account=lab"]):
        c.run("sacctmgr", "-i", "add", *words).ok()
    jobs = [c.sbatch("-n2", "--gres=gpu:test:1", "--wrap", "sleep 2", user=USER), c.sbatch("-n1", "--wrap", "sleep 2"), c.sbatch("-n4", "--wrap", "sleep 1")]
    c.wait_ended(*jobs)
    rows = {}
    for line in c.run("sacct", "-a", "-X", "-n", "-P", "-o", "JobID,AllocCPUS,Start,End,User", "-j", ",".join(map(str, jobs))).ok().out.splitlines():
        job, cpus, begin, end, user = line.split("|")
        rows[int(job)] = (int(cpus), begin, end, user)
    # What any grouping comes to is what sacct's rows come to.
    seconds = c.run("sacct", "-a", "-X", "-n", "-P", "-o", "CPUTimeRAW", "-j", ",".join(map(str, jobs))).ok().out.split()
    total = sum(map(int, seconds))
    check(total >= 2 * 2 + 2 + 4, "sacct counts %d CPU seconds", total)
    by_account = amounts(c, "cluster", "AccountUtilizationByUser", "format=accounts,login,used")
    used = {(account, login): int(n) for account, login, n in by_account}
    equal(used["root", ""], total, "the root account's use")
    equal(used["bio", ""], used["lab", NAME], "the use of an account is that of all below it")
    by_user = amounts(c, "cluster", "UserUtilizationByAccount", "format=login,accounts,used")
    equal(sum(int(n) for _, _, n in by_user), total, "the users' use")
    top = amounts(c, "user", "top", "format=login,used")
    equal(sum(int(n) for _, n in top), total, "the top users' use")
    equal(top, sorted(top, key=lambda row: -int(row[1])), "the order of the top users")
    sizes = amounts(c, "job", "sizes", "format=accounts,size0,size1,size2,size3,size4")
    equal(sum(int(n) for row in sizes for n in row[1:]), total, "the use by size")
    counted = amounts(c, "job", "sizes", "printjobcount", "format=accounts,size0")
    equal(sum(int(n) for _, n in counted), len(jobs), "the number of jobs")
    whole = amounts(c, "cluster", "utilization", "format=allocated,down,idle,planned,reported")[0]
    equal(int(whole[0]), total, "what the cluster had allocated")
    equal(sum(map(int, whole[:4])), int(whole[4]), "the parts of what the cluster reports")
    gpus = amounts(c, "-T", "gres/gpu", "cluster", "utilization", "format=allocated")[0]
    check(int(gpus[0]) >= 2, "GPU seconds are %s", gpus)
    head = c.run("sreport", "cluster", "utilization").ok().out.splitlines()
    check(head[1].startswith("Cluster Utilization ") and head[2] == "Usage reported in CPU Minutes", "the heading reads %s", head)
    for what, key in (("UtilizationByPartition", "partition"), ("UtilizationByQOS", "qos"), ("UtilizationByNode", "nodename"),
                      ("UserUtilizationByWCKey", "wckey"), ("UtilizationByReservation", "reservation")):
        rows = amounts(c, "cluster", what, "format=%s,used" % key)
        equal(sum(int(n) for _, n in rows), total, "the use of cluster %s" % what)
    narrow = amounts(c, "job", "sizes", "grouping=2,4", "format=accounts,size0,size1,size2")
    equal(sum(int(n) for row in narrow for n in row[1:]), total, "the use by other sizes")
    equal([sum(int(row[k]) > 0 for row in narrow) for k in (1, 2, 3)], [1, 1, 1], "who ran which size")
    # Money: half of the price is that of a time before these jobs.
    prices = os.path.join(c.home, "prices")
    with open(prices, "w") as f:
        f.write("# from  TRES  for an hour\n2020-01-01 cpu 1000\n2021-01-01 cpu 36.00\n2021-01-01 gres/gpu 0\n")
    bill = amounts(c, "user", "top", "prices=" + prices, "format=login,cost")
    equal(sum(round(float(n) * 100) for _, n in bill), total, "the bill in hundredths, at one for a second")
    with open(prices, "a") as f:
        f.write("never cpu\n")
    done = c.run("sreport", "user", "top", "prices=" + prices)
    check(done.code == 1 and "line 5" in done.err, "a price without an amount: %r", done.err)
    for words, piece in ((["cluster", "nosuch"], "Not valid report"), (["-t", "Weeks", "cluster", "utilization"], "Invalid time format"),
                         (["user", "top", "topcount=x"], "topcount"), (["job", "sizes", "grouping=4,2"], "grouping")):
        done = c.run("sreport", *words)
        check(done.code == 1 and piece in done.err, "sreport %s: %d %r", words, done.code, done.err)
    jobs.append(reserved(c))
    said = c.run("seff", jobs[0]).ok().out
    check("Job ID: %d\n" % jobs[0] in said and "CPU Efficiency: " in said and "State: COMPLETED (exit code 0)" in said, "seff says %r", said)
    equal(c.run("seff", 9999).code, 1, "seff of an unknown job")
    # Accounts, shares and counters as they were before there was anything.
    acts = [json.loads(line) for line in c.run("muster", "audit", "acts", "--json").ok().out.splitlines()]
    then = "@%d" % (next(act["pos"] for act in acts if act["event"] == 56) - 1)
    equal(c.run("sacctmgr", "-n", "-P", "show", "account", "format=account", "--at", then).ok().out, "root\n", "the accounts of then")
    check("lab" in c.run("sacctmgr", "-n", "-P", "show", "account", "format=account").ok().out, "the accounts of now lack one")
    check("bio" not in c.run("sshare", "-a", "--at", then).ok().out, "shares of then show an account of now")
    check("Jobs submitted: 0\n" in c.run("sdiag", "--at", then).ok().out, "counters of then are those of now")
    check("changes nothing" in c.run("sacctmgr", "-i", "add", "account", "x", "--at", then).err, "the past can be changed")
    equal(c.run("sacctmgr", "-n", "-P", "show", "transaction", "format=action,actor,where").ok().out.splitlines()[:2],
          ["Add Accounts|root|bio", "Add Accounts|root|lab"], "the transactions")
    # Windows of sacct: a state without a time means this moment, a number alone all of history.
    done = [str(job) for job in jobs]
    equal(c.run("sacct", "-a", "-X", "-n", "-P", "-o", "JobID", "-s", "RUNNING").ok().out, "", "what runs at this moment")
    equal(c.run("sacct", "-a", "-X", "-n", "-P", "-o", "JobID", "-s", "CD", "-S", "now-1hour", "-E", "now+1minute").ok().out.split(), done, "what completed")
    equal(c.run("sacct", "-X", "-n", "-P", "-o", "JobID", "-s", "CD", "-j", done[0]).ok().out.split(), done[:1], "a completed job by its number")
    equal(c.run("sacct", "-a", "-X", "-n", "-P", "-o", "JobID", "-S", "now-2days", "-E", "now-1day").ok().out, "", "what there was yesterday")


@test(build="plain")
def test_events(t):
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2"})
    first = c.sbatch("--wrap", "sleep 1")
    equal(c.run("muster", "wait", first).ok().out.strip(), "COMPLETED", "the state waited for")
    equal(c.run("muster", "wait", first, "--state", "FAILED").code, 1, "waiting for what cannot come any more")
    equal(c.run("muster", "wait", 9999).code, 1, "waiting for nobody")
    events = [json.loads(line) for line in c.run("muster", "events", "--json").ok().out.splitlines()]
    check(all(e["v"] == 1 and e["pos"] and e["kind"] for e in events), "a line lacks something: %s", events[:3])
    check({"founded", "submitted", "decided", "attempt_ended"} <= {e["kind"] for e in events}, "kinds: %s", {e["kind"] for e in events})
    # Going on from a position gives the rest, once.
    middle = events[len(events) // 2]["pos"]
    rest = [json.loads(line) for line in c.run("muster", "events", "--json", "--from", "@%d" % middle).ok().out.splitlines()]
    equal(rest[:len([e for e in events if e["pos"] >= middle])], [e for e in events if e["pos"] >= middle], "the events from the middle on")
    some = [json.loads(line) for line in c.run("muster", "events", "--json", "--job", str(first), "--kind", "attempt_ended").ok().out.splitlines()]
    check(some and all(e["kind"] == "attempt_ended" for e in some), "the job's end is told as %s", some)
    equal(c.run("muster", "events", user=USER).code, 1, "events for an ordinary user")
    equal(c.run("muster", "events", "--from", "@x").code, 1, "a position that is none")
    # Followed, it tells of what comes.
    follow = subprocess.Popen(["muster", "events", "--follow", "--json", "--kind", "submitted", "--count", "1"],
                              env=local.environment(c.c), stdout=subprocess.PIPE, text=True)
    second = c.sbatch("-H", "--wrap", "true")
    try:
        said, _ = follow.communicate(timeout=5)
    except subprocess.TimeoutExpired:  # it began to look only after the job had come
        c.run("scancel", c.sbatch("-H", "--wrap", "true")).ok()
        said, _ = follow.communicate(timeout=60)
    check('"submitted"' in said, "what was followed says %r", said)
    done = c.run("muster", "wait", second, "--state", "RUNNING", "--timeout", "1")
    equal(done.code, 2, "waiting for a held job's start")
    before = events[-1]["pos"]
    c.run("scontrol", "update", "nodename=n1", "state=drain", "reason=change").ok()
    said = c.run("muster", "diff", "--from", "@%d" % before)
    equal(said.code, 1, "the exit code where something differs")
    for piece in ("+ job %d" % second, "  node n1\n", "+ reason = change", "state = IDLE+DRAIN"):
        check(piece in said.out, "%r is not in %r", piece, said.out)
    said = c.run("sacctmgr", "-n", "-P", "show", "event", "format=nodename,end,state,reason,user").ok().out
    check("n1|Unknown|IDLE+DRAIN|change|root" in said, "the node's outage is told as %r", said)
    equal(c.run("muster", "diff", "--from", "@%d" % before, "--to", "@%d" % before).out, "", "what differs between a moment and itself")
    c.run("scancel", second).ok()
    wait_until("all is over", 20, lambda: not c.run("squeue", "-h").ok().out)
