"""Accounts, users, associations and QOS by the commands alone: lines, errors, limits at work, shares that add up, dump and load."""
import os
import re

from harness import USER, check, equal, test, wait_until

SETTINGS = {"AccountingStorageEnforce": "associations,limits,qos", "PriorityType": "priority/multifactor",
            "PriorityWeightFairshare": "10000", "PriorityWeightAge": "1000", "PriorityWeightQOS": "2000", "KillWait": "2"}
NAME = "nobody"  # the name of harness.USER

# Words after sacctmgr, exit code, all of stdout (None: anything; C stands for the cluster's name), a piece of stderr.
LINES = [
    (["-i", "add", "account", "bio", "Fairshare=3"], 0,
     " Adding Account(s)\n  bio\n Settings\n  Description     = Account Name\n  Organization    = Parent/Account Name\n"
     " Associations\n  A = bio        C = C\n", ""),
    (["-i", "add", "account", "bio"], 1, " Nothing new added.\n", ""),
    (["-i", "create", "acc", "lab", "parent=bio", "GrpTRES=cpu=2", "MaxSubmitJobs=3"], 0, None, ""),
    (["-i", "add", "account", "x", "parent=nowhere"], 1, "", "Parent account 'nowhere' doesn't exist."),
    (["-i", "add", "user", NAME, "account=lab"], 0,
     " Adding User(s)\n  %s\n Associations =\n  U = %-9s A = lab        C = C\n Settings =\n  Default Account = lab\n" % (NAME, NAME), ""),
    (["-i", "add", "user", NAME, "account=lab"], 1, " Nothing new added.\n", ""),
    (["-i", "add", "user", "eve", "account=nowhere"], 1, "", "This account 'nowhere' doesn't exist."),
    (["-i", "add", "qos", "high", "priority=100", "MaxJobsPerUser=1"], 0,
     " Adding QOS(s)\n  high\n Settings\n  Description    = QOS Name\n", ""),
    (["-i", "modify", "account", "where", "name=bio", "set", "qos=normal,high"], 0, None, ""),
    (["-i", "modify", "account", "bio", "set", "qos=nosuch"], 1, None, "You gave a bad qos 'nosuch'"),
    (["-i", "modify", "qos", "high", "set", "flags=DenyOnLimit"], 0, " Modified qos...\n  high\n", ""),
    (["-i", "modify", "account", "nosuch", "set", "MaxJobs=1"], 1, "  Nothing modified\n", ""),
    (["-i", "delete", "user", "nosuch"], 0, " Nothing deleted\n", ""),
    (["-i", "delete", "qos", "normal"], 1, None, "Access/permission denied"),
    (["-n", "-P", "show", "assoc", "format=account,user,share,grptres,maxsubmit,lft,rgt"], 0,
     "root||1|||1|10\nroot|root|1|||2|3\nbio||3|||4|9\nlab||1|cpu=2|3|5|8\nlab|%s|1|||6|7\n" % NAME, ""),
    (["-P", "list", "qos", "format=name,priority,maxjobspu,flags"], 0,
     "Name|Priority|MaxJobsPU|Flags\nnormal|0||\nhigh|100|1|DenyOnLimit\n", ""),
    (["show", "account"], 0, None, ""),
    (["show", "user", "format=nosuch"], 1, "", "Unknown field 'nosuch'"),
    (["show", "nosuch"], 1, "", "No valid entity in list command"),
    (["version"], 0, None, ""),
]


@test(build="plain")
def test_accounts_lines(t):
    c = t.cluster(controllers=1, nodes=2, settings=SETTINGS)
    cluster = c.run("sacctmgr", "-n", "-P", "show", "cluster", "format=cluster").ok().out.strip()
    for words, code, out, err in LINES:
        done = c.run("sacctmgr", *words)
        equal(done.code, code, "exit code of sacctmgr %s: %s%s" % (" ".join(words), done.out, done.err))
        if out is not None:
            said = re.sub(r"C = %s *" % cluster[:10], "C = C", done.out)
            equal(said, out, "what sacctmgr %s prints" % " ".join(words))
        check(err in done.err, "sacctmgr %s: %r is not in %r", " ".join(words), err, done.err)
    head = c.run("sacctmgr", "show", "account").ok().out.splitlines()[0]
    equal(head, "   Account                Descr                  Org ", "the heading of accounts")
    head = c.run("sacctmgr", "show", "user").ok().out.splitlines()[0]
    equal(head, "      User   Def Acct     Admin ", "the heading of users")
    # An ordinary user changes nothing; nobody who does not answer changes anything.
    done = c.run("sacctmgr", "-i", "add", "account", "mine", user=USER)
    equal(done.code, 1, "an ordinary user's exit code")
    check(" Problem adding accounts: Access/permission denied" in done.err, "he is told %r", done.err)
    done = c.run("sacctmgr", "add", "account", "unsure", stdin="n\n").ok()
    check(done.out.endswith("Would you like to commit changes? (You have 30 seconds to decide)\n(N/y):  Changes Discarded\n"),
          "the question reads %r", done.out)
    check("unsure" not in c.run("sacctmgr", "show", "account").ok().out, "the account is there although nobody agreed")
    # What was changed, and by whom.
    rows = c.run("sacctmgr", "-n", "-P", "show", "transaction", "format=action,actor,where").ok().out.splitlines()
    equal(rows[0], "Add Accounts|root|bio", "the first transaction")


@test(build="plain")
def test_accounts_limits(t):
    """Limits at work, on a cluster set up by commands; shares and priorities add up; a dump loads into the same."""
    c = t.cluster(controllers=1, nodes=2, settings=SETTINGS)
    for words in (["add", "qos", "high", "priority=100", "MaxJobsPerUser=1"], ["add", "account", "bio", "QOS=normal,high"],
                  ["add", "account", "lab", "parent=bio", "GrpTRES=cpu=2", "MaxSubmitJobs=4"],
                  ["add", "user", NAME, "account=lab"]):
        c.run("sacctmgr", "-i", *words).ok()
    done = c.run("sbatch", "-A", "bio", "--wrap", "true", user=USER)
    check("Invalid account or account/partition combination specified" in done.err, "a foreign account gives %r", done.err)
    done = c.run("sbatch", "-q", "nosuch", "--wrap", "true", user=USER)
    check("Invalid qos specification" in done.err, "an unknown QOS gives %r", done.err)
    first = c.sbatch("-q", "high", "--wrap", "sleep 300", user=USER)
    second = c.sbatch("-q", "high", "--wrap", "true", user=USER)
    third = c.sbatch("--wrap", "sleep 300", user=USER)
    fourth = c.sbatch("--wrap", "true", user=USER)
    done = c.run("sbatch", "--wrap", "true", user=USER)
    check("Job violates accounting/QOS policy" in done.err, "the fifth job gives %r", done.err)
    want = {str(second): "QOSMaxJobsPerUserLimit", str(fourth): "AssocGrpCpuLimit", str(first): "None", str(third): "None"}
    wait_until("the reasons that the limits give", 20,
               lambda: dict(line.split() for line in c.run("squeue", "-h", "-o", "%i %r").ok().out.splitlines()) == want)
    # The parts of a priority add up to it.
    for line in c.run("sprio", "-h", "-o", "%i %Y %S %A %B %F %J %P %Q %N").ok().out.splitlines():
        part = [int(word) for word in line.split()]
        equal(sum(part[2:9]) - part[9], part[1], "the parts of job %d" % part[0])
    rows = [line.split("|") for line in c.run("sshare", "-a", "-P", "-n", "-o", "Account,User,RawUsage,EffectvUsage").ok().out.splitlines()]
    usage = {(r[0].strip(), r[1]): int(r[2]) for r in rows}
    check(abs(usage["root", ""] - usage["bio", ""]) <= 1 and abs(usage["bio", ""] - usage["lab", NAME]) <= 2, "usage does not add up: %s", usage)
    equal(c.run("sprio", "-j", "9999").ok().out, "Unable to find jobs matching user/id(s) specified\n", "sprio of an unknown job")
    check("Job(s) active, cancel job(s) before remove" in c.run("sacctmgr", "-i", "delete", "account", "bio").err, "an account with jobs goes")
    dump = os.path.join(c.home, "dump.cfg")
    c.run("sacctmgr", "dump", "file=" + dump).ok()
    before = open(dump).read()
    c.run("scancel", first, second, third, fourth).ok()
    wait_until("the jobs are gone", 20, lambda: not c.run("squeue", "-h").ok().out)
    c.run("sacctmgr", "-i", "delete", "account", "bio").ok()
    c.run("sacctmgr", "-i", "delete", "user", NAME).ok()
    c.run("sacctmgr", "-i", "load", "file=" + dump).ok()
    c.run("sacctmgr", "dump", "file=" + dump).ok()
    equal(open(dump).read(), before, "the dump after a load")
    equal(c.run("sacctmgr", "-i", "load", "file=" + dump).ok().out, " Nothing new added.\n", "a second load of the same file")
    # What += adds to is what held there, though it came from the account above.
    c.run("sacctmgr", "-i", "add", "qos", "low").ok()
    c.run("sacctmgr", "-i", "modify", "user", "where", "name=" + NAME, "account=lab", "set", "qos+=low").ok()
    rows = c.run("sacctmgr", "-n", "-P", "show", "assoc", "where", "user=" + NAME, "format=account,qos").ok().out.split()
    equal(rows, ["lab|normal,high,low"], "the QOS of a user after +=")
    c.run("sacctmgr", "-i", "add", "coordinator", "account=bio", "name=" + NAME).ok()
    shown = c.run("sacctmgr", "-n", "-P", "show", "account", "bio", "withcoordinator").ok().out.strip()
    check(shown.endswith("|" + NAME), "an account with its coordinators is %r", shown)
