"""What a job cannot do to others, each tried as an ordinary user; folders of its own; limits it takes along."""
import os
import pwd
import subprocess

from harness import USER, check, equal, local, test, wait_until
from test_steps import settle

TRIES = """#!/usr/bin/python3
import ctypes, glob, os, resource, signal, sys
other, shepherd, agent = (int(word) for word in sys.argv[1:4])
def attempt(name, act):
    try:
        act()
        print(name, "DONE", flush=True)
    except OSError as trouble:
        print(name, "refused", flush=True)
    except ValueError:
        print(name, "refused", flush=True)
libc = ctypes.CDLL(None, use_errno=True)
def ptrace(pid):
    if libc.ptrace(16, pid, 0, 0) != 0:  # PTRACE_ATTACH
        raise OSError(ctypes.get_errno())
attempt("ptrace", lambda: ptrace(other))
attempt("kill-neighbour", lambda: os.kill(other, signal.SIGTERM))
attempt("kill-shepherd", lambda: os.kill(shepherd, signal.SIGKILL))
attempt("kill-agent", lambda: os.kill(agent, signal.SIGKILL))
attempt("raise-limit", lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (1 << 20, 1 << 21)))
groups = dict(line.strip().split(":")[1:] for line in open("/proc/self/cgroup") if ":" in line)
for name, path in groups.items():
    for base in glob.glob("/sys/fs/cgroup/*/" + path.strip("/")) + ["/sys/fs/cgroup/" + path.strip("/")]:
        for file in glob.glob(base + "/memory.limit_in_bytes") + glob.glob(base + "/memory.max") + glob.glob(base + "/cgroup.procs"):
            attempt("cgroup", lambda: open(file, "w").write("0"))
for device in sys.argv[4:]:
    attempt("device", lambda: os.close(os.open(device, os.O_RDWR)))
children = 0
try:
    while children < 5000:
        if os.fork() == 0:
            signal.pause()
        children += 1
    print("bomb DONE", children, flush=True)
except OSError:
    print("bomb refused", children, flush=True)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        signal.pause()
os._exit(0)
"""


def parent(pid):
    with open("/proc/%d/stat" % pid) as f:
        return int(f.read().rsplit(")", 1)[1].split()[1])


@test()
def test_escapes(t):
    """ptrace, signals, limits, control groups, devices, a fork bomb, setsid and double fork: each refused or ended with the job."""
    c = t.cluster(controllers=1, nodes=1, cpus=4, gpus=2, settings={"MusterPidsMax": "60"})
    full = local.environment(c.c)
    neighbour = subprocess.Popen(["setpriv", "--reuid", "daemon", "--clear-groups", "srun", "-n1", "sh", "-c", "echo $$; exec sleep 300"], env=full,
                                 cwd=c.home, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    other = int(neighbour.stdout.readline())
    shepherd = parent(other)
    agent = int(open("/proc/%d/stat" % shepherd).read().rsplit(")", 1)[1].split()[1])
    devices = sorted(p for p in (os.path.join(c.dir, "dev", name) for name in os.listdir(os.path.join(c.dir, "dev"))) if os.path.exists(p)) \
        if os.path.isdir(os.path.join(c.dir, "dev")) else []
    tries = c.script(TRIES, name="tries")
    job = c.sbatch("-n1", "-o", "tried", "--wrap", "exec %s %d %d %d %s" % (tries, other, shepherd, agent, " ".join(devices)), user=USER)
    state = settle(c, job, 90)
    said = c.read("tried").splitlines()
    check(not [line for line in said if "DONE" in line], "what worked: %s (%s)", [line for line in said if "DONE" in line], state)
    for name in ("ptrace", "kill-neighbour", "kill-shepherd", "kill-agent", "raise-limit", "cgroup", "bomb") + (("device",) if devices else ()):
        check(any(line.startswith(name + " refused") for line in said), "%s was not tried: %r", name, said)
    bomb = [int(line.split()[2]) for line in said if line.startswith("bomb")][0]
    check(bomb < 60, "%d processes in a job of at most 60", bomb)
    check(not [line for line in subprocess.run(["ps", "-u", USER, "-o", "args"], stdout=subprocess.PIPE, text=True).stdout.splitlines() if tries in line],
          "processes of the job are left")
    c.run("scancel", "-u", "daemon").ok()
    neighbour.wait(60)
    equal(c.run("sinfo", "-h", "-o", "%T").ok().out.split(), ["idle"], "the node afterwards")


@test()
def test_private(t):
    """job_container/tmpfs: a folder of the job's own, shared by its steps, seen by nobody else, gone with it."""
    base, shared = os.path.join(t.dir, "base"), os.path.join(t.dir, "shared")
    os.makedirs(shared)
    os.chmod(shared, 0o1777)
    c = t.cluster(controllers=1, nodes=1, cpus=2, settings={"JobContainerType": "job_container/tmpfs"}, start=False)
    with open(os.path.join(c.dir, "job_container.conf"), "w") as f:
        f.write("AutoBasePath=true\nBasePath=%s Dirs=%s,/dev/shm\n" % (base, shared))
    local.up(c.c, None, 60)
    mark = os.path.join(shared, "mark")
    job = c.sbatch("-o", "out", "--wrap", "echo mine >%s; srun cat %s; ls /dev/shm | wc -l; touch here; sleep 300" % (mark, mark), user=USER)
    wait_until("the step's word", 60, lambda: c.read("out").splitlines() == ["mine", "0"])
    check(not os.path.exists(mark), "the job's file is seen from outside")
    equal(c.run("srun", "ls", shared, user="daemon").ok().out, "", "another job's view")
    check(subprocess.run(["setpriv", "--reuid", USER, "--clear-groups", "ls", os.path.join(base, "job_%d_1" % job)], stdout=subprocess.DEVNULL,
                         stderr=subprocess.DEVNULL).returncode != 0, "the folder can be reached from outside")
    c.run("scancel", job, user=USER).ok()
    equal(settle(c, job)[0], "CANCELLED", "the job")
    wait_until("the folders to be gone", 30, lambda: not os.listdir(base))


@test()
def test_propagate(t):
    """Limits come along as --propagate and PropagateResourceLimits say."""
    c = t.cluster(controllers=1, nodes=1, settings={"PropagateResourceLimits": "CORE"})

    def limits(*words):
        done = c.run("sh", "-c", "ulimit -S -n 321; ulimit -S -c 0; exec srun %s sh -c 'ulimit -n; ulimit -c'" % " ".join(words), user=USER).ok()
        return done.out.split()
    equal(limits()[1], "0", "what the configuration propagates")
    check(limits()[0] != "321", "what it does not")
    equal(limits("--propagate")[0], "321", "all that are asked for")
    equal(limits("--propagate=NOFILE")[0], "321", "one that is asked for")
    check(limits("--propagate=RLIMIT_CORE")[0] != "321", "one that is not")
    c.run("srun", "--propagate=SIDEWAYS", "true").refused("SIDEWAYS is no limit")
