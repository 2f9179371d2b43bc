"""What no honest client sends: the cluster refuses it in a sentence, or drops it, and goes on."""
import os
import resource
import socket
import time

import wire
from harness import check, equal, local, size, test

# Words of sbatch; each must be refused before a job exists. Beside them the accepted neighbour stands in tests of the room.
LINES = [
    ["--nosuch"], ["-q", "nosuch"], ["-k5"], ["-t", "5m"], ["-t", "1:2:3:4"], ["-t", ""], ["-t", "abc"], ["-t", "99999999999999999999"], ["-n", "0"], ["-n", "-1"], ["-n", "x"],
    ["-n", "1.5"], ["-n", "99999999999"], ["-N", "0"], ["-N", "3-2"], ["-N", "x"], ["-N", "-1"], ["-N", "1-"], ["-c", "0"], ["-c", "-3"], ["-c", "two"],
    ["--mem", "x"], ["--mem", "-5"], ["--mem", "1Q"], ["--mem", "1G", "--mem-per-cpu", "1G"], ["--mem", "99999999999999999999G"],
    ["--mem-per-cpu", "x"], ["--mem", ""], ["-p", "nosuch"], ["-p", "debug,nosuch"], ["-p", ""], ["--gres", "nosuch:1"], ["--gres", "gpu:x"],
    ["--gres", "gpu:-1"], ["--gres", "gpu:99"], ["--gres", "gpu:nosuch:1"], ["--gres", "gpu:test:1:1:1"], ["-w", "nosuch"], ["-w", "n[1-"], ["-w", "n[2-1]"],
    ["-w", "n[1-99999999]"], ["-x", "n[["], ["-C", "nosuch"], ["-C", "a&"], ["-C", "[a"], ["--begin", "whenever"], ["--begin", "25:61"], ["--begin", "13/45"],
    ["--begin", "now+x"], ["--priority", "x"], ["--priority", "-1"], ["--priority", "99999999999999"], ["--export"], ["-J"], ["-D"], ["-o"],
    ["-J", "x" * 1500], ["-o", "x" * 5000], ["-D", "x" * 5000], ["--exclusive=nosuch"], ["--open-mode", "sideways"], ["--nice=x"], ["--nice=99999999999"],
    ["-d", "nosuch:1"], ["-d", "afterok:x"], ["-d", "afterok:999999"], ["-a", "5-3"], ["-a", "0-4:0"], ["-a", "x"], ["-a", "0-99999999"], ["--signal", "NOSUCH@1"],
    ["--signal", "R:"], ["--mail-type", "nosuch"], ["-n", "100000"], ["--mem", "9000G"], ["-c", "4096"], ["--tmp", "x"], ["--mincpus", "x"],
    ["--uid", "nosuchuser"], ["--deadline", "never"], ["--time-min", "x"], ["--ntasks-per-node", "0"], ["--ntasks-per-node", "x"], ["--gpus", "x"],
    ["--distribution", "nosuch"], ["--hint", "nosuch"], ["-M", "othercluster"], ["--reservation", "nosuch"], ["--wait-all-nodes", "7"],
    ["--switches", "x"], ["--licenses", "nosuch:1"], ["-L", "a:"], ["--cores-per-socket", "x"], ["--requeue=x"], ["-Hx"], ["--parsable=yes"],
    ["--comment"], ["-S", "x"], ["--thread-spec", "x"], ["--kill-on-invalid-dep", "maybe"],
]
SCRIPTS = [b"", b"  \n\n", b"echo hi\n", b"#!/bin/sh\r\necho hi\r\n", b"#!/bin/sh\necho \0 hi\n", b"\x7fELF\x02\x01\x01", b"#!/bin/sh\n#SBATCH --nosuch\ntrue\n",
           b"#!/bin/sh\n#SBATCH --job-name=Big sim\ntrue\n", b"#!/bin/sh\n#SBATCH --time=7   (limit)\ntrue\n", b"#!/bin/sh\n#SBATCH -n x\ntrue\n"]


@test(seconds=240)
def test_bad_lines(t):
    """Wrong command lines and scripts: refused with one clear sentence, no job made, no crash."""
    c = t.cluster(controllers=1, nodes=2)
    lines = LINES[:size("bad_lines")] if size("bad_lines") < len(LINES) else LINES
    problems = []
    for words in lines:
        done = c.run("sbatch", *words, "--wrap", "true", timeout=20)
        if done.code == 0:
            problems.append("accepted: %s" % words)
        elif done.code is None or done.code < 0 or "Sanitizer" in done.err:
            problems.append("crashed or hung (%s): %s" % (done.code, words))
        elif not done.err.startswith("sbatch: ") or len(done.err) > 600 + 5000:
            problems.append("no clear sentence: %s: %r" % (words, done.err[:200]))
    for text in SCRIPTS:
        path = os.path.join(c.home, "bad.sh")
        with open(path, "wb") as f:
            f.write(text)
        done = c.run("sbatch", path, timeout=20)
        if done.code == 0 or done.code is None or done.code < 0 or not done.err.startswith("sbatch: "):
            problems.append("script %r: exit code %s, %r" % (text, done.code, done.err[:200]))
    for words in (["sbatch", "no/such/file"], ["squeue", "-j", "x"], ["squeue", "-u", "nosuchuser"], ["squeue", "-t", "nosuch"], ["squeue", "-o", "%i", "-O", "JobID"],
                  ["squeue", "--at", "yesterday-ish"], ["squeue", "--at", "@99999999999"], ["scancel", "x"], ["scancel", "0"], ["scancel", "-s", "NOSUCH", "1"], ["scontrol", "foo"],
                  ["scontrol", "show", "job", "4242"], ["scontrol", "update", "nodename=nosuch", "state=resume"],
                  ["scontrol", "update", "jobid=4242", "priority=1"], ["scontrol", "hold", "4242"], ["sacct", "-o", "nosuch"], ["sacct", "-S", "x"],
                  ["sinfo", "--nosuch"], ["srun", "--nosuch", "true"], ["sacct", "-s", "nosuch"], ["scancel", ""], ["scancel", "-u", ""], ["scancel", "-n", ""],
                  ["scancel", "-p", ","], ["scontrol", "hold", ""], ["scontrol", "update", "nodename=n1"], ["scontrol", "update", "nodename=n1", "state="],
                  ["scontrol", "update", "partition=debug"], ["scontrol", "create", "partition=a,b"], ["scontrol", "create", "partition=a b"],
                  ["scontrol", "update", "nodename=n1", "state=drain", "reason=" + "x" * 5000], ["muster", "log", "dump", "5-3"], ["muster", "log", "dump", "-5"],
                  ["muster", "log", "dump", "99999999999999999999"], ["muster", "log", "tail", "-n", "x"], ["srun", "-K=x", "true"], ["srun", "-W", "x", "true"],
                  ["sdiag", "x"], ["sshare", "x"], ["muster", "controller", "add", "c9", "127.0.0.1:1"]):
        done = c.run(*words, timeout=20)
        if done.code in (0, None) or done.code < 0 or not (done.err + done.out).strip():
            problems.append("%s: exit code %s, %r" % (words, done.code, done.err[:200]))
    check(not problems, "%d of %d:\n    %s", len(problems), len(lines), "\n    ".join(problems))
    equal(c.states(), {}, "jobs made by wrong requests")
    job = c.sbatch("-o", "/dev/null", "--wrap", "true")
    equal(c.wait_ended(job)[job][:2], ("COMPLETED", "0:0"), "a right request afterwards")


CONFIGURATIONS = [
    # (edit of a good file, words that the sentence must have)
    (("ClusterName=", "ClusterNam="), ["ClusterNam", "ClusterName"]),
    (("DefMemPerCPU=256", "DefMemPerCPU=lots"), ["DefMemPerCPU", "lots"]),
    (("NodeName=n1", "NodeName=$(hostname)"), ["shell", "$(hostname)"]),
    (("Nodes=n1,n2", "Nodes=n1,n7"), ["n7"]),
    (("CPUs=4", "CPUs=four"), ["four"]),
    (("State=UP", "State=SIDEWAYS"), ["SIDEWAYS"]),
    (("Default=YES", "Default=PERHAPS"), ["PERHAPS"]),
    (("SlurmctldHost=c1(", "SlurmctldHost=c1["), ["SlurmctldHost"]),
    (("MaxTime=INFINITE", "MaxTime=5m"), ["5m"]),
    (("SelectType=select/cons_tres", "SelectType=select/nosuch"), ["select/nosuch"]),
]


@test()
def test_bad_configuration(t):
    """Wrong configuration files: one sentence with line, value and cure; the daemon does not start."""
    c = t.cluster(controllers=1, nodes=2, start=False)
    local.prepare(c.c)
    path = os.path.join(c.dir, "muster.conf")
    with open(path) as f:
        good = f.read()
    problems = []
    for (old, new), words in CONFIGURATIONS:
        check(old in good, "the configuration has no %r", old)
        bad = os.path.join(c.dir, "bad.conf")
        with open(bad, "w") as f:
            f.write(good.replace(old, new, 1))
        done = c.run("musterd", "-D", "-f", bad, "-n", "c1", timeout=10)
        if done.code in (None, 0) or done.code < 0 or not all(w in done.err for w in words):
            problems.append("%s: exit code %s, %r" % (new, done.code, done.err[-300:]))
    check("%s is right" % path in c.run("musterd", "-t", "-f", path, timeout=10).ok().out, "a check of the right file")
    done = c.run("musterd", "-t", "-f", os.path.join(c.dir, "nosuch.conf"), timeout=10)
    check(done.code == 1 and "nosuch.conf" in done.err, "a check of no file: %s %r", done.code, done.err)
    done = c.run("musterd", "-D", "-f", os.path.join(c.dir, "nosuch.conf"), "-n", "c1", timeout=10)
    if done.code in (None, 0) or "nosuch.conf" not in done.err:
        problems.append("no file: %s %r" % (done.code, done.err))
    done = c.run("musterd", "-D", "-f", path, "-n", "c9", timeout=10)
    if done.code in (None, 0) or "c9" not in done.err:
        problems.append("unknown controller: %s %r" % (done.code, done.err))
    os.chmod(os.path.join(c.dir, "keys", "cluster.secret"), 0o644)
    done = c.run("musterd", "-D", "-f", path, "-n", "c1", timeout=10)
    if done.code in (None, 0) or "cluster.secret" not in done.err:
        problems.append("secret that all can read: %s %r" % (done.code, done.err))
    os.chmod(os.path.join(c.dir, "keys", "cluster.secret"), 0o600)
    os.chown(os.path.join(c.dir, "state", "c1"), 65534, 65534)
    done = c.run("musterd", "-D", "-f", path, "-n", "c1", timeout=10)
    if done.code in (None, 0) or os.path.join(c.dir, "state", "c1") not in done.err:
        problems.append("state directory of another: %s %r" % (done.code, done.err))
    os.chown(os.path.join(c.dir, "state", "c1"), 0, 0)
    check(not problems, "%d problems:\n    %s", len(problems), "\n    ".join(problems))


def ports(c):
    """(what, address) of all that the cluster listens on."""
    found = []
    for name, x in c.c["controllers"].items():
        found += [(name + " clients", (x["addr"], x["port"])), (name + " peers", (x["addr"], x["peer"])), (name + " socket", c.socket(name))]
    for name, x in c.c["nodes"].items():
        found += [(name + " agent", (x["addr"], x["port"])), (name + " socket", os.path.join(c.c["run"], "agent.%s.sock" % name))]
    return found


def connect(address):
    try:
        return wire.Peer(address, 5)
    except OSError:
        return None


def alive(c, what):
    began = time.monotonic()
    job = c.sbatch("-o", "/dev/null", "--mem", "16", "--wrap", "true")
    equal(c.wait_ended(job)[job][:2], ("COMPLETED", "0:0"), "a job after " + what)
    return time.monotonic() - began


def pids(c):
    return {name: local.child_of(c.c, name) for name in local.daemons(c.c)}


def poke(t, c, address, shape):
    peer = connect(address)
    if not peer:
        return
    noise = t.draw.randbytes(t.draw.choice((1, 7, 8, 9, 64, 1000, 70000)))
    try:
        if shape == "noise":
            peer.socket.sendall(noise)
        elif shape == "http":
            peer.socket.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n")
        elif shape == "half greeting":
            peer.socket.sendall(b"\0SP")
        elif shape == "noise after greeting":
            peer.socket.sendall(b"\0SP\0\0\x30\0\0" + noise)
        elif shape == "noise in a frame":
            peer.socket.sendall(b"\0SP\0\0\x30\0\0" + peer.frame(noise))
        elif shape == "noise in an envelope":
            peer.socket.sendall(b"\0SP\0\0\x30\0\0" + peer.frame(b"\x80\0\0\1" + wire.envelope(noise)))
        elif shape == "huge":
            peer.socket.sendall(b"\0SP\0\0\x30\0\0" + (b"\1" if peer.unix else b"") + (size("huge_request_mib") << 20).to_bytes(8, "big"))
            for _ in range(min(size("huge_request_mib"), 64)):
                peer.socket.sendall(bytes(1 << 20))
        elif shape == "largest length":
            peer.socket.sendall(b"\0SP\0\0\x30\0\0" + (b"\1" if peer.unix else b"") + b"\xff" * 8 + noise)
        peer.socket.settimeout(0.2)
        peer.socket.recv(4096)
    except OSError:
        pass
    finally:
        peer.close()


SHAPES = ["noise", "http", "half greeting", "noise after greeting", "noise in a frame", "noise in an envelope", "huge", "largest length"]


def peak_mib(pid):
    with open("/proc/%d/status" % pid) as f:
        return next(int(line.split()[1]) for line in f if line.startswith("VmHWM")) >> 10


@test(build="plain", seconds=240)
def test_bad_bytes(t):
    """Random bytes, half greetings and a request of 1 GiB to everything that listens: nobody dies, nobody allocates it."""
    c = t.cluster(nodes=2)
    before, memory = pids(c), {n: peak_mib(p) for n, p in pids(c).items()}
    for what, address in ports(c):
        if isinstance(address, str):
            check(os.path.exists(address), "%s: no socket %s", what, address)
        for shape in SHAPES:
            for _ in range(2 if shape == "huge" else 5):
                poke(t, c, address, shape)
    equal(pids(c), before, "daemons after bad bytes")
    for name, pid in pids(c).items():
        grown = peak_mib(pid) - memory[name]
        check(grown < 128, "%s grew by %d MiB", name, grown)
    t.say("a job afterwards took %.2f s", alive(c, "bad bytes"))


@test(build="plain", seconds=240)
def test_idle_connections(t):
    """Thousands of connections that say nothing: controllers serve others meanwhile and get over it."""
    count = size("idle_connections")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, max(soft, count + 500)), hard))
    c = t.cluster(nodes=1)
    before = pids(c)
    target = c.leader()
    held = []
    for index in range(count):
        try:
            held.append(socket.create_connection((c.c["controllers"][target]["addr"], c.c["controllers"][target]["port"]), 5))
        except OSError as trouble:
            t.say("connection %d: %s", index, trouble)
            break
        if index % 3 == 0:
            try:
                held[-1].sendall(b"\0SP\0\0\x30\0\0")
            except OSError:
                pass
    t.say("%d idle connections; a job beside them took %.2f s", len(held), alive(c, "idle connections"))
    equal(pids(c), before, "daemons under idle connections")
    for s in held:
        s.close()
    t.say("after they closed a job took %.2f s", alive(c, "their end"))
    equal(pids(c), before, "daemons after idle connections")


@test(build="plain")
def test_strangers(t):
    """Without a credential nothing is answered over TCP; another user's socket request acts as that user."""
    c = t.cluster(controllers=1, nodes=1)
    where = (c.c["controllers"]["c1"]["addr"], c.c["controllers"]["c1"]["port"])
    for ask in (wire.ASK_PING, wire.ASK_DIGEST, 10, 12, 20):
        with wire.Peer(where) as peer:
            try:
                reply = wire.fields(peer.greet().ask(wire.envelope(wire.field(ask, b""))))
                code = wire.one(wire.fields(wire.one(reply, 2, b"")), 1)
            except (OSError, ConnectionError):
                continue
            check(code, "request %d without a credential is answered with success over TCP", ask)
    job = c.sbatch("-H", "--wrap", "true", user="daemon")
    c.run("scancel", job, user="nobody")
    c.run("scontrol", "release", job, user="nobody").refused()
    c.run("scontrol", "update", "nodename=n1", "state=drain", "reason=x", user="nobody").refused("Invalid user id")
    equal(c.states(job)[job][0], "PENDING", "another user's job")
    with wire.Peer(c.socket("c1")) as peer:
        peer.greet()
        equal(len(wire.fields(peer.ask(wire.envelope(wire.field(wire.ASK_PING, b""))))) > 0, True, "the socket's answer to ping")
