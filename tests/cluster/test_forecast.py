"""When waiting jobs may start, learnt from how long jobs really ran; and what sacctmgr says besides accounts."""
import json

from harness import check, equal, test, wait_until


@test(build="plain")
def test_forecast(t):
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2"})
    c.wait_ended(*[c.sbatch("-t1", "--wrap", "sleep 3") for _ in range(5)])
    holder = c.sbatch("-n4", "-t120", "--wrap", "sleep 600")
    wait_until("the job that holds the node", 60, lambda: c.run("squeue", "-h", "-j", holder, "-t", "R", "-o", "%i").out.strip())
    late = c.sbatch("-n4", "-t10", "--wrap", "true")

    def told():
        lines = [json.loads(line) for line in c.run("muster", "forecast", "--json", late).ok().out.splitlines()]
        return lines[0] if lines else None
    seen = wait_until("a planned start", 60, told)
    # Jobs of this user ran a twentieth of what they asked for; the planned start counts on all of it.
    equal((seen["job"], seen["basis"]), (late, "user"), "whose forecast that is")
    check(seen["early_usec"] <= seen["likely_usec"] < seen["planned_usec"], "the spread is %s", seen)
    said = c.run("muster", "forecast").ok().out.splitlines()
    check("LIKELY" in said[0] and said[1].split()[0] == str(late), "the list reads %s", said)
    c.run("scancel", holder).ok()
    c.wait_ended(holder, late)
    score = json.loads(c.run("muster", "forecast", "--score", "--from", "now-1hour", "--json").ok().out)
    check(score["told"] >= 1 and score["kept"] >= 1 and score["median_sec"] < 0, "the score is %s", score)
    check("had been told a start" in c.run("muster", "forecast", "--score").ok().out, "the score in words")
    equal(c.run("muster", "forecast", "--days", "x").code, 1, "days that are no number")
    # A user who stays elsewhere keeps his default account.
    for words in (["account", "one"], ["account", "two"], ["user", "nobody", "account=one"], ["user", "nobody", "account=two"]):
        c.run("sacctmgr", "-i", "add", *words).ok()
    c.run("sacctmgr", "-i", "delete", "user", "nobody", "account=one").refused("can not remove the default account")
    c.run("sacctmgr", "-i", "delete", "account", "one").refused("can not remove the default account")
    c.run("sacctmgr", "-i", "modify", "user", "nobody", "set", "defaultaccount=two").ok()
    c.run("sacctmgr", "-i", "delete", "account", "one").ok()
    check("ClusterName" in c.run("sacctmgr", "show", "config").ok().out, "show config")
    check("muster_queries_total" in c.run("sacctmgr", "show", "stats").ok().out, "show stats")
    c.run("sacctmgr", "show", "wckey").refused("WCKeyUtilizationByUser")
    c.run("sacctmgr", "show", "resource").refused("scontrol show licenses")
