"""--container: tasks of an ordinary user in OCI containers, by the first runtime here that runs one without more rights than the user's."""
import json
import os
import re
import shutil
import signal
import stat
import subprocess

from harness import USER, Skip, check, equal, local, test, wait_until
from test_steps import settle

# Where a runtime cannot run as an ordinary user the first line of its complaint is shown.
RUNTIMES = (("runc", ""), ("crun", "--cgroup-manager=disabled "))


def bundle(t):
    """A root of the host's own programs, which its owner alone may change, and its config.json."""
    path = os.path.join(t.dir, "bundle")
    root = os.path.join(path, "rootfs")
    for name in ("proc", "dev", "tmp", "usr", "inside"):
        os.makedirs(os.path.join(root, name))
    for name in ("bin", "lib", "lib64"):
        os.symlink("usr/" + name, os.path.join(root, name))
    config = {"ociVersion": "1.0.2",
              "process": {"user": {"uid": 0, "gid": 0}, "args": ["sh"], "env": ["PATH=/usr/bin:/bin", "OF_BUNDLE=yes", "HOME=/of/bundle"], "cwd": "/",
                          "rlimits": [{"type": "RLIMIT_NOFILE", "hard": 1 << 30, "soft": 1 << 30}]},
              "root": {"path": "rootfs", "readonly": True}, "hostname": "bundle",
              "mounts": [{"destination": "/usr", "type": "bind", "source": "/usr", "options": ["rbind", "ro"]},
                         {"destination": "/proc", "type": "proc", "source": "proc"},
                         {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
                         {"destination": "/dev/pts", "type": "devpts", "source": "devpts",
                          "options": ["nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"]},
                         {"destination": "/tmp", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]}],
              "linux": {"resources": {"memory": {"limit": 1}, "devices": [{"allow": True, "access": "rwm"}]}, "cgroupsPath": "/somewhere",
                        "namespaces": [{"type": kind} for kind in ("pid", "ipc", "uts", "mount")]}}
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f)
    os.chmod(t.dir, 0o755)
    return path


def runtime(t, path):
    """The words that begin a call, where one works; else the test is skipped with what failed."""
    said = []
    user = ["setpriv", "--reuid", USER, "--regid", "nogroup", "--clear-groups"]
    for name, option in RUNTIMES:
        program = shutil.which(name, path="/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
        if not program:
            said.append(name + " is not installed")
            continue
        trial = os.path.join(t.dir, "trial_" + name)
        os.makedirs(trial)
        shutil.chown(trial, USER)
        with open(os.path.join(path, "config.json")) as f:
            config = json.load(f)
        config["root"]["path"] = os.path.join(path, "rootfs")
        config["process"].update(args=["true"])
        del config["process"]["rlimits"], config["linux"]["resources"], config["linux"]["cgroupsPath"]
        config["mounts"][3]["options"].pop()
        config["linux"]["namespaces"].append({"type": "user"})
        owner = os.stat(trial)
        config["linux"]["uidMappings"] = [{"containerID": 0, "hostID": owner.st_uid, "size": 1}]
        config["linux"]["gidMappings"] = [{"containerID": 0, "hostID": 65534, "size": 1}]
        with open(os.path.join(trial, "config.json"), "w") as f:
            json.dump(config, f)
        words = "%s %s--root=%s" % (program, option, os.path.join(trial, "root"))
        done = subprocess.run(user + words.split() + ["run", "-b", trial, "trial"], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, text=True, timeout=60)
        if done.returncode == 0:
            return "%s %s" % (program, option)
        said.append("%s: %s" % (name, (done.stdout.strip().splitlines() or ["exit code %d" % done.returncode])[0]))
    raise Skip("no runtime runs a container for an ordinary user: " + "; ".join(said))


def oci(c, t, begin, whole=True, more=""):
    """oci.conf beside muster.conf; gives the folder in which the runtime keeps what it runs."""
    kept = os.path.join(t.dir, "kept")
    os.makedirs(kept, exist_ok=True)
    os.chmod(kept, 0o1777)
    call = "%s--root=%s/%%U" % (begin, kept)
    rows = [("RunTimeQuery", "state %n.%u.%j.%s.%t"), ("RunTimeKill", "kill --all %n.%u.%j.%s.%t KILL"), ("RunTimeDelete", "delete --force %n.%u.%j.%s.%t")]
    rows += [("RunTimeRun", "run -b %b %n.%u.%j.%s.%t")] if whole else \
        [("RunTimeCreate", "create -b %b %n.%u.%j.%s.%t"), ("RunTimeStart", "start %n.%u.%j.%s.%t")]
    with open(os.path.join(c.dir, "oci.conf"), "w") as f:
        f.write("# containers\n" + "".join('%s = "%s %s"\n' % (key, call, words) for key, words in rows) + more)
    return kept


def left(kept):
    return [name for _, folders, files in os.walk(kept) for name in folders + files if not name.isdigit()]


def folders(c):
    return [name for _, names, _ in os.walk(c.dir) for name in names if name.startswith("container_")]


def nothing_left(c, kept):
    """A job is over for its user before its node has cleared."""
    wait_until("nothing to be left of the containers", 60, lambda: not left(kept) and not folders(c))
    c.wait_idle()


@test()
def test_container(t):
    """Program, environment, folder, host name, exit code, streams and terminal; the batch script; what is shown; nothing left."""
    path = bundle(t)
    begin = runtime(t, path)
    c = t.cluster(controllers=1, nodes=1, cpus=4, gpus=2)
    refused = c.run("srun", "--container=" + path, "true", user=USER)
    check(refused.code != 0 and "oci.conf" in refused.err, "without oci.conf: %r", refused.err)
    kept = oci(c, t, begin, more='EnvExclude="^SECRET="\n')
    done = c.run("srun", "-n2", "--container=" + path, "sh", "-c", "read word; echo $word $(id -u) $(uname -n) $PWD $OF_BUNDLE $SLURM_PROCID $SECRET-$OPEN; "
                 "echo wrong >&2; exit $((3 + SLURM_PROCID))", user=USER, stdin="given\n", env={"SECRET": "x", "OPEN": "y"})
    equal(done.code, 4, "the exit code of %r" % done.err)
    equal(sorted(done.out.splitlines()), ["given 0 n1 / yes %d -y" % k for k in range(2)], "what the tasks said")
    equal(done.err.count("wrong"), 2, "lines of error output")
    equal(c.run("srun", "--container=" + path, "--chdir=/inside", "pwd", user=USER).ok().out, "/inside\n", "a folder that is there inside only")
    screen = c.run("script", "-qec", "setpriv --reuid %s --regid nogroup --clear-groups srun --pty --container=%s sh -c 'tty; stty size'" % (USER, path),
                   "/dev/null", stdin="")
    check("/dev/" in screen.out and screen.code == 0, "a terminal inside: %d, %r", screen.code, screen.out)
    job = c.sbatch("-n1", "-o", "batch", "--container=" + path, "--container-id=mine", c.script("#!/bin/sh\necho $0 $1 $(uname -n) $SLURM_CONTAINER; exit 9\n"),
                   "word", user=USER)
    shown = c.run("scontrol", "show", "job", job).ok().out
    check("Container=%s\n" % path in shown and "ContainerID=mine" in shown, "the job is shown as %r", shown)
    equal(settle(c, job)[0], "FAILED", "the batch job")
    equal(c.read("batch").split(), ["/dev/slurm/slurm_script", "word", "n1", path], "what its script said")
    equal(set(c.run("sacct", "-nP", "-j", job, "-o", "Container,ExitCode").ok().out.split()), {path + "|9:0"}, "job and batch step in the accounts")
    nothing_left(c, kept)


@test()
def test_container_bounds(t):
    """A container gets the step's devices and memory and no other, whatever its bundle says."""
    path = bundle(t)
    begin = runtime(t, path)
    c = t.cluster(controllers=1, nodes=1, cpus=4, gpus=2)
    kept = oci(c, t, begin)
    device = sorted(os.path.join(c.dir, "dev", name) for name in os.listdir(os.path.join(c.dir, "dev")))
    device = [name for name in device if stat.S_ISCHR(os.stat(name).st_mode)]
    look = "for d in %s; do [ -e $d ] && echo $d; done; true" % " ".join(device)
    equal(c.run("srun", "--container=" + path, "sh", "-c", look, user=USER).ok().out, "", "devices of a step without any")
    one = c.run("srun", "--gres=gpu:1", "--container=" + path, "sh", "-c", look + "; echo $CUDA_VISIBLE_DEVICES", user=USER).ok().out.split()
    equal((len(one), one[-1]), (2, "0"), "the device of a step with one")
    # A bundle that brings all of the node's devices along meets the fence.
    with open(os.path.join(path, "config.json")) as f:
        config = json.load(f)
    config["mounts"].append({"destination": os.path.join(c.dir, "dev"), "type": "bind", "source": os.path.join(c.dir, "dev"), "options": ["rbind"]})
    with open(os.path.join(path, "config.json"), "w") as f:
        json.dump(config, f)
    opened = c.run("srun", "--gres=gpu:1", "--container=" + path, "sh", "-c", "for d in %s; do (: <$d) 2>/dev/null && echo $d; done; true" % " ".join(device),
                   user=USER).ok().out.split()
    check(len(opened) <= 1, "opened: %s", opened)
    done = c.run("srun", "--mem=64M", "--container=" + path, "python3", "-c", "b'x' * (512 << 20)", user=USER)
    check(done.code != 0 and "oom_kill" in done.err, "too much memory: %s %r", done.code, done.err)
    nothing_left(c, kept)


@test()
def test_container_ends(t):
    """Signals, cancel and time limit reach the container; nothing of it is left after these, nor after the death of shepherd and agent."""
    path = bundle(t)
    begin = runtime(t, path)
    c = t.cluster(controllers=1, nodes=1, cpus=4, settings={"KillWait": "2"})
    kept = oci(c, t, begin, more="MountSpoolDir=/dev/muster\n")
    traps = c.script("#!/bin/sh\ntrap 'echo usr1 $((n = n + 1))' USR1; trap 'echo term; exit 5' TERM\necho $0 ready; while :; do sleep 0.1; done\n", name="traps")
    job = c.sbatch("-n1", "-o", "traps.out", "--container=" + path, traps, user=USER)
    wait_until("the script to run", 60, lambda: "ready" in c.read("traps.out"))
    check(c.read("traps.out").startswith("/dev/muster/slurm_script"), "MountSpoolDir: %r", c.read("traps.out"))
    c.run("scancel", "-f", "-s", "USR1", job, user=USER).ok()
    wait_until("the signal", 60, lambda: "usr1 1\n" in c.read("traps.out"))
    c.run("scancel", "-b", "-s", "USR1", job, user=USER).ok()
    wait_until("the signal to the script alone", 60, lambda: "usr1 2\n" in c.read("traps.out"))
    c.run("scancel", job, user=USER).ok()
    equal(settle(c, job, 60)[0], "CANCELLED", "the job")
    wait_until("its last word", 30, lambda: "term" in c.read("traps.out"))
    c.wait_idle()
    said = c.read("traps.out")
    check("usr1 3" not in said and said.count("term") == 1, "signals came more than once: %r", said)
    nothing_left(c, kept)
    # The first process of a container has no defaults: TERM passes it by, KILL does not.
    job = c.sbatch("-n1", "-o", "/dev/null", "--container=" + path, c.script("#!/bin/sh\nexec sleep 1000\n"), user=USER)
    wait_until("the container", 60, lambda: left(kept))
    c.run("scancel", job, user=USER).ok()
    equal(settle(c, job, 60)[0], "CANCELLED", "the deaf one")
    nothing_left(c, kept)
    job = c.sbatch("-n1", "-o", "lost.out", "--container=" + path, traps, user=USER)
    wait_until("the next to run", 60, lambda: "ready" in c.read("lost.out") and left(kept))
    for pid in shepherds(c):
        os.kill(pid, signal.SIGKILL)
    check(settle(c, job, 60)[0] in ("FAILED", "NODE_FAIL", "CANCELLED"), "a job whose shepherd was killed")
    nothing_left(c, kept)
    job = c.sbatch("-n1", "-o", "both.out", "--container=" + path, traps, user=USER)
    wait_until("the last to run", 60, lambda: "ready" in c.read("both.out") and left(kept))
    pids = shepherds(c)
    c.kill("n1")
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    c.start("n1")
    check(settle(c, job, 60)[0] in ("FAILED", "NODE_FAIL", "CANCELLED"), "a job whose agent and shepherd were killed")
    nothing_left(c, kept)


def shepherds(c):
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            try:
                with open("/proc/%s/cmdline" % name) as f:
                    words = f.read().split("\0")
            except OSError:
                continue
            if "muster-shepherd" in words[0] and words[1].startswith(c.dir):
                found.append(int(name))
    return found


@test()
def test_container_create(t):
    """A runtime that creates, starts and is asked; the environment's file, a folder of the site's, the bundle's own config left alone."""
    path = bundle(t)
    begin = runtime(t, path)
    c = t.cluster(controllers=1, nodes=1, cpus=4)
    place = os.path.join(t.dir, "place")
    kept = oci(c, t, begin, whole=False, more="ContainerPath=%s/%%u/%%j.%%s.%%t\nCreateEnvFile=newline\nMountSpoolDir=/dev/here\n" % place)
    os.makedirs(place)
    os.chmod(place, 0o1777)
    done = c.run("srun", "--container=" + path, "sh", "-c", "cat; grep ^MARK= /dev/here/environment; exit 6", user=USER, stdin="through\n", env={"MARK": "1"})
    equal((done.code, done.out), (6, "through\nMARK=1\n"), "a created container: %r" % done.err)
    killed = c.run("srun", "--container=" + path, "sh", "-c", "exec sh -c 'kill -9 -1'; sleep 1", user=USER)
    check(killed.code is not None, "a container that kills all that it sees: %s", killed.code)
    job = c.sbatch("-n1", "-t", "1", "-o", "out", "--container=" + path, c.script("#!/bin/sh\ntrap 'echo term; exit 0' TERM\necho go; while :; do sleep 0.1; done\n"),
                   user=USER)
    wait_until("it to run", 60, lambda: "go" in c.read("out"))
    c.run("scancel", "--signal=TERM", "-f", job, user=USER).ok()
    equal(settle(c, job, 60)[0], "COMPLETED", "a job that ends on TERM")
    nothing_left(c, kept)
    wait_until("no file to be left of the bundles' copies", 30, lambda: not any(files for _, _, files in os.walk(place)))
    with open(os.path.join(c.dir, "oci.conf"), "w") as f:
        f.write('IgnoreFileConfigJson=true\nRunTimeRun="printf \'%%s \' %n %j %s %t %u %U %b %r; echo; exec %@"\n')
    words = c.run("srun", "--container=" + path, "echo", "it's", "%n", user=USER).ok().out.splitlines()
    equal(words[1], "it's %n", "the program's words")
    check(re.match(r"n1 \d+ 0 0 %s \d+ %s %s/rootfs $" % (USER, re.escape(path), re.escape(path)), words[0]), "the patterns: %r", words[0])
    with open(os.path.join(c.dir, "oci.conf"), "w") as f:
        f.write("RunTimeFly=x\n")
    refused = c.run("srun", "--container=" + path, "true", user=USER)
    check(refused.code != 0 and "unknown key RunTimeFly" in refused.err, "a wrong key: %r", refused.err)
