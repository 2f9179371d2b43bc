"""Commands from hosts without a controller: over TCP, proven by a munged of the test's own."""
import os
import subprocess

from harness import USER, Skip, check, equal, test, wait_until


class Munge:
    """A munged with a key and a socket below WHERE."""

    def __init__(self, t, where):
        self.where = where
        os.makedirs(where)
        os.chmod(where, 0o755)
        self.socket = os.path.join(where, "socket")
        key = os.path.join(where, "key")
        with open(key, "wb") as f:
            f.write(os.urandom(128))
        os.chmod(key, 0o600)
        try:
            self.child = subprocess.Popen(["munged", "--foreground", "--force", "--key-file=" + key, "--socket=" + self.socket, "--pid-file=" + where + "/pid",
                                           "--seed-file=" + where + "/seed", "--log-file=" + where + "/log"], stdin=subprocess.DEVNULL,
                                          stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        except FileNotFoundError:
            raise Skip("this host has no munged")
        t.after.append(self.end)
        wait_until("munged", 30, lambda: os.path.exists(self.socket))

    def end(self):
        self.child.terminate()
        self.child.wait()


def far(c, name, **changed):
    """A host of users: the file without sockets of controllers, with CHANGED keys."""
    path = os.path.join(c.dir, name + ".conf")
    changed["MusterRunDir"] = os.path.join(c.dir, "nowhere")
    with open(os.path.join(c.dir, "muster.conf")) as f:
        lines = [line for line in f if line.split("=")[0] not in changed]
    with open(path, "w") as f:
        f.writelines(lines + ["%s=%s\n" % item for item in changed.items()])
    return {"SLURM_CONF": path}


@test(build="plain", seconds=120)
def test_munge(t):
    """The credential says who asks: jobs run as that user, operators are told apart, another realm's credential is worth nothing."""
    munge = Munge(t, os.path.join(t.dir, "munge"))
    other = Munge(t, os.path.join(t.dir, "other"))
    c = t.cluster(nodes=1, settings={"AuthInfo": "socket=" + munge.socket})
    env = far(c, "far")
    job = c.sbatch("-o", "who", "--wrap", "id -un", user=USER, env=env)
    held = c.sbatch("-H", "--wrap", "true", user="daemon", env=env)
    wait_until("the job's end", 30, lambda: "COMPLETED" in c.run("sacct", "-X", "-n", "-P", "-j", job, "-o", "State,User", user=USER, env=env).ok().out)
    equal(c.read("who"), USER + "\n", "the user of the job")
    check("|".join(("PENDING", "daemon")) in c.run("squeue", "-h", "-j", held, "-o", "%T|%u", env=env).ok().out, "the other job's user")
    c.run("scontrol", "release", held, user=USER, env=env).refused("Access/permission denied")
    c.run("scontrol", "update", "nodename=n1", "state=drain", "reason=x", user=USER, env=env).refused("Invalid user id")
    c.run("scontrol", "update", "nodename=n1", "state=drain", "reason=x", env=env).ok()
    c.run("scontrol", "update", "nodename=n1", "state=resume", env=env).ok()
    done = c.run("srun", "--mem=16", "id", "-un", user=USER, env=env).ok()
    equal(done.out, USER + "\n", "srun's step")
    c.run("sbatch", "--wrap", "true", user=USER, env=far(c, "realm", AuthInfo="socket=" + other.socket)).refused("sbatch: error: ")
    c.run("sbatch", "--wrap", "true", user=USER, env=far(c, "none", AuthInfo="socket=" + t.dir + "/nosuch")).refused("is munged running on this host?")
    before = sorted(c.states())
    c.kill(c.leader())
    job = c.sbatch("-o", "/dev/null", "--mem", "16", "--wrap", "true", user=USER, env=env)
    equal(sorted(c.states()), before + [job], "jobs")
    c.wait_ended(job)
    c.run("scancel", held, user="daemon", env=env).ok()
