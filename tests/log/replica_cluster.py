#!/usr/bin/env python3
"""Replicas as real processes on real disks: kill -9 under load, replaced disks, membership, recovery, wrong keys, damage.

usage: replica_cluster.py NODE_PROGRAM [scenario ...]
MUSTER_TEST_SIZE (fast, ci, full) sets the number of kill rounds; SEED their choice."""
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

NODE = os.path.abspath(sys.argv[1])
ROUNDS = {"fast": 4, "ci": 15, "full": 200}[os.environ.get("MUSTER_TEST_SIZE", "fast")]
SEED = int(os.environ.get("SEED", "1"))
PATIENCE = 60  # seconds until something that must happen counts as missing; never a measure of speed


class Fail(Exception):
    pass


def free_port():
    s = socket.socket()
    s.bind(("127.0.0.1", 0))
    port = s.getsockname()[1]
    s.close()
    return port


def wait(what, check):
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        value = check()
        if value:
            return value
        time.sleep(0.02)
    raise Fail("this did not happen: " + what)


class Node:
    def __init__(self, cluster, name):
        self.cluster, self.name = cluster, name
        self.dir = os.path.join(cluster.dir, name)
        self.address = "127.0.0.1:%d" % free_port()
        self.proc = None
        self.acked = []
        self.lines = []
        self.may_end = False  # by a proven controller of a later generation
        os.mkdir(self.dir, 0o700)

    def start(self, key=None, founders=None, env=None):
        founders = self.cluster.founders if founders is None else founders
        self.lines = []
        self.proc = subprocess.Popen(
            [NODE, self.name, self.dir, self.address, key or self.cluster.key]
            + ["%s=%s" % (f.name, f.address) for f in founders],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1,
            env=dict(os.environ, **self.cluster.env, **(env or {})))
        threading.Thread(target=self.read, args=(self.proc,), daemon=True).start()
        return self

    def read(self, proc):
        for line in proc.stdout:
            if not line.endswith("\n"):
                break  # cut by the kill: a shorter number would be another value
            line = line.rstrip("\n")
            if line.startswith("ack "):
                self.acked.append(int(line.split()[1]))
            else:
                self.lines.append(line)
            if line.startswith(("broken", "fatal")) and not (self.may_end and line.startswith("fatal Generation ")):
                self.cluster.broken.append(self.name + ": " + line)

    def say(self, text):
        try:
            self.proc.stdin.write(text + "\n")
            self.proc.stdin.flush()
        except (BrokenPipeError, ValueError):
            pass

    def alive(self):
        return self.proc is not None and self.proc.poll() is None

    def kill(self):
        if self.alive():
            self.proc.kill()
            self.proc.wait()

    def has(self, start):
        return next((l for l in list(self.lines) if l.startswith(start)), None)

    def ask(self, command, answers):
        """Sends COMMAND and waits for a line that begins with one of ANSWERS."""
        at = len(self.lines)
        self.say(command)
        return wait("%s answers %s to \"%s\"" % (self.name, answers, command),
                    lambda: next((l for l in self.lines[at:] if l.startswith(answers)), None))

    def status(self):
        w = self.ask("status", ("status",)).split()
        s = dict(zip(w[1:w.index("members"):2], w[2:w.index("members"):2]))
        s["members"] = sorted(m.split(":") for m in w[w.index("members") + 1:])
        return s

    def values(self):
        path = os.path.join(self.dir, "dump")
        self.ask("dump " + path, ("ok dump",))
        return [int(l) for l in open(path)]


class Cluster:
    def __init__(self, names, env=None):
        self.dir = tempfile.mkdtemp(prefix="muster-replica-")
        self.key, self.env, self.broken = "right key", env or {}, []
        self.nodes = [Node(self, n) for n in names]
        self.founders = list(self.nodes)

    def __enter__(self):
        for n in self.nodes:
            n.start()
        return self

    def __exit__(self, kind, value, trace):
        if kind:
            for n in self.nodes:
                print("--- %s (%s)" % (n.name, "alive" if n.alive() else "down"))
                print("\n".join(n.lines[-15:]))
        for n in self.nodes:
            n.kill()
        shutil.rmtree(self.dir, ignore_errors=True)

    def up(self):
        return [n for n in self.nodes if n.alive()]

    def leader(self, but=None):
        def find():
            for n in self.up():
                if n is not but and n.status()["role"] == "2":
                    return n
            return None
        return wait("a leader", find)

    def level(self, nodes=None):
        """All nodes at one position with one chain."""
        def same():
            s = [n.status() for n in (nodes or self.up())]
            return len({(x["pos"], x["chain"]) for x in s}) == 1 and s[0]["pos"]
        return int(wait("all replicas level", same))

    def check(self, nodes=None):
        """Every acknowledged value stands exactly once, everywhere the same."""
        nodes = nodes or self.up()
        for n in nodes:
            n.say("stop")
        time.sleep(0.2)
        self.level(nodes)
        lists = [n.values() for n in nodes]
        for l in lists[1:]:
            if l != lists[0]:
                raise Fail("two replicas hold different histories")
        if len(set(lists[0])) != len(lists[0]):
            raise Fail("a value stands twice")
        acked = [v for n in self.nodes for v in n.acked]
        missing = set(acked) - set(lists[0])
        if missing:
            raise Fail("%d of %d acknowledged values are lost: %s" % (len(missing), len(acked), sorted(missing)[:5]))
        if self.broken:
            raise Fail(self.broken[0])
        return len(acked)

    def put(self, count, node=None):
        node = node or self.leader()
        goal = len(node.acked) + count
        node.say("put %d" % count)
        wait("%d values acknowledged" % count, lambda: len(node.acked) >= goal)


def one_alone():
    with Cluster(["a"]) as c:
        c.put(500)
        c.nodes[0].kill()
        c.nodes[0].start()
        c.put(500)
        c.check()
        node = c.nodes[0]
        node.say("quit")
        wait("a clean end", lambda: not node.alive())
        if node.proc.returncode:
            raise Fail("a clean end with code %d" % node.proc.returncode)
        node.start()
        c.leader()
        if c.check() < 1000:
            raise Fail("too few values")
        second = subprocess.run([NODE, "a", node.dir, "127.0.0.1:%d" % free_port(), "right key"],
                                capture_output=True, text=True, stdin=subprocess.DEVNULL)
        if second.returncode != 1 or "in use" not in second.stdout:
            raise Fail("a second process on the same directory: " + second.stdout)


def kills():
    rng = random.Random(SEED)
    with Cluster(["a", "b", "c"], {"SNAPSHOT_ENTRIES": "1500", "TRAILING": "300"}) as c:
        c.leader()
        for n in c.nodes:
            n.say("load 32")
        for i in range(ROUNDS):
            time.sleep(rng.uniform(0.3, 1.2))
            if i % 5 == 4:
                victims = list(c.nodes)
            elif i % 3 == 2:
                victims = rng.sample(c.nodes, 2)
            else:
                victims = [rng.choice(c.nodes)]
            for v in victims:
                v.kill()
            time.sleep(rng.uniform(0, 0.8))
            for v in victims:
                v.start()
            # Progress after every round, by whoever leads now.
            before = sum(len(n.acked) for n in c.nodes)
            for v in victims:
                v.say("load 32")
            wait("progress after kill round %d of seed %d" % (i, SEED),
                 lambda: sum(len(n.acked) for n in c.nodes) > before + 50)
        print("kills: %d values acknowledged over %d rounds" % (c.check(), ROUNDS))


def replaced():
    """A follower comes back with an empty disk: it waits, is removed under its old id and added under its new one."""
    with Cluster(["a", "b", "c"], {"SNAPSHOT_ENTRIES": "400", "TRAILING": "50"}) as c:
        lead = c.leader()
        c.put(3000, lead)
        gone = next(n for n in c.nodes if n is not lead)
        old = gone.status()["id"]
        gone.kill()
        shutil.rmtree(gone.dir)
        os.mkdir(gone.dir, 0o700)
        gone.start()
        wait("the emptied controller waits", lambda: gone.has("says controller"))
        if gone.status()["id"] == old:
            raise Fail("an emptied disk has its old id")
        c.put(200, lead)
        answer = lead.ask("add %s %s" % (gone.address, gone.name), ("ok add", "no add"))
        if "ENOTREADY" not in answer:
            raise Fail("adding beside a dead voter: " + answer)
        if not lead.ask("remove " + old, ("ok remove", "no remove")).startswith("ok"):
            raise Fail("the old id cannot be removed")
        if not lead.ask("add %s %s" % (gone.address, gone.name), ("ok add", "no add")).startswith("ok"):
            raise Fail("the new disk cannot be added: " + str(lead.lines[-3:]))
        lead.say("load 16")
        if not lead.ask("promote " + gone.status()["id"], ("ok promote", "no promote")).startswith("ok"):
            raise Fail("the new disk cannot be promoted: " + str(lead.lines[-3:]))
        c.check()
        if gone.status()["installs"] == "0":
            raise Fail("the new disk caught up without an installation")
        # The new member counts: with another one down there is still a majority.
        other = next(n for n in c.nodes if n not in (lead, gone))
        other.kill()
        c.put(200)
        other.start()
        c.check()
        # The log of a member is gone, but not its identity.
        gone.kill()
        shutil.rmtree(os.path.join(gone.dir, "raft"))
        gone.start()
        wait("a lost log is refused", lambda: not gone.alive())
        if "an id belongs to a disk" not in " ".join(gone.lines):
            raise Fail("a lost log: " + str(gone.lines))


def membership():
    """From one to three and back, and leadership handed over."""
    with Cluster(["a"]) as c:
        c.put(300)
        a = c.nodes[0]
        for name in ("b", "c"):
            n = Node(c, name)
            c.nodes.append(n)
            n.start(founders=[])
            wait("%s is there" % name, lambda: n.has("started"))
            for command in ("add %s %s" % (n.address, name), None):
                command = command or "promote " + n.status()["id"]
                wait(command, lambda: c.leader().ask(command, ("ok", "no")).startswith("ok"))
            c.put(100)
        c.check()
        answer = a.ask("transfer " + c.nodes[1].status()["id"], ("ok transfer", "no transfer"))
        if not answer.startswith("ok"):
            raise Fail("transfer: " + answer)
        lead = c.leader()
        if lead is not c.nodes[1]:
            raise Fail("another controller leads after the transfer")
        c.put(100, lead)
        answer = lead.ask("remove " + lead.status()["id"], ("no remove", "ok remove"))
        if "ENOTLEADER" not in answer:
            raise Fail("the leader removed itself: " + answer)
        lead2 = c.leader(but=lead)
        # A leader refuses while a controller has not caught up yet; the operator asks again.
        wait("the old leader is removed",
             lambda: lead2.ask("remove " + lead.status()["id"], ("ok remove", "no remove")).startswith("ok"))
        c.put(100, lead2)
        rest = [n for n in c.nodes if n is not lead]
        for echo in (0, 10, 1 << 20, 16 << 20):
            if not lead2.ask("ask %s %d" % (next(n for n in rest if n is not lead2).status()["id"], echo),
                             ("ok ask", "no ask")).startswith("ok"):
                raise Fail("a message of %d bytes: %s" % (echo, lead2.lines[-3:]))
        # A clean stop of the leader hands over before it ends.
        lead2.say("quit")
        wait("a clean end", lambda: not lead2.alive())
        lead2.start()
        c.leader()
        c.check(rest)


def recovery():
    with Cluster(["a", "b", "c"]) as c:
        c.put(500)
        c.level()
        for n in c.nodes:
            n.kill()
        a, b, rest = c.nodes
        out = subprocess.run([NODE, "--recover", "a", a.dir, a.address], capture_output=True, text=True)
        if out.returncode:
            raise Fail("recover: " + out.stdout + out.stderr)
        a.start()
        c.put(200, c.leader())
        b.may_end = True
        b.start()
        wait("the old generation is shut out", lambda: b.has("fatal Generation 2 of this cluster"))
        time.sleep(1)
        if a.status()["role"] != "2" or len(a.status()["members"]) != 1:
            raise Fail("the recovered one does not lead alone")
        c.check([a])
        wait("the one that was shut out ends", lambda: not b.alive())
        b.start()
        wait("it does not start again", lambda: not b.alive())
        b.may_end = False
        shutil.rmtree(b.dir)
        os.mkdir(b.dir, 0o700)
        b.start()
        wait("b waits", lambda: b.has("says controller") or b.has("started"))
        answer = wait("b can be added", lambda: a.ask("add %s b" % b.address, ("ok", "no")).startswith("ok"))
        wait("b can vote", lambda: a.ask("promote " + b.status()["id"], ("ok", "no")).startswith("ok"))
        c.put(100)
        c.check([a, b])


def strangers():
    """A wrong key stays out; a damaged log refuses to start; rubbish at the port does not disturb."""
    with Cluster(["a", "b", "c"]) as c:
        c.put(300)
        lead = c.leader()
        odd = next(n for n in c.nodes if n is not lead)
        odd.kill()
        odd.start(key="wrong key")
        wait("the wrong key is refused", lambda: any("key" in l for n in c.nodes for l in n.lines))
        c.put(300, lead)
        if int(odd.status()["pos"]) > 300:
            raise Fail("a controller with a wrong key follows")
        host, port = lead.address.split(":")
        socks = []
        for i in range(100):
            s = socket.create_connection((host, int(port)))
            if i % 2:
                try:
                    s.sendall(os.urandom(1000))
                except OSError:
                    pass
            socks.append(s)
        c.put(300, lead)
        odd.kill()
        odd.start()
        c.check()
        for s in socks:
            s.close()
        c.put(100)
        c.check()
        # One flipped bit in a closed segment.
        odd.kill()
        raft = os.path.join(odd.dir, "raft")
        odd.start()
        c.level()
        odd.say("quit")
        wait("a clean end", lambda: not odd.alive())
        segment = max((f for f in os.listdir(raft) if f[0].isdigit() and os.path.getsize(os.path.join(raft, f)) > 2000),
                      key=lambda f: os.path.getsize(os.path.join(raft, f)))
        with open(os.path.join(raft, segment), "r+b") as f:
            f.seek(1000)
            byte = f.read(1)
            f.seek(1000)
            f.write(bytes([byte[0] ^ 4]))
        odd.start()
        wait("a damaged log refuses to start", lambda: not odd.alive())
        if "is damaged" not in " ".join(odd.lines):
            raise Fail("a damaged log: " + str(odd.lines))
        c.put(100)


def founding():
    """Founders that start late, one that dies in between, one whose file differs, and leases."""
    c = Cluster(["a", "b", "c"])
    try:
        a, b, d = c.nodes
        a.start()
        b.start()
        time.sleep(1)
        if a.status()["role"] == "2" or a.status()["members"]:
            raise Fail("founded without all founders")
        b.kill()
        d.start(founders=[a, d])
        wait("a differing file is told", lambda: any("agree" in l for n in (a, d) for l in n.lines))
        d.kill()
        shutil.rmtree(d.dir)
        os.mkdir(d.dir, 0o700)
        d.start()
        b.start()
        c.put(200)
        c.check()
        lead = c.leader()
        wait("a lease", lambda: lead.status()["lease"] == "1")
        rest = [n for n in c.nodes if n is not lead]
        for n in rest:
            n.proc.send_signal(signal.SIGSTOP)
        wait("the lease ends without a majority", lambda: lead.status()["lease"] == "0")
        for n in rest:
            n.proc.send_signal(signal.SIGCONT)
        c.put(200)
        c.check()
    except Fail:
        for n in c.nodes:
            print("--- %s\n%s" % (n.name, "\n".join(n.lines[-15:])))
        raise
    finally:
        c.__exit__(None, None, None)


ALL = [one_alone, kills, replaced, membership, recovery, strangers, founding]
wanted = sys.argv[2:]
for scenario in ALL:
    if wanted and scenario.__name__ not in wanted:
        continue
    began = time.monotonic()
    try:
        scenario()
    except Fail as e:
        print("%s: %s (SEED=%d)" % (scenario.__name__, e, SEED))
        sys.exit(1)
    print("%s: good, %.1f s" % (scenario.__name__, time.monotonic() - began))
