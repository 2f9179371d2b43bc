#!/usr/bin/env python3
"""Every line of bad.txt: the command ends with the code that stands there, says it in a few words on standard error, nothing elsewhere.

    bad.py MUSTER BAD.TXT"""
import codecs
import os
import re
import shlex
import subprocess
import sys
import tempfile

LINES_MOST = 4


def run(muster, command, text):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("SLURM", "SBATCH", "SQUEUE", "SINFO", "SACCT", "SCANCEL"))}
    # Whoever gets as far as asking a controller finds no configuration, and the pattern does not match.
    env.update(SLURM_CONF="/nonexistent/muster.conf", TZ="UTC", LC_ALL="C")
    with tempfile.TemporaryDirectory() as folder:
        return subprocess.run([muster] + [w for n, w in enumerate(shlex.split(command)) if n or w != "muster"], env=env, input=text, capture_output=True, timeout=60, cwd=folder)


def main():
    muster, table = os.path.abspath(sys.argv[1]), sys.argv[2]
    broken, count = [], 0
    for number, line in enumerate(open(table, encoding="utf-8"), 1):
        line = line.rstrip("\n")
        if not line or line.startswith("#"):
            continue
        code, command, text, pattern = line.split(" ;; ")
        stdin = b"" if text == "-" else codecs.decode(text, "unicode_escape").encode("latin-1")
        done = run(muster, command, stdin)
        said = done.stderr.decode(errors="replace")
        count += 1
        if done.returncode != int(code):
            broken.append("line %d: %s ended with %d, not %s: %s" % (number, command, done.returncode, code, said))
        elif not re.search(pattern, said, re.M):
            broken.append("line %d: %s said %r, not %r" % (number, command, said, pattern))
        elif bool(done.stdout) != (code == "0"):
            broken.append("line %d: %s printed %r" % (number, command, done.stdout))
        elif len(said.splitlines()) > LINES_MOST:
            broken.append("line %d: %s said too much: %r" % (number, command, said))
    print("\n".join(broken))
    print("%d command lines, %d wrong" % (count, len(broken)))
    return 1 if broken or count < 100 else 0


sys.exit(main())
