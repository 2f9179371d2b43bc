"""What an administrator's scripts read: JSON by its outer keys, and words of scontrol that act on several jobs."""
import json

from harness import USER, check, equal, test, wait_until

# The rows' key of each, and a member that a row has.
SHOWN = [(["squeue"], "jobs", "job_state"), (["sacct"], "jobs", "steps"), (["sinfo"], "sinfo", "partition"),
         (["scontrol", "show", "job"], "jobs", "job_resources"), (["scontrol", "show", "node"], "nodes", "state"),
         (["scontrol", "show", "partition"], "partitions", "maximums"), (["scontrol", "show", "reservation"], "reservations", "start_time"),
         (["scontrol", "show", "step"], "steps", "step"), (["scontrol", "ping"], "pings", "pinged"),
         (["sacctmgr", "show", "account"], "accounts", "associations"), (["sacctmgr", "show", "user"], "users", "administrator_level"),
         (["sacctmgr", "show", "assoc"], "associations", "max"), (["sacctmgr", "show", "qos"], "qos", "limits"),
         (["sacctmgr", "show", "cluster"], "clusters", "controller")]


def told(c, *words):
    return json.loads(c.run(*words, "--json").ok().out)


@test()
def test_words_json(t):
    c = t.cluster(nodes=1)
    job = c.sbatch("-n1", "--mem=50", "-t5", "--wrap", "sleep 300")
    c.run("scontrol", "create", "reservation", "ReservationName=r", "StartTime=now+1hour", "Duration=10", "Users=root", "Nodes=n1").ok()
    wait_until("the batch step to run", 20, lambda: told(c, "scontrol", "show", "step")["steps"])
    for words, key, member in SHOWN:
        said = told(c, *words)
        equal(said["meta"]["plugin"]["data_parser"], "data_parser/v0.0.41", "the model of " + words[0])
        check(said[key] and member in said[key][0], "%s has no %s of %s: %s", words, member, key, said)
        check(said["errors"] == [] and said["warnings"] == [], "%s has errors", words)
        text = c.run(*words, "--yaml").ok().out
        check(text.startswith("---\nmeta:\n") and "\n%s:\n  - " % key in text, "%s in YAML: %s", words, text)
    shares = told(c, "sshare", "-a")["shares"]
    check(shares["shares"] and "level" in shares["shares"][0]["fairshare"], "shares: %s", shares)
    check(told(c, "sdiag")["statistics"]["jobs_submitted"] == 1, "statistics")
    # The two models differ in a job's resources.
    new = told(c, "squeue")["jobs"][0]["job_resources"]["nodes"]
    equal((new["list"], new["allocation"][0]["name"]), ("n1", "n1"), "nodes of a job")
    old = json.loads(c.run("squeue", "--json=v0.0.40").ok().out)["jobs"][0]["job_resources"]
    equal((old["nodes"], old["allocated_nodes"][0]["nodename"]), ("n1", "n1"), "nodes of a job in the model before")
    c.run("scontrol", "show", "topology", "--json").refused("show topology knows no --json")
    c.run("sacctmgr", "show", "tres", "--json").refused("--json and --yaml show accounts")
    c.run("sacctmgr", "dump", "file=/dev/null", "--json").refused("are for what shows")
    c.run("scancel", job).ok()


@test()
def test_words_of_scontrol(t):
    c = t.cluster(nodes=1)
    first, second = c.sbatch("-J", "twin", "-H", "--wrap", "true"), c.sbatch("-J", "twin", "-H", "--wrap", "true")
    other = c.sbatch("-J", "other", "-H", "--delay-boot=5", "--wrap", "true")
    check("DelayBoot=00:05:00" in c.run("scontrol", "show", "job", other).ok().out, "DelayBoot of a job")
    check("DelayBoot=00:00:00" in c.run("scontrol", "show", "job", first).ok().out, "DelayBoot of another")
    c.run("scontrol", "release", "jobname=twin", user=USER).refused("Job name twin not found")
    c.run("scontrol", "release", "jobname=twin").ok()
    ended = c.wait_ended(first, second)
    equal([ended[job][0] for job in (first, second)], ["COMPLETED", "COMPLETED"], "jobs released by their name")
    equal(c.run("squeue", "-h", "-o", "%T", "-j", other).ok().out, "PENDING\n", "the job of another name")
    c.run("scontrol", "hold", "name=nosuch").refused("Job name nosuch not found")
    long = c.sbatch("-n1", "--wrap", "sleep 300")
    wait_until("the script's processes to be listed", 20, lambda: any(
        line.split()[1:3] == [str(long), "batch"] for line in c.run("scontrol", "listpids", "%d.batch" % long).out.splitlines()))
    check(str(long) in c.run("scontrol", "listpids").ok().out, "processes of all jobs")
    c.run("scontrol", "listpids", other).refused("")
    equal(c.run("scontrol", "show", "federations").ok().out, "There are no federations.\n", "federations")
    for word in ("bbstat", "dwstat", "aliases"):
        c.run("scontrol", "show", word).refused("show %s is not supported" % word)
    for word in ("reboot", "token", "fsdampeningfactor", "schedloglevel", "liststeps"):
        c.run("scontrol", word, "x").refused("%s is not supported" % word)
    c.run("scontrol", "ping", "x").refused("too many arguments for keyword:ping")
    c.run("scontrol", "errnumstr").refused("too few arguments for keyword:errnumstr")
    done = c.run("scontrol", "shutdown", user=USER)
    done.refused("slurm_shutdown error")
    check("controllers end" not in done.err, "a shutdown that was denied says %r", done.err)
    c.run("scancel", long, other).ok()


@test()
def test_words_of_sacctmgr(t):
    c = t.cluster(nodes=1)
    c.run("sacctmgr", "-i", "add", "account", "top").ok()
    c.run("sacctmgr", "-i", "add", "account", "below", "parent=top").ok()
    c.run("sacctmgr", "-i", "add", "user", USER, "account=below").ok()
    c.run("sacctmgr", "-r", "-i", "delete", "account", "top").refused("Can't run this command in readonly mode")
    job = int(c.run("sbatch", "--parsable", "-H", "--wrap", "true", user=USER).ok().out)
    done = c.run("sacctmgr", "-i", "delete", "account", "top")
    done.refused("Error with request: Job(s) active, cancel job(s) before remove")
    check("  JobID = %-10d C = " % job in done.err and "A = below" in done.err, "who is in the way: %s", done.err)
    c.run("scancel", job).ok()
    c.wait_ended(job)
    said = c.run("sacctmgr", "-i", "delete", "account", "top").ok().out
    check(" Deleting accounts...\n  top\n  below\n Deleting user associations...\n" in said and "U = " + USER in said, "what goes: %s", said)
    equal(c.run("sacctmgr", "-n", "-P", "show", "account", "format=account").ok().out, "root\n", "accounts that are left")
    typed = c.run("sacctmgr", "-i", stdin="add account one\nshow account one -n\nexit\nadd account two\n").ok().out
    check("  one\n" in typed, "the prompt: %s", typed)
    equal(c.run("sacctmgr", "-n", "-P", "show", "account", "format=account").ok().out, "one\nroot\n", "accounts that were typed")
    for word in ("federation", "wckey", "resource", "reservation", "jobs"):
        c.run("sacctmgr", "show", word).refused("is not supported")
    # An unknown id alone is an error, among several it is none, also where one is written twice.
    c.run("squeue", "-j", "4000000").refused("Invalid job id specified")
    equal(c.run("squeue", "-h", "-j", "4000000,4000000").ok().out, "", "an unknown id written twice")
    # Columns by the spellings in use, all of them, and their list.
    held = c.sbatch("-H", "-a", "0-2", "--comment=x", "--wrap", "true")
    equal(c.run("squeue", "-h", "-j", held, "-O", "admin_comment:8,JOB-ID:4,ARRAY_TASK_ID:.6").ok().out.split()[0], "(null)", "spellings")
    check(len(c.run("squeue", "-h", "-O", "ALL").ok().out.split()) > 50, "all columns of squeue")
    check("features_act".replace("_", "") in c.run("sinfo", "--helpformat").ok().out.lower(), "columns of sinfo")
    rows = c.run("sacct", "-n", "-X", "-P", "--array", "-j", held, "-o", "JobID").ok().out.split()
    equal(rows, ["%d_%d" % (held, task) for task in range(3)], "tasks of an array in sacct")
    equal(c.run("sacct", "-n", "-X", "-F", "SchedMain", "-j", held).ok().out, "", "jobs that started")
    check(c.run("sacct", "-n", "-X", "-R", "JobHeldUser", "-j", held).ok().out, "jobs that wait for their release")
    c.run("scancel", held).ok()


@test()
def test_words_of_history(t):
    c = t.cluster(nodes=1)
    held, free = c.sbatch("-H", "--wrap", "true"), c.sbatch("-n1", "-t5", "--wrap", "sleep 300")
    reservation = ["ReservationName=r", "StartTime=now+1day", "Duration=10", "Users=root", "Nodes=n1"]
    c.run("scontrol", "create", "reservation", *reservation).ok()
    c.run("scontrol", "create", "reservation", *reservation).refused("Duplicate reservation name")
    c.run("scontrol", "update", "nodename=n1", "comment=noted").ok()
    c.run("scancel", held).ok()
    c.wait_ended(held)
    # Both are in the log; the one that changed nothing says so.
    lines = [json.loads(line) for line in c.run("muster", "events", "--kind", "reservation_changed", "--json").ok().out.splitlines()]
    equal([line.get("refused", {}).get("text") for line in lines], [None, "Duplicate reservation name"], "what was refused")
    check("(refused: Duplicate reservation name)" in c.run("muster", "events").ok().out, "the refusal in a line of text")
    refused = lines[1]
    c.run("muster", "undo", "@%d.%d" % (refused["pos"], refused["part"]), "--apply").refused("was refused and changed nothing")
    # What was made up for once is not done again.
    acts = {}
    for line in c.run("muster", "events", "--user", "root", "--json").ok().out.splitlines():
        event = json.loads(line)
        acts.setdefault(event["kind"], "@%d.%d" % (event["pos"], event["part"]))
    for kind in ("node_update", "reservation_changed"):
        check("done: " in c.run("muster", "undo", acts[kind], "--apply").ok().out, "undo of " + kind)
        check("holds any more" in c.run("muster", "undo", acts[kind], "--apply").ok().out, "undo of %s again" % kind)
    check("submitted again" in c.run("muster", "undo", acts["job_signal"], "--apply").ok().out, "the cancelled job")
    done = c.run("muster", "undo", acts["job_signal"], "--apply")
    check("was submitted again since, as job" in done.out, "the cancelled job again: %s", done.out)
    # A job that was cancelled while it waited.
    said = c.run("muster", "why", held, "--what-would-help").ok().out
    check("It is over: " in said and "Nothing helps while it is held" in said, "what would have helped: %s", said)
    c.run("scancel", free).ok()
