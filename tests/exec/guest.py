#!/usr/bin/env python3
"""This room's tests where cgroup v2 is all there is: the guest of tests/cluster/guest.py, booted with the test programs as its only work.

    guest.py BUILD_DIR [PROGRAM ...]     by default cgroup, with MUSTER_TEST_SIZE=full all; exit 77 where qemu or the kernel cannot be had"""
import os
import shutil
import subprocess
import sys
import tempfile

TOP = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(TOP, "tests/cluster"))
sys.dont_write_bytecode = True
import guest  # noqa: E402
from harness import Skip  # noqa: E402

TOOLS = ("bash", "sh", "cat", "sleep", "true", "echo", "kill", "mkdir", "mount", "ls", "rm", "grep", "id", "chmod", "dd", "head", "tee", "yes", "setsid",
         "umount", "seq", "test", "tail")
ARGUMENTS = {"cgroup": "", "shepherd": "/muster/muster-shepherd", "agent": "/muster/muster-agent"}
INIT = """#!/bin/bash
export PATH=/usr/bin:/bin HOME=/root MUSTER_TEST_SIZE=fast
mount -t proc proc /proc; mount -t sysfs sys /sys; mount -t devtmpfs dev /dev; mkdir -p /dev/pts; mount -t devpts pts /dev/pts
mount -t tmpfs tmp /tmp; mount -t cgroup2 cgroup2 /sys/fs/cgroup; chmod 1777 /tmp
echo "guest: $(cat /sys/fs/cgroup/cgroup.controllers)"
%s
echo "guest: done"
echo b > /proc/sysrq-trigger
sleep 100
"""


def image(root, build, names):
    tree = guest.Tree(root)
    for name in TOOLS:
        path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        tree.put(os.path.realpath(path), "/usr/bin/" + name)
    for program in ("muster-agent", "muster-shepherd"):
        tree.put(os.path.join(build, "exec", program), "/muster/" + program)
    for name in names:
        tree.put(os.path.join(build, "tests/exec/test_exec_" + name), "/muster/test_" + name)
    tree.write("etc/passwd", "root:x:0:0:root:/root:/bin/bash\nnobody:x:65534:65534::/:/bin/sh\n")
    tree.write("etc/group", "root:x:0:\nnogroup:x:65534:\n")
    tree.write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
    runs = "\n".join('/muster/test_%s %s; echo "guest: %s ended with $?"' % (n, ARGUMENTS[n], n) for n in names)
    tree.write("init", INIT % runs, 0o755)
    archive = root + ".cpio"
    subprocess.run("find . | cpio -o -H newc --quiet > %s" % archive, shell=True, cwd=root, check=True)
    return archive


def main():
    build = os.path.abspath(sys.argv[1])
    size = os.environ.get("MUSTER_TEST_SIZE", "ci")
    names = sys.argv[2:] or {"fast": [], "ci": ["cgroup"]}.get(size, list(ARGUMENTS))
    if not names:
        print("skipped: booting a guest takes half a minute")
        return 77
    with tempfile.TemporaryDirectory(prefix="muster_guest_") as place:
        try:
            guest.need_qemu()
            linux = guest.kernel(os.path.join(TOP, "build-guest"))
        except Skip as why:
            print("skipped:", why)
            return 77
        archive = image(os.path.join(place, "root"), build, names)
        child = subprocess.run(["timeout", "280", "qemu-system-x86_64", "-M", "q35", "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "1536",
                                "-nographic", "-no-reboot", "-nic", "none", "-kernel", linux, "-initrd", archive, "-append",
                                "console=ttyS0 quiet panic=-1 reboot=t cgroup_no_v1=all mitigations=off rdinit=/init"],
                               stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    print(child.stdout)
    return 0 if all("guest: %s ended with 0" % name in child.stdout for name in names) else 1


if __name__ == "__main__":
    sys.exit(main())
