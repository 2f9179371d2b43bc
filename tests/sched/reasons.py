#!/usr/bin/env python3
"""Every reason that the core can give a waiting job is provoked by a scenario, and said in words by proto/why.def.

Usage: reasons.py TOP. The core can give what sched/*.c names as REASON_X, and for each row of limits.def its reasons, one for each
kind of resource. A scenario provokes X where it says reason=X, or for the limits of submission where it is refused."""
import glob
import os
import re
import sys

KINDS = 6  # cpu, mem, node, gres, billing, others
# Limits of submission: they refuse at the door and are no reason to wait.
AT_THE_DOOR = re.compile(r"Submit")
# What remains of a job that has ended, or is told with its end.
AT_THE_END = {"None", "NonZeroExitCode", "RaisedSignal", "TimeLimit", "OutOfMemory", "SystemFailure", "DeadLine", "NodeDown", "Prolog"}
# Resources that no version counts beside the named ones: there is nothing to put a limit on, unless it is a license.
NOT_COUNTED = re.compile(r"Unknown")


def main():
    top = sys.argv[1]
    text = open(os.path.join(top, "proto/states.def")).read()
    rows = re.findall(r'MU_JOB_REASON\((\w+), (\d+), "([^"]*)"\)', text)
    word = {name: shown for name, _, shown in rows}
    number = {name: int(n) for name, n, _ in rows}
    by_number = {n: name for name, n in number.items()}
    given = set()
    for path in glob.glob(os.path.join(top, "sched/*.c")):
        given |= set(re.findall(r"REASON_(\w+)", open(path).read())) & set(word)
    limits = open(os.path.join(top, "proto/limits.def")).read()
    for line in limits.splitlines():
        plain = re.match(r"MU_LIMIT_PLAIN\((\w+), \w+, (\w+),.*, (\w+), (\w+)\)$", line)
        tres = re.match(r"MU_LIMIT_TRES\((\w+), \w+, (\w+),.*, (\w+), (\w+)\)$", line)
        if plain:
            given |= {plain.group(3)} if "A" in plain.group(2) else set()
            given |= {plain.group(4)} if "Q" in plain.group(2) else set()
        for first in (tres.groups()[2:] if tres else ()):
            owner = "Q" if first.startswith("QOS") else "A"
            if owner in tres.group(2):
                given |= {by_number[number[first] + k] for k in range(KINDS)}
    stories = "".join(open(path).read() for path in glob.glob(os.path.join(top, "tests/sched/scenarios/*.scn")))
    provoked = set(re.findall(r"reason=(\w+)", stories))
    said = set(re.findall(r"MU_WHY\((\w+),", open(os.path.join(top, "proto/why.def")).read()))
    bad = 0
    for name in sorted(given, key=number.get):
        limit = name.startswith(("Assoc", "QOS"))
        if not limit and name not in said:
            print("%s has no row in proto/why.def" % name)
            bad += 1
        if name in AT_THE_END or (limit and (AT_THE_DOOR.search(name) or NOT_COUNTED.search(name))):
            continue
        if word[name].replace(" ", "_") not in provoked:
            print("no scenario provokes %s" % name)
            bad += 1
    print("%d reasons, %d complaints" % (len(given), bad))
    return bad != 0


sys.exit(main())
