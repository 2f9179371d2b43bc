"""What a job's owner is told by mail."""
import os

from harness import USER, check, equal, test, wait_until
from test_prolog import write
from test_steps import settle


@test()
def test_mail(t):
    """Each kind of mail once, with Slurm's subjects; nobody else's; a restarted agent forgets none and repeats none."""
    box = os.path.join(t.dir, "box")
    open(box, "w").close()
    write(os.path.join(t.dir, "mail"), "#!/bin/sh\necho \"$3|$SLURM_JOB_MAIL_TYPE|$2\" >>%s\n" % box)
    c = t.cluster(controllers=1, nodes=1, settings={"MailProg": t.dir + "/mail", "MailDomain": "example.org", "KillWait": "1"})

    def mails(job):
        return [line.split("|") for line in open(box).read().splitlines() if "Job_id=%d " % job in line]

    well = c.sbatch("-J", "fine", "--mail-type=BEGIN,END", "-o", "none", "--wrap", "true", user=USER)
    bad = c.sbatch("-J", "bad", "--mail-type=ALL", "--mail-user=me@there", "-o", "none", "--wrap", "exit 3", user=USER)
    still = c.sbatch("-J", "still", "--mail-type=FAIL", "-o", "none", "--wrap", "true", user=USER)
    for job, state in ((well, "COMPLETED"), (bad, "FAILED"), (still, "COMPLETED")):
        equal(settle(c, job)[0], state, "job %d" % job)
    wait_until("the mails", 30, lambda: len(mails(well)) == 2 and len(mails(bad)) == 2)
    begin, end = mails(well)
    equal((begin[0], begin[1], end[1]), (USER + "@example.org", "BEGIN", "END"), "who, and what")
    check(begin[2].startswith("Slurm Job_id=%d Name=fine Began, Queued time 00:00:" % well), "begin: %r", begin)
    check(end[2].startswith("Slurm Job_id=%d Name=fine Ended, Run time 00:00:" % well) and end[2].endswith(", COMPLETED, ExitCode 0"), "end: %r", end)
    check(mails(bad)[1][:2] == ["me@there", "FAIL"] and mails(bad)[1][2].endswith(", FAILED, ExitCode 3"), "failed: %r", mails(bad))
    c.kill("n1")
    c.start("n1")
    again = c.sbatch("-J", "again", "--mail-type=END", "-o", "none", "--wrap", "true", user=USER)
    equal(settle(c, again)[0], "COMPLETED", "a job after the restart")
    wait_until("its mail", 30, lambda: len(mails(again)) == 1)
    equal((len(mails(well)), len(mails(bad))), (2, 2), "mails after the agent was started anew")
    tasks = c.sbatch("-J", "many", "--array=0-1", "--mail-type=END,ARRAY_TASKS", "-o", "none", "--wrap", "true", user=USER)
    c.sbatch("-J", "quiet", "--array=0-1", "--mail-type=END", "-o", "none", "--wrap", "true", user=USER)
    wait_until("mails of an array's tasks", 30, lambda: all("Slurm Array Task Job_id=%d_%d (" % (tasks, k) in open(box).read() for k in (0, 1)))
    wait_until("an empty queue", 30, lambda: not c.run("squeue", "-h").ok().out.strip())
    check("Name=quiet" not in open(box).read(), "tasks were told of that nobody asked about")
    equal(mails(still), [], "a job that wanted to hear of failure only")


@test(sizes="full")
def test_mail_limits(t):
    """Shares of the time limit: the shortest limit is a minute."""
    box = os.path.join(t.dir, "box")
    open(box, "w").close()
    write(os.path.join(t.dir, "mail"), "#!/bin/sh\necho \"$SLURM_JOB_MAIL_TYPE|$2\" >>%s\n" % box)
    c = t.cluster(controllers=1, nodes=1, settings={"MailProg": t.dir + "/mail", "KillWait": "1"})
    late = c.sbatch("-J", "late", "-t", "1", "--mail-type=TIME_LIMIT_50,TIME_LIMIT_80,TIME_LIMIT,FAIL", "-o", "none", "--wrap", "sleep 300", user=USER)
    equal(settle(c, late, 120)[0], "TIMEOUT", "the job without time")
    wait_until("its mails", 30, lambda: len(open(box).read().splitlines()) >= 4)
    seen = [line.split("|") for line in open(box).read().splitlines()]
    equal([m[0] for m in seen], ["TIME_LIMIT_50", "TIME_LIMIT_80", "TIME_LIMIT", "FAIL"], "the mails")
    check("Reached 50% of time limit" in seen[0][1] and ", TIMEOUT, " in seen[3][1], "they say %r", seen)
