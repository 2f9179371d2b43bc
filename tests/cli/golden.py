#!/usr/bin/env python3
"""Every block of golden.txt against a controller of canned rows: what a command prints, says, asks and ends with.

    golden.py MUSTER FAKECTL ROWS GOLDEN [--write]

A block: "$ command", then its output; lines with "! " before them are standard error, "> " requests that change something, "= N" an exit
code other than 0. --write puts what was seen into GOLDEN, to be read before it is committed."""
import os
import re
import shlex
import subprocess
import sys
import tempfile


def blocks(path):
    found = []
    for line in open(path, encoding="utf-8"):
        line = line.rstrip("\n")
        if line.startswith("$ "):
            found.append((line[2:], []))
        elif found:
            found[-1][1].append(line)
    return [(command, "\n".join(lines).rstrip("\n")) for command, lines in found]


def run(muster, folder, command, log):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "SQUEUE", "SINFO", "SACCT", "SCANCEL"))}
    words = shlex.split(command)
    while words and re.match(r"[A-Z_0-9]+=", words[0]):
        name, value = words.pop(0).split("=", 1)
        env[name] = value
    env.update(SLURM_CONF=folder + "/muster.conf", LC_ALL="C.UTF-8")
    env.setdefault("TZ", "UTC")
    before = os.path.getsize(log)
    done = subprocess.run([muster] + words, env=env, stdin=subprocess.DEVNULL, capture_output=True, timeout=60, cwd=folder)
    with open(log, encoding="utf-8", errors="replace") as f:
        f.seek(before)
        asked = f.read()
    # The date line of long listings and scripts' hashes are not what is tested here.
    out = re.sub(r"^[A-Z][a-z]{2} [A-Z][a-z]{2} \d\d \d\d:\d\d:\d\d \d{4}$", "DATE", done.stdout.decode(errors="replace"), flags=re.M)
    lines = out.splitlines()
    lines += ["! " + line for line in done.stderr.decode(errors="replace").splitlines()]
    lines += ["> " + re.sub(r"script_hash: \w+ ?", "", line) for line in asked.splitlines()]
    if done.returncode:
        lines.append("= %d" % done.returncode)
    return "\n".join(lines).rstrip("\n")


def main():
    muster, fakectl, rows, golden = (os.path.abspath(p) for p in sys.argv[1:5])
    write, broken = "--write" in sys.argv, 0
    with tempfile.TemporaryDirectory() as folder:
        with open(folder + "/muster.conf", "w") as f:
            f.write("ClusterName=test\nSlurmctldHost=c1(127.0.0.1:1)\nMusterRunDir=%s\nMessageTimeout=5\n" % folder)
        log = folder + "/requests"
        fake = subprocess.Popen([fakectl, folder + "/musterd.c1.sock", rows, log], stdout=subprocess.PIPE)
        try:
            if fake.stdout.readline() != b"ready\n":
                return 1
            seen = [(command, expected, run(muster, folder, command, log)) for command, expected in blocks(golden)]
        finally:
            fake.terminate()
            fake.wait()
    for command, expected, got in seen:
        if expected != got:
            broken += 1
            if not write:
                print("$ %s\n--- expected\n%s\n--- got\n%s\n" % (command, expected, got))
    if write:
        with open(golden, "w", encoding="utf-8") as f:
            f.write("\n\n".join("$ %s\n%s" % (command, got) if got else "$ " + command for command, _, got in seen) + "\n")
        return 0
    print("%d commands, %d different" % (len(seen), broken))
    return 1 if broken or not seen else 0


sys.exit(main())
