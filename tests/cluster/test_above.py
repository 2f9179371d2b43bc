"""What stands above the queue: reservations and licences, by the commands that people type."""
import re

from harness import USER, check, equal, test, wait_until


def field(c, job, word):
    text = c.run("scontrol", "-o", "show", "job", str(job)).ok().out
    found = re.search(r"\b%s=(\S*)" % re.escape(word), text)
    return found.group(1) if found else None


def state(c, job):
    return field(c, job, "JobState")


def submit(c, *words, **more):
    return int(c.run("sbatch", "--parsable", *words, **more).ok().out.split(";")[0])


# Words behind scontrol, exit code, a piece of what is printed.
LINES = [
    (["create", "reservation", "StartTime=now", "Duration=10", "Nodes=ALL", "flags=maint,ignore_jobs"], 1, "Either Users/Groups and/or Accounts must"),
    (["create", "reservation", "Users=root", "Duration=10", "Nodes=ALL"], 1, "A start time must be given."),
    (["create", "reservation", "Users=root", "StartTime=now", "Nodes=ALL"], 1, "An end time or duration must be given."),
    (["create", "reservation", "Users=root", "StartTime=now", "Duration=1"], 1, "NodeCnt"),
    (["create", "reservation", "Users=root", "StartTime=now", "Duration=1", "Nodes=nosuch"], 1, "Invalid node name specified"),
    (["create", "reservation", "Users=root", "StartTime=now", "Duration=1", "Nodes=ALL", "flags=nosuch"], 1, "Invalid flag"),
    (["create", "reservation", "Users=root", "StartTime=now", "Duration=1", "NodeCnt=9"], 1, "Requested nodes are busy"),
    (["show", "reservation"], 0, "No reservations in the system"),
    (["create", "reservation", "Users=root", "StartTime=now", "Duration=60", "NodeCnt=1"], 0, "Reservation created: root_1"),
    (["create", "reservation=mine", "Users=root", "StartTime=now+1hours", "Duration=60", "Nodes=ALL", "Flags=DAILY"], 0, "Reservation created: mine"),
    (["create", "reservation=mine", "Users=root", "StartTime=now", "Duration=60", "NodeCnt=1"], 1, "Duplicate reservation name"),
    (["create", "reservation=other", "Users=root", "StartTime=now+1hours", "Duration=60", "NodeCnt=1"], 1, "Requested nodes are busy"),
    (["show", "reservation", "mine"], 0, "Flags=DAILY,ALL_NODES"),
    (["update", "ReservationName=mine", "Users+=nobody", "Duration=30", "Flags-=DAILY"], 0, "Reservation updated."),
    (["-o", "show", "reservation", "mine"], 0, "Users=root,nobody"),
    (["update", "ReservationName=nosuch", "Duration=30"], 1, "Requested reservation is invalid"),
    (["delete", "ReservationName=nosuch"], 1, "Requested reservation is invalid"),
    (["delete", "ReservationName=root_1"], 0, ""),
    (["delete", "reservation", "mine"], 0, ""),
    (["show", "licenses"], 0, "LicenseName=tool\n    Total=2 Used=0 Free=2 Reserved=0 Remote=no"),
]


@test(build="plain")
def test_reservation_lines(t):
    c = t.cluster(controllers=1, nodes=2, settings={"Licenses": "tool:2"})
    for words, code, piece in LINES:
        done = c.run("scontrol", *words)
        equal(done.code, code, "exit code of scontrol %s: %s%s" % (" ".join(words), done.out, done.err))
        check(piece in done.out + done.err, "scontrol %s prints %r", " ".join(words), done.out + done.err)
    denied = c.run("scontrol", "create", "reservation", "Users=root", "StartTime=now", "Duration=1", "Nodes=ALL", user=USER)
    check("Access/permission denied" in denied.err, "an ordinary user is told %r", denied.err)


@test(build="plain")
def test_reservation_at_work(t):
    c = t.cluster(controllers=1, nodes=2, settings={"Licenses": "tool:2"})
    c.run("scontrol", "create", "reservation=fix", "Users=root", "StartTime=now", "Duration=60", "Nodes=n1", "Flags=MAINT").ok()
    wait_until("the node is in maintenance", 60, lambda: "maint" in c.run("sinfo", "-h", "-N", "-n", "n1", "-o", "%t").out)
    check(re.search(r"^fix +ACTIVE .* 01:00:00 +n1$", c.run("sinfo", "-T").ok().out, re.M), "sinfo -T lists it")
    other = submit(c, "-w", "n1", "--wrap=true", user=USER)
    mine = submit(c, "--reservation=fix", "-t1", "--wrap=sleep 1000")
    denied = c.run("sbatch", "--reservation=fix", "--wrap=true", user=USER)
    check("Access/permission denied" in denied.err, "who may not use it is told %r", denied.err)
    wait_until("who it is for runs there", 60, lambda: state(c, mine) == "RUNNING")
    equal(field(c, mine, "NodeList"), "n1", "where it runs")
    equal(c.run("squeue", "-h", "-O", "Reservation:.9", "-j", str(mine)).ok().out.strip(), "fix", "squeue's column")
    wait_until("others are told why they wait", 60, lambda: "ReqNodeNotAvail" in c.run("squeue", "-h", "-o", "%r", "-j", str(other)).out)
    check("Reserved_for_maintenance" in c.run("scontrol", "show", "job", str(other)).out, "and by what")
    check("in use" in c.run("scontrol", "delete", "ReservationName=fix").err, "it is in use")
    c.run("scancel", str(mine)).ok()
    wait_until("then it goes", 60, lambda: c.run("scontrol", "delete", "ReservationName=fix").code == 0)
    wait_until("and the others run", 60, lambda: state(c, other) == "COMPLETED")
    # Licences.
    first = submit(c, "-L", "tool:2", "--wrap=sleep 1000")
    second = submit(c, "-L", "tool", "--wrap=true")
    wait_until("the second waits for a licence", 60, lambda: c.run("squeue", "-h", "-o", "%r", "-j", str(second)).out.strip() == "Licenses")
    check("Used=2 Free=0" in c.run("scontrol", "show", "lic").ok().out, "both are in use")
    c.run("scancel", str(first)).ok()
    wait_until("the second has its licence", 60, lambda: state(c, second) == "COMPLETED")
