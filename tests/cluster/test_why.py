"""Why a job waits: now, over its life, beside another one, and what would have let it start. Lives of jobs and nodes, and acts."""
import json

from harness import USER, check, equal, test, wait_until


def why(c, *words):
    return json.loads(c.run("muster", "why", *words, "--json").ok().out)


def reason(c, job):
    return c.run("squeue", "-h", "-j", job, "-o", "%r").ok().out.strip()


@test(build="plain")
def test_why(t):
    c = t.cluster(controllers=1, nodes=2, settings={"KillWait": "2"})
    first = c.sbatch("-N1", "--exclusive", "-w", "n1", "-t30", "--wrap", "sleep 300")
    wait_until("the first job runs", 20, lambda: c.states(first)[first][0] == "RUNNING")
    whole = c.sbatch("-N2", "--exclusive", "-t60", "--wrap", "sleep 300")
    long = c.sbatch("-n1", "-t40", "--wrap", "sleep 300")
    gap = c.sbatch("-n1", "-t10", "--wrap", "sleep 1")
    wait_until("the reasons are decided", 20, lambda: reason(c, whole) == "Resources" and reason(c, long) == "Priority")
    said = c.run("muster", "why", whole).ok().out
    for piece in ("waits: Resources.", "It asks for 2 nodes", "held by job", "%d (root, 4 CPUs" % first, "planned to start at", "decided in pass "):
        check(piece in said, "muster why says %r, without %r", said, piece)
    answer = why(c, long)
    equal([job["job"] for job in answer["wait"]["ahead"]], [int(whole)], "the jobs before the long one")
    spans = answer["span"]
    equal([span.get("reason", 0) for span in spans], [0, 1], "the reasons of its wait")
    check(spans[1]["by"]["event"] == 70 and spans[1]["by"]["pos"] > spans[0]["by"]["pos"], "its second span rests on %s", spans[1]["by"])
    # One minute more than the gap is what the long one asked too much.
    equal([(h["what"], h["to"]) for h in why(c, long, "--what-would-help")["help"]][0][0], "TimeLimit", "what would help the long one")
    said = c.run("muster", "why", long, "--what-would-help").ok().out
    check("TimeLimit=00:" in said and "decided again over @" in said, "it says %r", said)
    c.wait_ended(gap)
    said = c.run("muster", "why", long, "--before", str(gap)).ok().out
    check("fitted into a gap" in said and "Job %s      " % gap in said, "the gap is told as %r", said)
    equal(c.run("muster", "why", 99).code, 1, "why of an unknown job")
    # The spans add up to the wait; the same is said of that moment later.
    moment = answer["wait"]["pos"]
    c.run("scancel", first, whole).ok()
    wait_until("the long one runs", 20, lambda: c.states(long)[long][0] == "RUNNING")
    after = why(c, long)
    start = after["job"]["start_usec"]
    equal(sum(span["to_usec"] - span["from_usec"] for span in after["span"]), start - after["job"]["submit_usec"], "the sum of the spans")
    equal(after["waited_usec"], start - after["job"]["submit_usec"], "the wait that it tells")
    check("wait" not in after, "a running job is said to wait: %s", after.get("wait"))
    equal(why(c, long, "--at", "@%d" % moment)["wait"], answer["wait"], "the reason as of that moment")
    # Lives, and what people did.
    c.run("scontrol", "update", "nodename=n2", "state=drain", "reason=look").ok()
    said = c.run("scontrol", "show", "job", long, "--history").ok().out
    check("RUNNING on n" in said and "PENDING (Priority)" in said and "submitted by root" in said, "its life reads %r", said)
    said = c.run("scontrol", "show", "node", "n2", "--history").ok().out
    check("IDLE+DRAIN Reason=look" in said and "node_update by root" in said, "the node's life reads %r", said)
    equal(c.run("scontrol", "show", "node", "nosuch", "--history").code, 1, "the life of a node that is not there")
    acts = [json.loads(line) for line in c.run("muster", "audit", "acts", "--who", "root", "--since", "now-1hour", "--json").ok().out.splitlines()]
    check(any(act["event"] == 53 for act in acts), "the drain is not among %s", acts)
    check("reason: look" in c.run("muster", "audit", "acts").ok().out or "look" in c.run("muster", "audit", "acts").out, "the reason is not told")
    equal(c.run("muster", "audit", "acts", user=USER).code, 1, "acts for an ordinary user")
    c.run("scancel", long).ok()
    wait_until("all is over", 20, lambda: not c.run("squeue", "-h").ok().out)


@test(build="plain")
def test_plan(t):
    """What another configuration would change in the queue, before it is taken in."""
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2"})
    first = c.sbatch("-n1", "--exclusive", "-t30", "--wrap", "sleep 300")
    second = c.sbatch("-n1", "-t50", "--wrap", "true", user=USER)  # limits do not bind root
    wait_until("the second waits", 20, lambda: reason(c, second) in ("Resources", "Priority"))
    equal(c.run("scontrol", "reconfigure", "--plan").ok().out, "Nothing would change in the queue.\n", "the plan of the same file")
    path = "%s/muster.conf" % c.dir
    text = open(path).read()
    with open(path, "w") as f:
        f.write("\n".join(line + " MaxTime=40" if line.startswith("PartitionName=") and "MaxTime" not in line else line for line in text.splitlines()).replace("MaxTime=INFINITE", "MaxTime=40") + "\n")
    said = c.run("scontrol", "reconfigure", "--plan").ok().out
    check("%d " % second in said and "-> PENDING (PartitionTimeLimit)" in said, "the plan says %r", said)
    check(reason(c, second) in ("Resources", "Priority"), "a plan has changed the queue")
    equal(c.run("scontrol", "reconfigure", "--plan", user=USER).code, 1, "a plan for an ordinary user")
    c.run("scancel", first, second).ok()
    # A task of an array waits in one row with the others, and its own life goes on from there.
    array = c.sbatch("--array=0-1%1", "--wrap", "sleep 1")
    c.run("muster", "why", "%d_1" % array).ok()
    wait_until("the second task has a row of its own", 30, lambda: c.run("muster", "wait", "%d_1" % array).code == 0)
    said = c.run("muster", "why", "%d_1" % array).ok().out
    check("JobArrayTaskLimit" in said and "submitted by root" in said, "the wait of a task is told as %r", said)
    check("Invalid job id" in c.run("muster", "why", "%d_7" % array).err, "a task that is not there is accepted")
    wait_until("all is over", 20, lambda: not c.run("squeue", "-h").ok().out)
@test()
def test_trail(t):
    """scontrol show job --trail: a user's signals, a cancel, the kernel's kill for memory; each with its author, down to the step's end."""
    c = t.cluster(controllers=1, nodes=1, cpus=4, settings={"KillWait": "2"})
    script = c.script("#!/bin/sh\ntrap 'echo heard' USR1\necho began\nwhile :; do sleep 0.1; done\n", name="wait.sh")
    job = c.sbatch("--mem=100", "-o", "out", script, user=USER)
    wait_until("the job's word", 60, lambda: "began" in c.read("out", 60))
    c.run("scancel", "-b", "--signal=USR1", job, user=USER).ok()
    wait_until("the signal", 60, lambda: "heard" in c.read("out"))
    c.run("scancel", job).ok()
    wait_until("the job's release", 60, lambda: "JobState=CANCELLED" in c.run("scontrol", "show", "job", job).ok().out)
    lines = c.run("scontrol", "show", "job", job, "--trail", user=USER).ok().out.splitlines()

    def row(*words):
        found = [k for k, line in enumerate(lines) if all(word in line for word in words)]
        check(found, "no line with %s in %s", words, lines)
        return found[0]
    equal(lines[0], "JobId=%d" % job, "the heading")
    marks = [row("RUNNING", "decided in pass"), row("signal 10 (USR1) for the batch script", "job_signal by " + USER),
             row("CANCELLED", "cancelled by uid 0", "job_signal by root"), row("CANCELLED", "told by node n1", "step batch")]
    equal(marks[:3], sorted(marks[:3]), "their order in %s" % lines)
    greedy = c.sbatch("--mem=40", "--wrap", "python3 -c 'x = bytearray(200 << 20); x[::4096] = b\"x\" * len(x[::4096])'", user=USER)
    wait_until("the greedy job's release", 60, lambda: "JobState=OUT_OF_MEMORY" in c.run("scontrol", "show", "job", greedy).ok().out)
    lines = c.run("scontrol", "show", "job", greedy, "--trail").ok().out.splitlines()
    row("step batch OUT_OF_MEMORY", "the kernel killed 1 for memory", "told by node n1")
    row("OUT_OF_MEMORY", "attempt_ended")
    c.run("scontrol", "show", "job", "--trail").refused("--trail of which job?")
    c.run("scontrol", "show", "job", "99999", "--trail").refused("Invalid job id specified")
