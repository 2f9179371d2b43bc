"""A small Linux with cgroup v2 only, booted in qemu without KVM from Debian's cloud kernel, in which whole-cluster tests run.

The file system of the guest is one archive made of this machine's own programs: the build, python3, bash, a few tools and the libraries
that they load. Nothing is installed and nothing of the guest outlives it."""
import glob
import os
import re
import shutil
import subprocess
import sys

from harness import TOP, Skip, check, local

TOOLS = ("bash", "sh", "cat", "sleep", "true", "false", "echo", "kill", "mkdir", "mount", "ls", "date", "seq", "env", "rm", "mv", "setpriv", "grep",
         "nsenter", "id", "hostname", "chmod")
INIT = """#!/bin/bash
export PATH=/usr/bin:/bin HOME=/root LANG=C.UTF-8
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
mkdir -p /dev/shm /dev/pts
mount -t devpts pts /dev/pts
mount -t tmpfs tmp /tmp
mount -t tmpfs run /run
mount -t cgroup2 cgroup2 /sys/fs/cgroup
chmod 1777 /tmp
exec python3 -B /muster/init.py
"""
INIT_PY = """import ctypes, fcntl, os, socket, struct, subprocess, sys
with socket.socket() as s:
    fcntl.ioctl(s, 0x8914, struct.pack("16sH14x", b"lo", 0x41))
os.environ.update(MUSTER_BUILD="/muster/build", MUSTER_BUILD_SAN="/muster/build", MUSTER_SLOW="8", PYTHONDONTWRITEBYTECODE="1")
print("guest: kernel", os.uname().release, "controllers", open("/sys/fs/cgroup/cgroup.controllers").read().strip(), flush=True)
code = 0
for name in %r:
    code |= subprocess.run([sys.executable, "-B", "/muster/tests/cluster/run", "--size", "fast", "--seed", %r, "--only", "cluster/" + name], stdin=subprocess.DEVNULL).returncode
print("guest: exit code", code, flush=True)
os.sync()
ctypes.CDLL(None).reboot(0x01234567)
"""


def need_qemu():
    for program in ("qemu-system-x86_64", "cpio"):
        if not shutil.which(program):
            raise Skip("no %s on this machine" % program)


def kernel(cache):
    """Path of Debian's cloud kernel, downloaded and unpacked below CACHE, never installed."""
    found = glob.glob(os.path.join(cache, "boot/vmlinuz-*"))
    if found:
        return found[0]
    os.makedirs(cache, exist_ok=True)
    text = subprocess.run(["apt-cache", "depends", "linux-image-cloud-amd64"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
    names = re.findall(r"Depends: (linux-image-\S+)", text)
    if not names or subprocess.run(["apt-get", "download", names[0]], cwd=cache, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).returncode:
        raise Skip("the kernel package linux-image-cloud-amd64 cannot be downloaded")
    subprocess.run(["dpkg-deb", "-x", glob.glob(os.path.join(cache, "*.deb"))[0], cache], check=True)
    return glob.glob(os.path.join(cache, "boot/vmlinuz-*"))[0]


class Tree:
    """The guest's file system below a directory, each path where it is on this machine unless said otherwise."""

    def __init__(self, root):
        self.root = root
        for folder in ("proc", "sys", "dev", "tmp", "run", "root", "etc", "var/tmp", "usr/bin", "usr/lib", "usr/lib64", "usr/sbin"):
            os.makedirs(os.path.join(root, folder), exist_ok=True)
        for link in ("bin", "lib", "lib64", "sbin"):
            os.symlink("usr/" + link, os.path.join(root, link))

    def put(self, source, target=None):
        """Copies a file and, for a program or library, what it loads."""
        target = self.root + self.merged(target or source)
        if os.path.exists(target):
            return
        os.makedirs(os.path.dirname(target), exist_ok=True)
        shutil.copy2(source, target)
        self.put_libraries(source)

    @staticmethod
    def merged(path):
        return "/usr" + path if re.match(r"/(bin|sbin|lib|lib64)/", path) else path

    def put_libraries(self, source):
        with open(source, "rb") as f:
            if f.read(4) != b"\x7fELF":
                return
        text = subprocess.run(["ldd", source], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True).stdout
        for path in re.findall(r"(/\S+) \(0x", text):
            if not os.path.exists(self.root + self.merged(path)):
                os.makedirs(os.path.dirname(self.root + self.merged(path)), exist_ok=True)
                shutil.copy2(os.path.realpath(path), self.root + self.merged(path))

    def write(self, path, text, mode=0o644):
        path = os.path.join(self.root, path)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w") as f:
            f.write(text)
        os.chmod(path, mode)


def put_python(tree):
    """The interpreter and the parts of its library that the harness loads."""
    python = "/usr/bin/python3" if os.path.exists("/usr/bin/python3") else sys.executable
    text = subprocess.run([python, "-c", "import sys, sysconfig; print(sys.executable); print(sysconfig.get_path('stdlib'))"],
                          stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    tree.put(os.path.realpath(text[0]), "/usr/bin/python3")
    skip = shutil.ignore_patterns("test", "tests", "idlelib", "tkinter", "ensurepip", "lib2to3", "site-packages", "dist-packages", "__pycache__", "config-*",
                                  "pydoc_data", "turtledemo", "distutils")
    shutil.copytree(text[1], tree.root + text[1], ignore=skip, symlinks=False)
    for path in glob.glob(text[1] + "/lib-dynload/*.so"):
        tree.put_libraries(path)


def image(t, tests, build):
    """The archive of the guest's file system; gives its path."""
    tree = Tree(os.path.join(t.dir, "guest"))
    put_python(tree)
    for name in TOOLS:
        path = shutil.which(name, path="/usr/bin:/bin:/usr/sbin:/sbin")
        check(path, "no %s on this machine", name)
        tree.put(os.path.realpath(path), "/usr/bin/" + name)
    for folder, name in (("log/ctld", "musterd"), ("exec", "muster-agent"), ("exec", "muster-shepherd"), ("cli", "muster"), ("log/ctld", "muster-history")):
        path = local.find_program(build, name)
        if path:
            tree.put(path, "/muster/build/%s/%s" % (folder, name))
    for path in glob.glob(os.path.join(TOP, "tests/cluster/*")) + [os.path.join(TOP, p) for p in ("deploy/local-cluster", "tests/runner.py", "tests/sizes")]:
        if os.path.isfile(path):
            tree.put(path, "/muster" + path[len(TOP):])
    tree.write("etc/passwd", "root:x:0:0:root:/root:/bin/bash\ndaemon:x:1:1::/:/bin/sh\nnobody:x:65534:65534::/:/bin/sh\n")
    tree.write("etc/group", "root:x:0:\ndaemon:x:1:\nnogroup:x:65534:\n")
    tree.write("etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n")
    tree.write("etc/hosts", "127.0.0.1 localhost\n")
    tree.write("muster/init.py", INIT_PY % (list(tests), str(t.seed)))
    tree.write("init", INIT, 0o755)
    archive = os.path.join(t.dir, "guest.cpio")
    subprocess.run("find . | cpio -o -H newc --quiet > %s" % archive, shell=True, cwd=tree.root, check=True)
    shutil.rmtree(tree.root)
    return archive


def run(t, tests, build, seconds):
    """Boots the guest, runs these cluster tests in it, gives the lines of its console."""
    need_qemu()
    linux = kernel(os.path.join(TOP, "build-guest"))
    archive = image(t, tests, build)
    child = subprocess.run(["timeout", str(seconds), "qemu-system-x86_64", "-M", "q35", "-cpu", "max", "-accel", "tcg,thread=multi", "-smp", "2", "-m", "2048",
                            "-nographic", "-no-reboot", "-nic", "none", "-kernel", linux, "-initrd", archive, "-append",
                            "console=ttyS0 quiet panic=-1 reboot=t cgroup_no_v1=all mitigations=off rdinit=/init"],
                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace")
    return [line.strip("\r") for line in child.stdout.split("\n")]
