"""A generated site's history as an archive like any other: it replays and audits, reports are what an independent sum over its exported
events says, told again with nothing changed it is the same, and windows of days that are longer or shorter than others hold."""
import datetime
import json
import os
import signal
import subprocess
import zoneinfo

from harness import check, equal, test, wait_until

BEGIN, DAYS = 1759017600, 66  # 2025-09-28 UTC
SITE = """ClusterName=%(name)s
SlurmctldHost=sim(127.0.0.1:1)
SelectTypeParameters=CR_CPU
SlurmdTimeout=0
MusterKeyDir=%(dir)s/keys
MusterRunDir=%(dir)s/none
PriorityType=priority/multifactor
PriorityWeightFairshare=1000
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
NodeName=n[1-4] CPUs=16
PartitionName=all Nodes=ALL Default=YES MaxTime=UNLIMITED PriorityTier=1
PartitionName=urgent Nodes=n[1-2] MaxTime=1-0 PriorityTier=10 PreemptMode=OFF
"""
OWN = """ClusterName=own
SlurmctldHost=own(127.0.0.1:1)
MusterFollower=%(dir)s/f.sock
MusterFollow=%(dir)s/sim.conf
MusterFollowerDir=%(dir)s/store
SlurmctldLogFile=%(dir)s/f.log
MusterKeyDir=%(dir)s/keys
"""


def run(t, program, *words, zone="UTC"):
    return subprocess.run([os.path.join(os.environ["MUSTER_BUILD"], program)] + [str(w) for w in words], text=True, stdin=subprocess.DEVNULL,
                          env=dict(os.environ, SLURM_CONF=os.path.join(t.dir, "own.conf"), TZ=zone), stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=300)


def good(done):
    check(done.returncode == 0, "%s: %s", done.args, done.stderr)
    return done.stdout


def names(folded):
    """The nodes of a folded list such as n[1-3,5]."""
    if "[" not in folded:
        return folded.split(",")
    head, rest = folded.rstrip("]").split("[")
    pairs = [(part + "-" + part).split("-")[:2] for part in rest.split(",")]
    return [head + str(n) for a, b in pairs for n in range(int(a), int(b) + 1)]


class Events:
    """Who held what from when to when, out of the exported events alone: nothing here asks the State."""

    def __init__(self, lines):
        self.next, self.jobs, self.accounts, self.parents, self.running, self.spans, self.last = 1, {}, {}, {}, {}, [], 0
        for line in lines:
            e = json.loads(line)
            self.last = self.now = e["time_usec"] // 1000000
            check(e["time_usec"] % 1000000 == 0, "a moment between seconds: %s", e)
            seen = getattr(self, e["kind"], None)
            if seen:
                seen(e["event"][e["kind"]], e["event"])

    def accounts_changed(self, e, _):
        for change in e["change"]:
            if "user" in change:
                self.accounts[change["user"]["name"]] = change["user"]["default_account"]
            elif "assoc" in change and not change["assoc"].get("user"):
                self.parents[change["assoc"]["account"]] = change["assoc"].get("parent") or "root"

    def submitted(self, e, event):
        user, text = event["author"]["user"], e["spec"].get("array")
        self.jobs[self.next] = {"user": user, "account": self.accounts[user], "left": int(text.split("%")[0].split("-")[1]) + 1 if text else 1}
        self.next += 1

    def decided(self, e, _):
        for start in e.get("start", []):
            job, record = start["job"], self.jobs[start["job"]]
            if record["left"] > 1:  # a task leaves the others
                record["left"] -= 1
                job = self.next
                self.next += 1
                self.jobs[job] = dict(record, left=1)
            held = {node: part["cpus"] for part in start["alloc"] for node in names(part["node"])}
            self.running[job] = dict(self.jobs[job], job=job, partition=start["partition"], held=held, begin=self.now)

    def over(self, job):
        span = self.running.pop(job, None)
        if span:
            self.spans.append(dict(span, end=self.now))

    def attempt_ended(self, e, _):
        self.over(e["job"])

    def node_update(self, e, _):
        if e.get("state") == "DOWN":
            for job in [job for job, span in self.running.items() if set(span["held"]) & set(e["node"])]:
                self.over(job)

    def used(self, begin, end, key):
        """CPU seconds from BEGIN to END by what KEY says of a span and a node."""
        sums = {}
        for span in self.spans:
            seconds = min(span["end"], end) - max(span["begin"], begin)
            for node, cpus in span["held"].items() if seconds > 0 else ():
                name = key(span, node)
                sums[name] = sums.get(name, 0) + seconds * cpus
        return sums

    def above(self, account):
        """The account and all above it."""
        while account:
            yield account
            account = self.parents.get(account)


def windows():
    """All of it; then days that are 25, 23 and 23.5 hours long, the days beside them, a month's end, in their zones."""
    yield "UTC", "2025-09-01", "2026-01-01"
    for zone, days in (("America/New_York", ("2025-11-01", "2025-11-02", "2025-11-03")), ("Europe/Berlin", ("2025-10-25", "2025-10-26", "2025-10-27")),
                       ("Australia/Lord_Howe", ("2025-10-04", "2025-10-05", "2025-10-06"))):
        for day in days:
            yield zone, day, (datetime.date.fromisoformat(day) + datetime.timedelta(1)).isoformat()
        yield zone, "2025-10-20", "2025-11-01"


def second(day, zone):
    return int(datetime.datetime.fromisoformat(day).replace(tzinfo=zoneinfo.ZoneInfo(zone)).timestamp())


def reports(t, name, events):
    """Every grouping, in every window."""
    lengths = set()
    for zone, first, last in windows():
        begin, end = second(first, zone), second(last, zone)
        lengths.add((end - begin) / 3600)

        def table(*words):
            done = good(run(t, "cli/muster", "sreport", "-M", name, "-n", "-P", "-t", "Seconds", *words, "start=" + first, "end=" + last, zone=zone))
            return [line.split("|") for line in done.splitlines()]
        for words, column, key in ((["cluster", "UserUtilizationByAccount"], "login", lambda s, n: s["user"]), (["cluster", "UtilizationByPartition"], "partition", lambda s, n: s["partition"]),
                                   (["cluster", "UtilizationByNode"], "nodename", lambda s, n: n), (["user", "top", "topcount=1000"], "login", lambda s, n: s["user"])):
            said = {key: int(used) for key, used in table(*words, "format=%s,used" % column) if int(used)}
            equal(said, events.used(begin, end, key), "sreport %s in %s from %s to %s" % (" ".join(words), zone, first, last))
        tree = {}
        for account, used in events.used(begin, end, lambda s, n: s["account"]).items():
            for each in events.above(account):
                tree[each] = tree.get(each, 0) + used
        said = {account: int(used) for account, login, used in table("cluster", "AccountUtilizationByUser", "format=accounts,login,used") if not login and int(used)}
        equal(said, tree, "the accounts' use in %s from %s to %s" % (zone, first, last))
        whole = [int(n) for n in table("cluster", "utilization", "format=allocated,down,idle,planned,reported")[0]]
        equal(whole[0], sum(events.used(begin, end, lambda s, n: n).values()), "the allocated part in %s from %s" % (zone, first))
        equal(sum(whole[:4]), whole[4], "the parts of the whole")
    check({25, 23.5} <= lengths, "no day is longer or shorter: %s", lengths)


def accounts(t, name, events):
    """sacct -S -E of a state, and how long it says that attempts took."""
    for zone, first, last in windows():
        begin, end = second(first, zone), second(last, zone)
        said = good(run(t, "cli/muster", "sacct", "-M", name, "-a", "-X", "-D", "-n", "-P", "-s", "RUNNING", "-S", first, "-E", last, "-o", "JobIDRaw", zone=zone)).split()
        want = {span["job"] for span in events.spans if span["begin"] < end and span["end"] > begin}
        lone = {span["job"] for span in events.spans if span["begin"] == end or span["end"] == begin}
        equal(set(map(int, said)) - lone, want - lone, "who ran in %s from %s to %s" % (zone, first, last))
    said = good(run(t, "cli/muster", "sacct", "-M", name, "-a", "-X", "-D", "-n", "-P", "-S", "2025-09-01", "-o", "JobIDRaw,ElapsedRaw,CPUTimeRAW,Partition,Start,End"))
    rows = sorted(tuple(line.split("|")) for line in said.splitlines() if line.split("|")[4] not in ("Unknown", "None"))
    form = lambda at: datetime.datetime.fromtimestamp(at, datetime.timezone.utc).strftime("%Y-%m-%dT%H:%M:%S")
    want = sorted((str(s["job"]), str(s["end"] - s["begin"]), str((s["end"] - s["begin"]) * sum(s["held"].values())), s["partition"], form(s["begin"]), form(s["end"]))
                  for s in events.spans)
    equal(rows, want, "the attempts")


@test(build="plain")
def test_year(t):
    archive, name = os.path.join(t.dir, "arc"), "sim-%d" % os.getpid()
    for path in ("store", "keys"):
        os.makedirs(os.path.join(t.dir, path), 0o700)
    for path, text in (("sim.conf", SITE), ("own.conf", OWN)):
        with open(os.path.join(t.dir, path), "w") as f:
            f.write(text % {"dir": t.dir, "name": name})
    history = "log/ctld/muster-history"
    words = ["--users", 20, "--year", "--load", 1, "--begin", BEGIN, "--seed", t.seed, "--conf", os.path.join(t.dir, "sim.conf"), "--into", archive]
    good(run(t, history, "sim", "--generate", 300, *words))
    for verb in (["replay"], ["log", "verify"], ["audit", "replay"]):
        good(run(t, history, *verb, archive))
    check(run(t, history, "sim", "--generate", 1, *words).returncode == 1, "an archive is written over")
    same = json.loads(good(run(t, history, "whatif", archive, "--from", "@1", "--json")))
    equal((same["real"], same["different"], same["moved"], same["own_slices"]), (same["what_if"], 0, 0, 0), "the history told again with nothing changed")
    check(same["equal"] == same["slices"] > 0, "of %d decisions %d came out the same", same["slices"], same["equal"])
    events = Events(good(run(t, history, "log", "dump", "--json", archive)).splitlines())
    check(len(events.spans) > 250 and not events.running, "%d attempts, %d without an end", len(events.spans), len(events.running))
    os.rename(os.path.join(archive, "view"), os.path.join(t.dir, "store", name))
    child = subprocess.Popen([os.path.join(os.environ["MUSTER_BUILD"], "log/ctld/musterd"), "--follower", "-D", "-f", os.path.join(t.dir, "own.conf")],
                             stdin=subprocess.DEVNULL)
    try:
        wait_until("the follower", 60, lambda: run(t, "cli/muster", "sinfo", "-M", name).returncode == 0)
        reports(t, name, events)
        accounts(t, name, events)
    finally:
        child.send_signal(signal.SIGTERM)
        equal(child.wait(60), 0, "the follower's exit code")
