"""Allocations without a script, and steps on several nodes: what people see, and that nothing stays behind."""
import fcntl
import glob
import hashlib
import os
import pty
import random
import re
import select
import signal
import struct
import subprocess
import termios
import time

from harness import USER, Skip, check, equal, local, size, test, wait_until


def settle(c, job, seconds=30):
    return c.wait_ended(job, seconds=seconds)[job][:2]


def job_of(text):
    return int(re.search(r"job allocation ([0-9]+)", text).group(1))


@test()
def test_salloc(t):
    """Messages, variables, exit code, what is left when the command fails, and --no-shell."""
    c = t.cluster(controllers=1, nodes=2)
    done = c.run("salloc", "-N2", "sh", "-c", "env; srun hostname; exit 7", user=USER)
    equal(done.code, 7, "salloc's exit code")
    job = job_of(done.err)
    equal(done.err.splitlines(), ["salloc: Granted job allocation %d" % job, "salloc: Nodes n[1-2] are ready for job",
                                  "salloc: Relinquishing job allocation %d" % job], "its messages")
    env = dict(line.split("=", 1) for line in done.out.splitlines() if line.startswith("SLURM_"))
    for name, value in (("SLURM_JOB_ID", str(job)), ("SLURM_JOB_NODELIST", "n[1-2]"), ("SLURM_NNODES", "2"),
                        ("SLURM_TASKS_PER_NODE", "1(x2)"), ("SLURM_JOB_CPUS_PER_NODE", "1(x2)"), ("SLURM_JOB_NAME", "sh")):
        equal(env.get(name), value, name)
    equal(done.out.splitlines()[-2:], [os.uname().nodename] * 2, "srun hostname on two nodes")
    equal(settle(c, job), ("FAILED", "7:0"), "the allocation")
    equal(c.run("salloc", "-Q", "true", user=USER).err, "", "salloc -Q")
    missing = c.run("salloc", "no-such-command", user=USER)
    equal(missing.code, 1, "exit code with a missing command")
    check('salloc: error: _fork_command: Unable to find command "no-such-command"' in missing.err, "a missing command: %r", missing.err)
    kept = c.run("salloc", "--no-shell", "-n1", user=USER).ok()
    job = job_of(kept.err)
    equal(c.states(job)[job][0], "RUNNING", "an allocation left by --no-shell")
    equal(c.run("srun", "--jobid=%d" % job, "echo", "in", user=USER).ok().out, "in\n", "a step in it")
    check(c.run("srun", "--jobid=%d" % job, "true", user="daemon").code != 0, "another user's step was started in it")
    c.run("scancel", job, user=USER).ok()
    equal(settle(c, job)[0], "CANCELLED", "after scancel")
    c.run("salloc", "-p", "nowhere", "true", user=USER).refused("salloc: error: Job submit/allocate failed: ")


@test()
def test_allocation_waits(t):
    """What waits says so; interrupted while it waits it goes; --immediate does not wait."""
    c = t.cluster(controllers=1, nodes=1)
    holder = c.sbatch("--exclusive", "--wrap", "sleep 300", user=USER)
    wait_until("the holder to run", 30, lambda: c.states(holder)[holder][0] == "RUNNING")
    full = local.environment(c.c)
    waiting = subprocess.Popen(["salloc", "-n1", "true"], env=full, cwd=c.home, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    first = waiting.stderr.readline()
    job = job_of(first)
    equal(first, "salloc: Pending job allocation %d\n" % job, "salloc's first line")
    equal(waiting.stderr.readline(), "salloc: job %d queued and waiting for resources\n" % job, "its second")
    step = subprocess.Popen(["srun", "-n1", "true"], env=full, cwd=c.home, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    line = step.stderr.readline()
    check(re.fullmatch(r"srun: job [0-9]+ queued and waiting for resources\n", line), "srun says %r", line)
    step.send_signal(signal.SIGINT)
    check("has been revoked" in step.stderr.read() and step.wait(30) == 1, "an interrupted srun")
    c.run("srun", "--immediate", "-n1", "true").refused("srun: error: Unable to allocate resources: ")
    c.run("scancel", holder, user=USER).ok()
    rest = waiting.stderr.read().splitlines()
    equal(waiting.wait(30), 0, "salloc's exit code")
    equal(rest, ["salloc: job %d has been allocated resources" % job, "salloc: Granted job allocation %d" % job,
                 "salloc: Nodes n1 are ready for job", "salloc: Relinquishing job allocation %d" % job], "the lines after")
    wait_until("an empty queue", 30, lambda: not c.run("squeue", "-h").ok().out.strip())


@test()
def test_allocation_ends(t):
    """The allocation goes with whoever holds it, and the command hears of its end."""
    c = t.cluster(controllers=1, nodes=1, settings={"KillWait": "2"})
    full = local.environment(c.c)
    for number in (signal.SIGKILL, signal.SIGTERM, signal.SIGHUP):
        holder = subprocess.Popen(["salloc", "-n1", "sleep", "300"], env=full, cwd=c.home, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL,
                                  text=True, start_new_session=True)
        job = job_of(holder.stderr.readline())
        check("ready for job" in holder.stderr.readline(), "the nodes are not ready")
        holder.send_signal(number)
        holder.wait(30)
        state = settle(c, job)
        check(state[0] in ("CANCELLED", "FAILED"), "after %s of salloc: %s", number, state)
        if number == signal.SIGKILL:
            subprocess.run(["sh", "-c", "for p in $(ps -e -o pid=,args= | awk '$2==\"sleep\" && $3==300 {print $1}'); do "
                            "tr '\\0' '\\n' </proc/$p/environ | grep -qx SLURM_JOB_ID=%d && kill $p; done; true" % job], check=True)
    holder = subprocess.Popen(["salloc", "-n1", "sleep", "5"], env=full, cwd=c.home, stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True)
    job = job_of(holder.stderr.readline())
    check("ready for job" in holder.stderr.readline(), "the nodes are not ready")
    c.run("scancel", job).ok()
    equal(holder.stderr.readline(), "salloc: Job allocation %d has been revoked.\n" % job, "after scancel")
    holder.wait(30)
    step = subprocess.Popen(["srun", "-n1", "sh", "-c", "echo $SLURM_JOB_ID; exec sleep 300"], env=full, cwd=c.home, stdout=subprocess.PIPE,
                            stdin=subprocess.DEVNULL, text=True)
    job = int(step.stdout.readline())
    step.kill()
    step.wait(30)
    equal(settle(c, job), ("CANCELLED", "0:0"), "after kill -9 of srun")
    dead = c.run("srun", "-n1", "-J", "killed", "sh", "-c", "kill -9 $$")
    equal(dead.code, 137, "srun's exit code when a signal ended its task")
    wait_until("the signal as the job's end", 30, lambda: "FAILED|0:9" in c.run("sacct", "-X", "-n", "-P", "--name", "killed", "-o", "State,ExitCode").ok().out)


@test(build="plain")
def test_early_signal(t):
    """A signal that comes while tasks are being started reaches them: the first failure ends the others at once, on every node."""
    c = t.cluster(controllers=1, nodes=2, cpus=8)
    kept = c.run("salloc", "--no-shell", "-N2", "-n16", user=USER).ok()
    job = job_of(kept.err)
    inside = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2", "SLURM_NTASKS": "16"}
    for _ in range(5):
        done = c.run("srun", "-K", "-n16", "sh", "-c", "[ $SLURM_PROCID = 0 ] && exit 3; exec sleep 100", env=inside, user=USER, timeout=25)
        check(done.code and done.code > 0, "srun -K goes on after a failed task: %s %r", done.code, done.err)
    c.run("scancel", job, user=USER).ok()


@test()
def test_nodes(t):
    """Where tasks go, what they are told, their exit codes and streams, over two nodes with four CPUs each."""
    c = t.cluster(controllers=1, nodes=2, cpus=4)
    say = "echo $SLURM_PROCID $SLURM_NODEID $SLURM_LOCALID $SLURMD_NODENAME $SLURM_STEP_NODELIST $SLURM_NTASKS $SLURM_NNODES"

    def step(*words):
        done = c.run("srun", *words, "sh", "-c", say, env=inside, user=USER).ok()
        return sorted(done.out.splitlines(), key=lambda line: int(line.split()[0]))

    kept = c.run("salloc", "--no-shell", "-N2", "-n8", user=USER).ok()
    job = job_of(kept.err)
    inside = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n[1-2]", "SLURM_NNODES": "2", "SLURM_NTASKS": "8"}
    both = "n[1-2]"
    equal(step("-n3"), ["0 0 0 n1 %s 3 2" % both, "1 0 1 n1 %s 3 2" % both, "2 1 0 n2 %s 3 2" % both], "three tasks in blocks")
    equal(step("-n3", "-m", "cyclic"), ["0 0 0 n1 %s 3 2" % both, "1 1 0 n2 %s 3 2" % both, "2 0 1 n1 %s 3 2" % both], "three tasks in turn")
    equal(step("-N1", "-n2"), ["0 0 0 n1 n1 2 1", "1 0 1 n1 n1 2 1"], "one node")
    equal(step("-N1", "-n1", "-r1"), ["0 0 0 n2 n2 1 1"], "the second node by -r")
    equal(step("-n1", "-w", "n2"), ["0 0 0 n2 n2 1 1"], "the second node by name")
    equal(step("-n1", "-x", "n1", "-N1"), ["0 0 0 n2 n2 1 1"], "not the first node")
    equal(len(step()), 8, "tasks of a step without options")
    for words in (("-w", "n9"), ("-N3",), ("-n9",), ("-w", "n1", "-x", "n1")):
        c.run("srun", *words, "true", env=inside, user=USER).refused("srun: error: Unable to create step for job %d" % job)
    bad = c.run("srun", "-n8", "sh", "-c", "exit $SLURM_PROCID", env=inside, user=USER)
    equal(bad.code, 7, "the highest exit code")
    check("srun: error: n2: task 7: Exited with exit code 7" in bad.err, "failures are told as %r", bad.err)
    began = time.monotonic()
    equal(c.run("srun", "-K", "-n8", "sh", "-c", "[ $SLURM_PROCID = 0 ] && exit 3; sleep 100", env=inside, user=USER).code > 0, True, "-K")
    check(time.monotonic() - began < 90, "-K did not end the other node's tasks")
    text = "".join("line %d\n" % n for n in range(20000))
    got = c.run("srun", "-n2", "-N2", "sh", "-c", "cat", env=inside, user=USER, stdin=text).ok().out
    equal((len(got), sorted(set(got.splitlines())) == sorted(text.splitlines())), (2 * len(text), True), "stdin to two nodes and back")
    labelled = c.run("srun", "-l", "-n8", "echo", "x", env=inside, user=USER).ok().out
    equal(sorted(labelled.splitlines()), ["%d: x" % n for n in range(8)], "labels")
    first = subprocess.Popen(["srun", "-N2", "-n2", "--exact", "sleep", "3"], env=dict(local.environment(c.c), **inside), cwd=c.home)
    equal(c.run("srun", "-N2", "-n6", "--exact", "true", env=inside, user=USER).code, 0, "a second step beside the first")
    busy = c.run("srun", "-n8", "true", env=inside, user=USER).ok()
    if "creation temporarily disabled" not in busy.err:
        check(first.poll() is not None, "a step got CPUs that were not free: %r", busy.err)
    first.wait(60)
    rows = c.run("sacct", "-n", "-P", "-j", job, "-o", "JobID,State,NodeList,NTasks").ok()
    wait_until("the steps in sacct", 30, lambda: "%d.0|COMPLETED|n[1-2]|3" % job in c.run("sacct", "-n", "-P", "-j", job, "-o", "JobID,State,NodeList,NTasks").ok().out)
    check(rows.code == 0, "sacct: %r", rows.err)
    one = c.run("srun", "-N1", "-n1", "--cpu-bind=verbose,map_cpu:0", "grep", "Cpus_allowed_list", "/proc/self/status", env=inside, user=USER).ok()
    check(re.fullmatch(r"Cpus_allowed_list:\t[0-9]+\n", one.out), "map_cpu:0 gave %r", one.out)
    check(re.match(r"cpu-bind=MASK - n1, task  0  0 \[[0-9]+\]: mask 0x[0-9a-f]+ set\n", one.err), "verbose said %r", one.err)
    for bad in ("--cpu-bind=sideways", "--cpu-bind=map_cpu:99", "--distribution=sideways"):
        c.run("srun", "-n1", bad, "true", env=inside, user=USER).refused("srun: error: ")
    running = subprocess.Popen(["srun", "-N2", "sleep", "300"], env=dict(local.environment(c.c), **inside), cwd=c.home, stderr=subprocess.PIPE, text=True)
    wait_until("sleeps on both nodes", 30, lambda: len(glob.glob("/sys/fs/cgroup/*/muster_%s/n[12]/job_%d_1/step_*" % (c.c["name"], job))) > 1)
    c.run("scancel", job, user=USER).ok()
    check(running.wait(60) != 0, "a cancelled step ended well")
    equal(settle(c, job)[0], "CANCELLED", "the allocation")


@test()
def test_other_host(t):
    """A client that has no agent's socket comes over TCP and proves that it knows the job's key."""
    c = t.cluster(controllers=1, nodes=2)
    away = os.path.join(c.dir, "away")
    os.makedirs(away)
    os.chmod(away, 0o755)
    conf = open(local.environment(c.c)["SLURM_CONF"]).read()
    run_dir = re.search(r"^MusterRunDir=(.*)$", conf, re.M).group(1)
    for path in glob.glob(run_dir + "/musterd.*.sock"):
        os.symlink(path, os.path.join(away, os.path.basename(path)))
    other = os.path.join(c.dir, "away.conf")
    with open(other, "w") as f:
        f.write(conf.replace("MusterRunDir=" + run_dir, "MusterRunDir=" + away))
    env = {"SLURM_CONF": other}
    equal(sorted(c.run("srun", "-N2", "sh", "-c", "echo $SLURMD_NODENAME", user=USER, env=env).ok().out.split()), ["n1", "n2"], "srun from another host")
    done = c.run("salloc", "-N2", "srun", "-l", "echo", "here", user=USER, env=env).ok()
    equal(sorted(done.out.splitlines()), ["0: here", "1: here"], "salloc from another host")
    kept = job_of(c.run("salloc", "--no-shell", "-n1", user=USER, env=env).ok().err)
    check(c.run("srun", "--jobid=%d" % kept, "true", user="daemon", env=env).code != 0, "another user's step was started")
    c.run("scancel", kept, user=USER).ok()
    equal(settle(c, kept)[0], "CANCELLED", "the allocation")


@test()
def test_terminal(t):
    """srun --pty: a terminal of its size, keys that become signals there, and a change of the size."""
    c = t.cluster(controllers=1, nodes=1)
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 33, 77, 0, 0))
    child = subprocess.Popen(["srun", "--pty", "sh"], env=dict(local.environment(c.c), PS1="ready> "), cwd=c.home, stdin=slave, stdout=slave, stderr=slave,
                             start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
    os.close(slave)
    seen = ""

    def expect(word):
        nonlocal seen
        end = time.monotonic() + 30
        while word not in seen:
            check(time.monotonic() < end and select.select([master], [], [], 30)[0], "%r is not in %r", word, seen)
            seen += os.read(master, 4096).decode()
        seen = seen[seen.index(word) + len(word):]

    expect("ready> ")
    os.write(master, b"stty size; tty | cut -c1-8\n")
    expect("33 77\r\n/dev/pts")
    os.write(master, b"sleep 100\n")
    time.sleep(0.5)
    os.write(master, b"\x03")
    expect("ready> ")
    fcntl.ioctl(master, termios.TIOCSWINSZ, struct.pack("HHHH", 20, 60, 0, 0))
    time.sleep(0.5)
    os.write(master, b"stty size\n")
    expect("20 60")
    os.write(master, b"exit 5\n")
    equal(child.wait(30), 5, "the exit code")
    os.close(master)
    wait_until("an empty queue", 30, lambda: not c.run("squeue", "-h").ok().out.strip())


@test()
def test_bindings(t):
    """Memory nodes and GPUs of each task, counts that stay, a program that comes along, and a question without a job."""
    c = t.cluster(controllers=1, nodes=1, cpus=4)
    job = job_of(c.run("salloc", "--no-shell", "-n2", user=USER).ok().err)
    inside = {"SLURM_JOB_ID": str(job), "SLURM_JOB_NODELIST": "n1", "SLURM_NNODES": "1", "SLURM_NTASKS": "2"}
    done = c.run("srun", "-n2", "--mem-bind=verbose,map_mem:0", "grep", "-c", "bind:0", "/proc/self/numa_maps", env=inside, user=USER)
    if os.path.exists("/proc/self/numa_maps"):
        check(done.code == 0 and all(int(n) > 0 for n in done.out.split()), "tasks bound to memory node 0: %s %r %r", done.code, done.out, done.err)
    equal(len(re.findall(r"mem-bind=MASK - n1, task +[01] +[01] \[[0-9]+\]: mask 0x1 set", done.err)), 2, "what a verbose binding says")
    c.run("srun", "-n1", "--mem-bind=local", "true", env=inside, user=USER).ok()
    for words in (("--mem-bind=near",), ("--gpu-bind=nearest",), ("--tres-bind=gres/nic:closest",), ("--send-libs", "--bcast"), ("--test-only",)):
        c.run("srun", "-n1", *words, "true", env=inside, user=USER).refused("srun: error: ")
    kept = c.run("srun", "-n1", "-E", "sh", "-c", "echo $SLURM_NTASKS $SLURM_NNODES", env=dict(inside, SLURM_NNODES="7"), user=USER)
    equal(kept.out, "2 7\n", "counts that stay")
    program = c.script("#!/bin/sh\necho $0 $1\n", name="program")
    os.chmod(program, 0o755)
    target = os.path.join(c.home, "copied")
    equal(c.run("srun", "-n1", "--bcast=" + target, program, "word", env=inside, user=USER).ok().out, "%s word\n" % target, "a program that was copied")
    line = c.run("srun", "-n1", "--bcast", program, "word", env=inside, user=USER).ok().out
    check(re.fullmatch(r"%s/slurm_bcast_%d_[0-9]+_program word\n" % (re.escape(c.home), job), line), "a copy without a name: %r", line)
    c.run("scancel", job, user=USER).ok()
    test_only = c.run("srun", "--test-only", "-n1", "true", user=USER).ok()
    check("to start at" in test_only.err and "on nodes n1" in test_only.err, "srun --test-only: %r", test_only.err)


@test()
def test_gpus_per_task(t):
    """--gpus-per-task shows each task its own devices: in srun alone, and in a script that asked for it; the script itself sees all."""
    c = t.cluster(controllers=1, nodes=1)
    show = "echo $SLURM_PROCID $CUDA_VISIBLE_DEVICES"

    def seen(*words):
        return sorted(c.run("srun", "--mem", "64", *words, "sh", "-c", show, user=USER).ok().out.splitlines())
    if not c.run("srun", "--mem", "64", "--gpus=2", "true", user=USER).code == 0:
        raise Skip("this kernel has fewer than two character devices that may stand in for GPUs")
    equal(seen("-n2", "--gpus-per-task=1"), ["0 0", "1 1"], "a device each")
    equal(seen("-n2", "--gpus-per-task=test:1", "--gpu-bind=none"), ["0 0,1", "1 0,1"], "not bound")
    equal(seen("-n2", "--gpus=2"), ["0 0,1", "1 0,1"], "devices for the whole job")
    for how, devices in (("map_gpu:1,0", "10"), ("single:2", "00"), ("single:1", "01"), ("mask_gpu:2", "11"), ("per_task:1", "01")):
        equal(seen("-n2", "--gpus=2", "--gpu-bind=" + how), ["0 " + devices[0], "1 " + devices[1]], "--gpu-bind=" + how)
    equal(seen("-n2", "--gpus=2", "--tres-bind=gres/gpu:single:1"), ["0 0", "1 1"], "--tres-bind")
    job = c.sbatch("--mem-per-cpu", "32", "-n2", "--gpus-per-task=1", "-o", "gpus.%j", "--wrap", "echo batch $CUDA_VISIBLE_DEVICES; srun sh -c '%s' | sort" % show, user=USER)
    equal(c.wait_ended(job)[job][:2], ("COMPLETED", "0:0"), "the job")
    equal(c.read("gpus.%d" % job), "batch 0,1\n0 0\n1 1\n", "the script's steps")


@test(build="plain")
def test_reader_gone(t):
    """Who reads the first lines only ends the tasks by SIGPIPE, as in a pipe on one host; who ignores that goes on."""
    c = t.cluster(controllers=1, nodes=1)
    done = c.run("bash", "-c", "srun yes | head -2; echo ${PIPESTATUS[*]}").ok()
    equal(done.out, "y\ny\n141 0\n", "two lines and the ends")
    done = c.run("bash", "-c", "srun sh -c 'trap \"\" PIPE; yes | head -c 1000000; echo over >%s/over' | head -1; echo ${PIPESTATUS[*]}" % c.home).ok()
    equal(done.out, "y\n0 0\n", "one line and the ends")
    equal(c.read("over"), "over\n", "what the task did after it")


@test(build="plain")
def test_hung_node(t):
    """Who waits for a node that takes requests and answers none can leave by a signal, and the job is given back."""
    c = t.cluster(controllers=1, nodes=1)
    local.signal_daemon(c.c, "n1", signal.SIGSTOP)
    try:
        waits = subprocess.Popen(["srun", "-n1", "true"], env=local.environment(c.c), cwd=c.home, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        wait_until("the job to run", 30, lambda: c.run("squeue", "-h", "-o", "%t").ok().out == "R\n")
        waits.terminate()
        err = waits.communicate(timeout=50)[1]  # it would wait 60 s for the answer
        check(waits.returncode == 1 and "has been revoked" in err, "srun: %s %r", waits.returncode, err)
        equal(c.run("squeue", "-h", "-o", "%t").ok().out, "CG\n", "the job")
    finally:
        local.signal_daemon(c.c, "n1", signal.SIGCONT)
    wait_until("the job to be over", 30, lambda: not c.run("squeue", "-h").ok().out)
    check(c.run("sacct", "-n", "-X", "-P", "-o", "State").ok().out.startswith("CANCELLED"), "the job's state")


@test(build="plain")
def test_step_counts(t):
    """Many tasks in one step, each heard once; many steps in one job, none lost; many bytes through one, none changed."""
    c = t.cluster(controllers=1, nodes=4)
    tasks, steps, mib = size("step_tasks"), size("steps_in_a_row"), size("stream_mib")
    done = c.run("srun", "-N4", "-n%d" % tasks, "--overcommit", "sh", "-c", "echo $SLURM_PROCID of $SLURM_NTASKS", user=USER, timeout=60 + tasks // 4).ok()
    equal(sorted(done.out.splitlines()), sorted("%d of %d" % (k, tasks) for k in range(tasks)), "what the tasks said")
    job = c.sbatch("-o", "steps.out", "-e", "/dev/null", "--wrap", "for i in $(seq %d); do srun -n1 sh -c 'exit '$((i %% 7)); echo $?; done" % steps, user=USER)
    equal(c.wait_ended(job, seconds=60 + steps)[job][0], "COMPLETED", "the job of steps")
    equal(c.read("steps.out").split(), [str(i % 7) for i in range(1, steps + 1)], "the steps' exit codes")
    rows = c.run("sacct", "-n", "-P", "-j", job, "-o", "JobID,ExitCode").ok().out.split()
    equal([row for row in rows if re.match(r"[0-9]+\.[0-9]", row)], ["%d.%d|%d:0" % (job, i, (i + 1) % 7) for i in range(steps)], "the steps in sacct")
    with open(os.path.join(c.home, "bytes.py"), "w") as f:
        f.write("import random, sys\ndraw = random.Random(%d)\nfor _ in range(%d):\n    sys.stdout.buffer.write(draw.randbytes(1 << 20))\n" % (t.seed, mib))
    draw, whole = random.Random(t.seed), hashlib.md5()
    for _ in range(mib):
        whole.update(draw.randbytes(1 << 20))
    through = c.run("sh", "-c", "python3 bytes.py | srun -n1 cat | md5sum", timeout=60 + mib // 4).ok().out
    equal(through.split()[0], whole.hexdigest(), "the sum of %d MiB through srun" % mib)


@test()
def test_manager_restart(t):
    """A step on two nodes keeps what it was given while its step manager is restarted; its srun leads it to its end."""
    c = t.cluster(controllers=1, nodes=2, cpus=2)
    job = job_of(c.run("salloc", "-N2", "-n4", "--no-shell", user=USER).ok().err)
    first = subprocess.Popen(["setpriv", "--reuid", USER, "--regid", "nogroup", "--clear-groups", "srun", "--jobid=%d" % job, "-N2", "-n4", "--exact", "sh", "-c",
                              "echo up; read word; exit 3"], env=local.environment(c.c), cwd=c.home, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                             stderr=subprocess.DEVNULL, text=True)
    equal([first.stdout.readline() for _ in range(4)], ["up\n"] * 4, "its tasks")
    c.kill("n1")
    c.start("n1")
    for node in ("n1", "n2"):
        other = c.run("srun", "--jobid=%d" % job, "-w", node, "-N1", "-n1", "--exact", "--immediate", "echo", "given twice", user=USER)
        check(other.code != 0 and not other.out and "are busy" in other.err, "another step on %s: %s %r %r", node, other.code, other.out, other.err)
    first.communicate("end\n", timeout=60)
    equal(first.returncode, 3, "srun's exit code")
    c.run("srun", "--jobid=%d" % job, "-N2", "-n4", "--exact", "true", user=USER).ok()
    c.run("scancel", job, user=USER).ok()
    settle(c, job)
    want = ["%d.0|FAILED|3:0" % job, "%d.1|COMPLETED|0:0" % job]
    wait_until("the steps in the accounts", 30, lambda: [row for row in c.run("sacct", "-nP", "-j", job, "-o", "JobID,State,ExitCode").ok().out.split()
                                                         if "." in row] == want)
