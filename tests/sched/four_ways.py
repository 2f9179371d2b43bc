#!/usr/bin/env python3
"""Builds the scheduler with gcc and with clang, at -O0 and at -O2, and compares what the four decide over the recorded
streams and over workloads out of seeds: four_ways.py BUILD SEEDS LOG...

Only the scheduler is built again; the flags are those of BUILD's own compilation, the rest is linked from there. 77 where a
compiler is not installed."""
import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor

WAYS = (("gcc", "-O0"), ("gcc", "-O2"), ("clang", "-O0"), ("clang", "-O2"))
ONLY_GCC = ("-fdiagnostics-color", "-Wno-", "-W", "-O", "-g", "-fsanitize", "-MD", "-MQ", "-MF", "-o", "-c")


def commands(build):
    """What was compiled for the scheduler and its simulation: (file, include words and definitions)."""
    with open(os.path.join(build, "compile_commands.json"), encoding="utf-8") as f:
        for entry in json.load(f):
            output = entry.get("output", "")
            if "libmu_sched.a.p" in output or "libmu_sim.a.p" in output or output.endswith("sched_decisions.p/decisions.c.o"):
                words = shlex.split(entry["command"])[1:]
                keep, skip = [], False
                for i, word in enumerate(words):
                    if skip:
                        skip = False
                    elif word == "-include":
                        keep += [word, words[i + 1]]
                        skip = True
                    elif word.startswith(("-I", "-D", "-std", "-m", "-f")) and not word.startswith(ONLY_GCC):
                        keep.append(word)
                yield os.path.join(entry["directory"], entry["file"]), keep


def build_one(build, folder, compiler, level):
    objects, jobs = [], []
    with ThreadPoolExecutor(2) as pool:
        for i, (path, words) in enumerate(commands(build)):
            objects.append(os.path.join(folder, "%s%s-%d.o" % (compiler, level, i)))
            jobs.append(pool.submit(subprocess.run, [compiler, level, *words, "-w", "-c", path, "-o", objects[-1]], cwd=build,
                                    stderr=subprocess.PIPE, text=True))
        for job in jobs:
            if job.result().returncode:
                sys.exit("%s %s: %s" % (compiler, level, job.result().stderr))
    program = os.path.join(folder, "decisions%s%s" % (compiler, level))
    libraries = [os.path.join(build, "proto", name) for name in ("libmu_proto.a", "libmu_pb.a")]
    base = [os.path.join(at, "libmu_base.a") for at, _, names in os.walk(os.path.join(build, "proto")) if "libmu_base.a" in names]
    extra = ["-fsanitize=address,undefined"] if "sanitize" in open(os.path.join(build, "compile_commands.json"), encoding="utf-8").read() else []
    done = subprocess.run(["gcc", *extra, *objects, "-Wl,--start-group", *libraries, *base, "-Wl,--end-group", "-lprotobuf-c", "-lsodium", "-lm", "-o", program],
                          stderr=subprocess.PIPE, text=True)
    if done.returncode:
        sys.exit("%s %s does not link: %s" % (compiler, level, done.stderr[-2000:]))
    return program


def main():
    build, seeds, logs = sys.argv[1], sys.argv[2], sys.argv[3:]
    if os.environ.get("MUSTER_TEST_SIZE") == "fast" or not all(shutil.which(c) for c in ("gcc", "clang")):
        sys.exit(77)
    said = {}
    with tempfile.TemporaryDirectory() as folder:
        for compiler, level in WAYS:
            program = build_one(build, folder, compiler, level)
            done = subprocess.run([program, seeds, *logs], stdout=subprocess.PIPE, text=True)
            if done.returncode:
                sys.exit("%s %s: the program fails" % (compiler, level))
            said[compiler + " " + level] = done.stdout.splitlines()
    first, *others = said.items()
    for name, lines in others:
        for a, b in zip(first[1], lines):
            if a != b:
                sys.exit("%s decides otherwise than %s: %s, %s" % (name, first[0], b, a))
    print("%d workloads and streams, decided the same in %d builds" % (len(first[1]), len(WAYS)))


if __name__ == "__main__":
    main()
