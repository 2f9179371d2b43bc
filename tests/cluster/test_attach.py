"""sattach: more terminals of a step that runs. They come and go without the step's noticing."""
import os
import select
import signal
import subprocess
import threading

from harness import USER, check, equal, local, test, wait_until

# Says a line for each line that it reads, and ends on "end".
ECHO = 'echo begun; while read line; do echo "$SLURM_PROCID got $line"; [ "$line" = end ] && exit $((3 + SLURM_PROCID)); done; exit 9'


class Client:
    """A command with its three streams in our hands."""

    def __init__(self, c, *words):
        self.p = subprocess.Popen([str(w) for w in words], env=local.environment(c.c), cwd=c.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, bufsize=1)

    def say(self, line):
        self.p.stdin.write(line + "\n")
        self.p.stdin.flush()

    def lines(self, count):
        return sorted(self.p.stdout.readline().rstrip("\n") for _ in range(count))

    def end(self):
        rest = self.p.communicate(timeout=60)
        return self.p.returncode, rest[0], rest[1]


def joined(c, client, step, word):
    """What is said before a sattach is there is not for it: WORD is repeated until it comes."""
    def heard():
        step.say(word)
        step.lines(1)
        return os.read(client.p.stdout.fileno(), 1 << 16) if select_ready(client) else b""
    wait_until("sattach to be joined", 60, heard)


def select_ready(client):
    return bool(select.select([client.p.stdout], [], [], 0.2)[0])


@test()
def test_attach(t):
    """Several join a step on one node; input from each; leaving and being killed changes nothing; the end comes to all."""
    c = t.cluster(controllers=1, nodes=1, cpus=4)
    step = Client(c, "srun", "-n1", "sh", "-c", "echo $SLURM_JOB_ID; " + ECHO)
    job = int(step.p.stdout.readline())
    equal(step.lines(1), ["begun"], "the step")
    name = "%d.0" % job
    layout = c.run("sattach", "--layout", name).ok()
    equal(layout.out, "Job step layout:\n  1 tasks, 1 nodes (n1)\n\n  Node 0 (n1), 1 task(s): 0 \n", "its layout")
    first, second = Client(c, "sattach", name), Client(c, "sattach", "-l", name)
    joined(c, first, step, "a")
    joined(c, second, step, "b")
    first.say("from the first")
    equal(step.lines(1), ["0 got from the first"], "srun hears what a sattach typed")
    line = ""
    while "from the first" not in line:
        line = second.p.stdout.readline()
    equal(line, "0: 0 got from the first\n", "the other sattach, with labels")
    first.p.send_signal(signal.SIGKILL)
    first.p.wait(30)
    third = Client(c, "sattach", "--output-filter=none", name)
    third.p.stdin.close()
    third.p.stdin = None
    fourth = Client(c, "sattach", name)
    fourth.p.send_signal(signal.SIGINT)
    fourth.p.wait(30)
    step.say("still here")
    equal(step.lines(1), ["0 got still here"], "the step after a sattach was killed and others left")
    joined(c, second, step, "c")
    for words, cause in ((("%d.7" % job,), "does not run"), (("--pty", name), "was not started with --pty"), ((str(job),), "Invalid job step id"), (("%d.batch" % job,), "Could not get job step info: Invalid job id specified"),
                         (("--pty", "--input-filter=0", name), "exclude each other"), (("--output-filter=x", name), "is no task number")):
        c.run("sattach", *words).refused(cause)
    refused = c.run("sattach", name, user=USER)
    check(refused.code and refused.code > 0 and "denied" in refused.err, "another user's sattach: %s %r", refused.code, refused.err)
    second.say("end")
    equal(step.lines(1), ["0 got end"], "srun's last line")  # before its input ends: the word came from elsewhere
    equal(step.end()[0], 3, "srun's exit code")
    code, out, err = second.end()
    equal((code, out.splitlines()[-1]), (3, "0: 0 got end"), "sattach's exit code and last line")
    check("n1: task 0: Exited with exit code 3" in err, "sattach tells of failures: %r", err)
    third.p.wait(60)
    equal(third.p.stdout.read(), "", "a sattach without output")
    c.run("sattach", name).refused("")


@test()
def test_attach_nodes(t):
    """A step on two nodes: every node's output, input to one task, and a stopped sattach does not hold the step up for ever."""
    c = t.cluster(controllers=1, nodes=2, cpus=2)
    step = Client(c, "srun", "-N2", "-n2", "sh", "-c", '[ $SLURM_PROCID = 0 ] && echo $SLURM_JOB_ID; ' + ECHO)
    job = next(int(x) for x in step.lines(3) if x != "begun")
    name = "%d.0" % job
    check("  Node 1 (n2), 1 task(s): 1 \n" in c.run("sattach", "--layout", name).ok().out, "its layout")
    both, one = Client(c, "sattach", name), Client(c, "sattach", "-l", "--input-filter=1", "--output-filter=1", name)

    def heard(client):
        step.say("x")
        step.lines(2)
        return select_ready(client)
    wait_until("a sattach to be joined", 60, lambda: heard(both))
    wait_until("the other to be joined", 60, lambda: heard(one))
    one.say("only one")
    equal(step.lines(1), ["1 got only one"], "the task that the filter names")
    line = ""
    while "only one" not in line:
        line = one.p.stdout.readline()
    equal(line, "1: 1 got only one\n", "its output")
    stopped = Client(c, "sattach", name)
    stopped.p.send_signal(signal.SIGSTOP)
    step.say("end")
    code, out, _ = step.end()
    equal((code, sorted(out.splitlines())[-2:]), (4, ["0 got end", "1 got end"]), "srun")
    code, out, _ = both.end()
    check(code == 4 and {"0 got end", "1 got end"} <= set(out.splitlines()), "the sattach of both: %s %r", code, out)
    code, out, _ = one.end()
    check(all(x.startswith("1: ") for x in out.splitlines()), "a filtered sattach shows %r", out)
    stopped.p.send_signal(signal.SIGCONT)
    stopped.end()


@test()
def test_attach_bytes(t):
    """All of it comes whole to srun and to a sattach that was there from the start."""
    c = t.cluster(controllers=1, nodes=1, cpus=2)
    step = Client(c, "srun", "-n1", "sh", "-c", "echo $SLURM_JOB_ID; read go; seq 1 50000")
    job = int(step.p.stdout.readline())
    watcher = Client(c, "sattach", "%d.0" % job)
    # What it types is the word that the step waits for: then it is joined.
    watcher.say("go")
    first = os.read(watcher.p.stdout.fileno(), 1).decode()  # nothing is read ahead: communicate() would not see it
    whole = "".join("%d\n" % n for n in range(1, 50001))
    got = {}
    reader = threading.Thread(target=lambda: got.update(srun=step.end()))
    reader.start()
    got["sattach"] = watcher.end()
    reader.join(60)
    equal(got["srun"][0], 0, "srun's exit code")
    check(got["srun"][1] == whole, "srun has %d bytes", len(got["srun"][1]))
    check(first + got["sattach"][1] == whole, "sattach has %d bytes", len(got["sattach"][1]))
