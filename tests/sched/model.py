#!/usr/bin/env python3
"""A naive model of allocation, limits and fair-share, written from what a user is told and not from the core: lists, loops
and floating point. It follows the random workloads that model_feed tells, decides for itself who starts where, and must say
the same as the core: which jobs, in which order, which CPUs and GPUs of which nodes, whose factor, how much usage. The feed configures no preemption and suspends nobody: those are left to preempt.c.

    model.py FEED [FIRST_SEED [WORKLOADS]]     FEED is the program; default: as many as MUSTER_SIZE_MODEL_WORKLOADS says"""
import os
import subprocess
import sys

HALF_LIFE, MAX_AGE, CALC, ONE = 1800.0, 3600, 300, 1 << 32
WEIGHT_FAIR, WEIGHT_AGE = 10000, 1000


class Wrong(Exception):
    pass


class Node:
    def __init__(self, name, cpus, mem, gpus, weight):
        self.name, self.cpus, self.mem, self.gpus, self.weight = name, int(cpus), int(mem), int(gpus), int(weight)
        self.times, self.devices, self.used = [0] * self.cpus, set(), 0  # times: how many jobs have each CPU.

    def tasks(self, job, most):
        if job.mem > self.mem - self.used or job.gpus > self.gpus - len(self.devices):
            return 0
        return sum(n < most for n in self.times)

    def take(self, job, tasks):
        cpus = sorted(sorted(range(self.cpus), key=lambda c: self.times[c])[:tasks])  # Those that the fewest have.
        devices = [d for d in range(self.gpus) if d not in self.devices][:job.gpus]
        for c in cpus:
            self.times[c] += 1
        self.devices.update(devices)
        self.used += job.mem
        return self, cpus, devices

    def give(self, job, cpus, devices):
        for c in cpus:
            self.times[c] -= 1
        self.devices.difference_update(devices)
        self.used -= job.mem


class Group:
    """An account or one user's place in it."""

    def __init__(self, name, parent, shares, jobs, cpus=-1, gpus=-1, user=None):
        self.name, self.parent, self.shares, self.user = name, parent, int(shares), user
        self.cap = {"jobs": int(jobs), "cpus": int(cpus), "gpus": int(gpus)}
        self.children, self.usage, self.since, self.fair = [], 0.0, None, 0
        self.held = {"jobs": 0, "cpus": 0, "gpus": 0}
        if parent:
            parent.children.append(self)

    def used(self, now):
        """What ran long ago counts less: half as much after each half-life. What runs adds one CPU second a second."""
        if self.since is None:
            return 0.0
        span = now - self.since
        left = 0.5 ** (span / HALF_LIFE)
        return self.usage * left + self.held["cpus"] * HALF_LIFE / 0.6931471805599453 * (1 - left)

    def hold(self, now, job, sign):
        self.usage, self.since = self.used(now), now
        self.held["jobs"] += sign
        self.held["cpus"] += sign * job.cpus
        self.held["gpus"] += sign * job.gpus * len(job.got if sign > 0 or job.got else ())

    def up(self):
        group = self
        while group:
            yield group
            group = group.parent


class Job:
    def __init__(self, number, user, account, cpus, mem, gpus):
        self.id, self.user, self.account = number, user, account
        self.cpus, self.mem, self.gpus = cpus, mem, gpus
        self.priority, self.submitted, self.got = 0, 0, []


class Cluster:
    def __init__(self):
        self.nodes, self.jobs, self.waiting, self.running = [], {}, [], []
        self.root = Group("root", None, 1, -1)
        self.groups = {("root", "root"): Group("root", self.root, 1, -1, user="root")}  # Every cluster has that one.
        self.renewed, self.told, self.unsure = 0, {}, False
        self.of_user, self.share = {}, 1
        self.compared = {"starts": 0, "factors": 0, "ties": 0}

    # ---- who goes first ----

    def number(self, job, now):
        age = min(ONE, max(0, now - job.submitted) * ONE // MAX_AGE)
        parts = [(weight * factor + (ONE >> 1)) >> 32 for weight, factor in ((WEIGHT_AGE, age), (WEIGHT_FAIR, job.group.fair))]
        return max(1, sum(parts))

    def level(self, group, siblings, now):
        used = group.used(now)
        if used < 1e-3:
            return float("inf")
        return group.shares / sum(s.shares for s in siblings) / (used / sum(s.used(now) for s in siblings))

    def rank(self, members, now, total, seen):
        """Members of one level with their levels; those whose levels are the same are taken together."""
        members.sort(key=lambda m: -m[0])
        for a, b in zip(members, members[1:]):
            if b[0] != float("inf") and abs(a[0] - b[0]) < 1e-4 * max(1, b[0]):
                self.unsure = True  # Rounding decides which is first, or whether they are equal.
        while members:
            same = [g for level, g in members if level == members[0][0]]
            members = members[len(same):]
            rank, below = total - seen, []
            for g in same:
                if g.user:
                    g.fair = rank * ONE // total
                    seen += 1
                below += [(self.level(c, g.children, now), c) for c in g.children]
            if below:
                seen = self.rank(below, now, total, seen)
        return seen

    def order(self, now):
        self.unsure = False
        self.rank([(float("inf"), self.root)], now, sum(g.user is not None for g in self.groups.values()), 0)

    def tick(self, now):
        if self.waiting and now >= self.renewed + CALC:
            self.renewed = now
            self.order(now)
            self.fresh = True
        else:
            self.fresh = False

    def after_tick(self, now):
        for key, (fair, usage) in self.told.items():
            group = self.groups[key]
            if abs(group.used(now) - usage) > 2 + 1e-4 * usage:
                raise Wrong("usage of %s/%s is %.1f here, %d there" % (*key, group.used(now), usage))
            if self.fresh and group.user and group.fair != fair:
                if not self.unsure:
                    raise Wrong("factor of %s/%s is %d here, %d there" % (*key, group.fair, fair))
                self.compared["ties"] += 1
                group.fair = fair
            self.compared["factors"] += 1
        if self.fresh:
            for job in self.waiting:
                job.priority = self.number(job, now)
        self.told = {}

    # ---- who may, and where ----

    def allowed(self, job, gpus):
        for group in job.group.up():
            cap = group.cap
            if group.user and cap["jobs"] >= 0 and group.held["jobs"] >= cap["jobs"]:
                return False
            if not group.user and ((cap["jobs"] >= 0 and group.held["jobs"] >= cap["jobs"]) or
                                   (cap["cpus"] >= 0 and group.held["cpus"] + job.cpus > cap["cpus"]) or
                                   (cap["gpus"] >= 0 and gpus and group.held["gpus"] + gpus > cap["gpus"])):
                return False
        mine = [r for r in self.running if r.user == job.user]
        jobs, cpus, most = self.qos
        return not ((jobs >= 0 and len(mine) >= jobs) or (cpus >= 0 and sum(r.cpus for r in mine) + job.cpus > cpus) or
                    (most >= 0 and gpus and sum(r.gpus * len(r.got) for r in self.running) + gpus > most))

    def places(self, job):
        """On CPUs that nobody has, else on those that the fewest have."""
        return next(filter(None, (self.places_beside(job, most) for most in range(1, self.share + 1))), [])

    def places_beside(self, job, most):
        """The first node that takes it whole, else as many of the first ones as it needs. Light nodes come first."""
        nodes = sorted(self.nodes, key=lambda n: n.weight)  # Stable: then as configured.
        for node in nodes:
            if node.tasks(job, most) >= job.cpus:
                return [(node, job.cpus)]
        found = []
        for node in nodes:
            if node.tasks(job, most):
                found.append((node, node.tasks(job, most)))
            if sum(tasks for _, tasks in found) >= job.cpus:
                break
        else:
            return []
        left, dealt = job.cpus, []
        for i, (node, tasks) in enumerate(found):
            tasks = min(tasks, left - (len(found) - 1 - i))
            dealt.append((node, tasks))
            left -= tasks
        return dealt

    def decide(self, now):
        """Until nobody starts any more: where others have taken the first nodes, a job may come to need fewer of them."""
        started = more = self.walk(now)
        while more:
            more = self.walk(now)
            started += more
        return started

    def walk(self, now):
        started = []
        for job in sorted(self.waiting, key=lambda j: (-j.priority, j.id)):
            if not self.allowed(job, job.gpus):
                continue
            places = self.places(job)
            if not places:
                break  # It waits for nodes, and those behind wait for it.
            if not self.allowed(job, job.gpus * len(places)):
                continue
            job.got = [node.take(job, tasks) for node, tasks in places]
            for group in job.group.up():
                group.hold(now, job, 1)
            self.waiting.remove(job)
            self.running.append(job)
            started.append(job)
        return started

    def end(self, now, job):
        for group in job.group.up():
            group.hold(now, job, -1)
        for node, cpus, devices in job.got:
            node.give(job, cpus, devices)
        self.running.remove(job)


def numbers(text):
    ret = []
    for piece in text.split(",") if text != "-" else ():
        low, _, high = piece.partition("-")
        ret += range(int(low), int(high or low) + 1)
    return ret


class Follower:
    """Takes the words of the feed and holds the model against them."""

    def __init__(self):
        self.c, self.expected, self.now, self.after = Cluster(), [], 0, None

    def settle(self):
        if self.after == "tick":
            self.c.after_tick(self.now)
        if self.expected:
            raise Wrong("job %d starts here and not there" % self.expected[0].id)
        self.after = None

    def start(self, words):
        job = self.expected.pop(0) if self.expected else None
        places = [words[i:i + 3] for i in range(1, len(words), 3)]
        seen = sorted((name, numbers(cpus), numbers(gpus)) for name, cpus, gpus in places)
        if not job or job.id != int(words[0]):
            raise Wrong("job %s starts there, %s here" % (words[0], job.id if job else "none"))
        want = sorted((node.name, cpus, devices) for node, cpus, devices in job.got)
        if seen != want:
            raise Wrong("job %d gets %s there, %s here" % (job.id, seen, want))
        self.c.compared["starts"] += 1

    def take(self, word, words):
        c = self.c
        if word not in ("fair", "start"):
            self.settle()
        if word in ("submit", "end", "tick", "decide"):
            if not self.now:
                c.order(0)  # Nobody has used anything yet.
            self.now = int(words[0])
        if word == "node":
            c.nodes.append(Node(*words))
        elif word == "share":
            c.share = int(words[0])
        elif word == "qos":
            c.qos = [int(w) for w in words]
        elif word == "account":
            parent = c.root if words[1] == "-" else c.groups[words[1], "-"]
            c.groups[words[0], "-"] = Group(words[0], parent, *words[2:])
        elif word == "user":
            c.groups[words[1], words[0]] = Group(words[1], c.groups[words[1], "-"], words[2], words[3], user=words[0])
        elif word == "submit":
            job = c.jobs[int(words[1])] = Job(int(words[1]), words[2], words[3], *(int(w) for w in words[4:]))
            job.group, job.submitted = c.groups[job.account, job.user], self.now
            job.priority = c.number(job, self.now)
            c.waiting.append(job)
        elif word == "end":
            c.end(self.now, c.jobs[int(words[1])])
        elif word == "tick":
            c.tick(self.now)
            self.after = "tick"
        elif word == "fair":
            c.told[words[0], words[1]] = (int(words[2]), int(words[3]))
        elif word == "decide":
            self.expected = c.decide(self.now)
        elif word == "start":
            self.start(words)


def main():
    first = sys.argv[2] if len(sys.argv) > 2 else "1"
    count = sys.argv[3] if len(sys.argv) > 3 else os.environ.get("MUSTER_SIZE_MODEL_WORKLOADS", "300")
    feed = subprocess.Popen([sys.argv[1], first, count], stdout=subprocess.PIPE, text=True)
    follower, seed, done, total = None, None, 0, {}
    for line in feed.stdout:
        word, *words = line.split()
        if word == "workload":
            follower, seed = Follower(), words[0]
            continue
        try:
            if word == ".":
                follower.settle()
                done += 1
                for key, value in follower.c.compared.items():
                    total[key] = total.get(key, 0) + value
            else:
                follower.take(word, words)
        except Wrong as wrong:
            feed.kill()
            sys.exit("seed %s at \"%s\": %s" % (seed, line.strip(), wrong))
    if feed.wait() or done != int(count):
        sys.exit("the feed ended after %d workloads" % done)
    if total["ties"] * 20 > total["factors"] or not total["starts"]:
        sys.exit("too little was compared: %s" % total)
    print("%d workloads: %d starts, %d factors and usages the same; %d left to rounding" % (
        done, total["starts"], total["factors"] - total["ties"], total["ties"]))


if __name__ == "__main__":
    main()
