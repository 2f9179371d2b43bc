"""What `meson install` puts down: every command under its name, manual pages, completions, units, and a cluster that runs from it."""
import glob
import os
import re
import subprocess

from harness import USER, Skip, check, equal, test

COMMANDS = ["sbatch", "salloc", "srun", "squeue", "sinfo", "scancel", "scontrol", "sacct", "sdiag", "sacctmgr", "sshare", "sprio"]


@test(sizes="ci full", build="plain", seconds=120)
def test_installed(t):
    build = os.environ["MUSTER_BUILD"]
    if not os.path.isdir(os.path.join(build, "meson-private")):
        raise Skip("the build is no directory of meson")
    root = os.path.join(t.dir, "root")
    made = subprocess.run(["meson", "install", "-C", build, "--no-rebuild", "--quiet", "--destdir", root], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, stdin=subprocess.DEVNULL)
    equal(made.returncode, 0, "meson install: " + made.stdout[-500:])
    prefix = os.path.dirname(os.path.dirname(glob.glob(root + "/**/sbin/musterd", recursive=True)[0]))
    for name in COMMANDS + ["muster"]:
        said = subprocess.run([os.path.join(prefix, "bin", name), "-V"], stdout=subprocess.PIPE, text=True)
        check(said.returncode == 0 and said.stdout.startswith("slurm 24.05"), "%s -V says %r", name, said.stdout)
        with open(os.path.join(prefix, "share/man/man1", name + ".1")) as f:
            check(f.read().lstrip().startswith((".TH", ".\\\"")), "%s.1 is no manual page", name)
    for name in COMMANDS:
        path = os.path.join(prefix, "share/bash-completion/completions", name)
        said = subprocess.run(["bash", "-c", ". %s && complete -p %s" % (path, name)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        check(said.returncode == 0, "no completion for %s: %s", name, said.stdout)
    units = glob.glob(root + "/**/*.service", recursive=True)
    equal(sorted(os.path.basename(u) for u in units), ["muster-agent.service", "muster-follower.service", "musterd.service"], "units")
    for unit in units:
        with open(unit) as f:
            program = re.search(r"^ExecStart=[-@:+!]*(\S+)", f.read(), re.M).group(1)
        check(os.access(root + program, os.X_OK), "%s starts %s, which is not installed", os.path.basename(unit), program)
    os.environ["MUSTER_BUILD"] = prefix
    c = t.cluster(controllers=1, nodes=1)
    job = c.sbatch("-o", "out", "--wrap", "srun hostname", user=USER)
    equal(c.wait_ended(job)[job][:2], ("COMPLETED", "0:0"), "a job of the installed cluster")
    c.run("muster", "replay", os.path.join(c.dir, "state", "c1")).ok()
