"""MPI programs: by srun with PMI, and by their own mpirun and mpiexec, which start their daemons with srun."""
import os
import shutil

from harness import USER, Skip, check, equal, test

# A number goes round all ranks and each adds one.
RING = """#!/usr/bin/python3
import ctypes, os, sys
mpich = sys.argv[1] == "mpich"
lib = ctypes.CDLL("libmpich.so.12" if mpich else "libmpi.so.40", ctypes.RTLD_GLOBAL)
if mpich:
    world, number, ignore = ctypes.c_int(0x44000000), ctypes.c_int(0x4c000405), ctypes.c_void_p(1)
else:
    at = lambda name: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(lib, name)))
    world, number, ignore = at("ompi_mpi_comm_world"), at("ompi_mpi_int"), ctypes.c_void_p(0)
lib.MPI_Init(None, None)
rank, size, value = ctypes.c_int(), ctypes.c_int(), ctypes.c_int(1)
lib.MPI_Comm_rank(world, ctypes.byref(rank))
lib.MPI_Comm_size(world, ctypes.byref(size))
rank, size = rank.value, size.value
if rank:
    lib.MPI_Recv(ctypes.byref(value), 1, number, rank - 1, 7, world, ignore)
    value.value += 1
lib.MPI_Send(ctypes.byref(value), 1, number, (rank + 1) % size, 7, world) if size > 1 else None
if not rank and size > 1:
    lib.MPI_Recv(ctypes.byref(value), 1, number, size - 1, 7, world, ignore)
# At once: launchers pass on what they read, and whole lines only where they are written whole.
os.write(1, ("rank %d of %d %s %d\\n" % (rank, size, os.environ.get("SLURMD_NODENAME"), value.value)).encode())
lib.MPI_Finalize()
"""
# What a program linked with libpmi2 says, without one.
WIRE = """#!/usr/bin/python3
import os, socket
pipe = socket.socket(fileno=int(os.environ["PMI_FD"]))
rank, size = int(os.environ["PMI_RANK"]), int(os.environ["PMI_SIZE"])
def read(n):
    got = b""
    while len(got) < n:
        got += pipe.recv(n - len(got))
    return got
def line():
    got = b""
    while not got.endswith(b"\\n"):
        got += pipe.recv(1)
    return got
def ask(text):
    pipe.sendall(b"%6d" % len(text) + text.encode())
    return dict(word.split("=", 1) for word in read(int(read(6))).decode().replace(";;", "\\0").strip(";").split(";"))
pipe.sendall(b"cmd=init pmi_version=2 pmi_subversion=0\\n")
assert line() == b"cmd=response_to_init pmi_version=2 pmi_subversion=0 rc=0\\n"
full = ask("cmd=fullinit;pmijobid=x;pmirank=%d;threaded=FALSE;" % rank)
assert (full["cmd"], full["rank"], full["size"]) == ("fullinit-response", str(rank), str(size)), full
assert ask("cmd=kvs-put;key=from-%d;value=a;;b-%d;" % (rank, rank))["rc"] == "0"
ask("cmd=kvs-fence;")
found = ask("cmd=kvs-get;jobid=x;srcid=0;key=from-%d;" % ((rank + 1) % size))
assert found["value"] == "a\\0b-%d" % ((rank + 1) % size), found
assert ask("cmd=kvs-get;jobid=x;srcid=0;key=none;")["found"] == "FALSE"
mapping = ask("cmd=info-getjobattr;key=PMI_process_mapping;")["value"]
if rank % 2:
    ask("cmd=info-putnodeattr;key=shared;value=%d;" % rank)
shared = ask("cmd=info-getnodeattr;key=shared;wait=TRUE;")["value"]
ask("cmd=finalize;")
print(rank, mapping, shared, flush=True)
"""


@test()
def test_pmi(t):
    """The wire of PMI-2 over two nodes, what is refused, and MPICH by srun --mpi=pmi2."""
    c = t.cluster(controllers=1, nodes=2, cpus=4)
    wire = c.script(WIRE, name="wire")
    done = c.run("srun", "--mpi=pmi2", "-N2", "-n4", "--ntasks-per-node=2", wire, user=USER).ok()
    equal(sorted(done.out.splitlines()), ["%d (vector,(0,2,2)) %d" % (k, k | 1) for k in range(4)], "four ranks on two nodes")
    listed = c.run("srun", "--mpi=list").ok().out.split("\n\t")
    equal([word.strip() for word in listed[1:]], ["none", "pmi2", "pmix"], "--mpi=list")
    c.run("srun", "--mpi=openmpi", "true").refused("--mpi=openmpi is not supported")
    equal(c.run("srun", "--mpi=none", "sh", "-c", "echo ${PMI_FD-none}", user=USER).ok().out, "none\n", "--mpi=none")
    if not shutil.which("mpiexec.mpich"):
        raise Skip("MPICH is not installed")
    ring = c.script(RING, name="ring")
    done = c.run("srun", "--mpi=pmi2", "-N2", "-n4", "--ntasks-per-node=2", ring, "mpich", user=USER).ok()
    equal(sorted(done.out.splitlines()), ["rank 0 of 4 n1 4", "rank 1 of 4 n1 2", "rank 2 of 4 n2 3", "rank 3 of 4 n2 4"], "a ring over two nodes")


@test()
def test_pmix(t):
    """OpenMPI's programs by srun --mpi=pmix and by MpiDefault over two nodes, and a step whose tasks do not ask for it."""
    if not shutil.which("mpirun.openmpi"):
        raise Skip("OpenMPI is not installed")
    c = t.cluster(controllers=1, nodes=2, cpus=4, settings={"MpiDefault": "pmix"})
    if not os.path.exists(os.path.join(os.environ["MUSTER_BUILD"], "exec", "muster-pmix")):
        raise Skip("muster-pmix was not built: libpmix-dev is not installed")
    ring = c.script(RING, name="ring")
    # Both nodes are this host: OpenMPI names its shared memory by host and place on the node.
    own = {"HOME": c.home, "OMPI_MCA_btl": "tcp,self"}
    want = ["rank 0 of 4 n1 4", "rank 1 of 4 n1 2", "rank 2 of 4 n2 3", "rank 3 of 4 n2 4"]
    for words in (("--mpi=pmix",), ()):
        done = c.run("srun", *words, "-N2", "-n4", "--ntasks-per-node=2", ring, "openmpi", user=USER, env=own).ok()
        equal(sorted(done.out.splitlines()), want, "a ring over two nodes by srun %s" % " ".join(words))
    done = c.run("srun", "--mpi=pmix", "-N2", "-n4", "--ntasks-per-node=2", "-m", "cyclic", ring, "openmpi", user=USER, env=own).ok()
    equal([line.split()[4] for line in sorted(done.out.splitlines())], ["n1", "n2", "n1", "n2"], "ranks in turn")
    equal(c.run("srun", "-n2", "sh", "-c", "echo $PMIX_RANK; exit 3", user=USER).code, 3, "tasks that are no MPI program")


@test()
def test_mpirun(t):
    """Debian's own mpiexec (MPICH) and mpirun (OpenMPI) inside an allocation, unmodified."""
    if not shutil.which("mpiexec.mpich") or not shutil.which("mpirun.openmpi"):
        raise Skip("MPICH and OpenMPI are not installed")
    c = t.cluster(controllers=1, nodes=2, cpus=4)
    ring = c.script(RING, name="ring")
    want = ["rank 0 of 4 n1 4", "rank 1 of 4 n1 2", "rank 2 of 4 n2 3", "rank 3 of 4 n2 4"]
    for words in (("mpiexec.mpich", "-n", "4", ring, "mpich"), ("mpirun.openmpi", "-n", "4", ring, "openmpi")):
        done = c.run("salloc", "-N2", "-n4", *words, user=USER, env={"HOME": c.home}).ok()
        ranks = sorted(line for line in done.out.splitlines() if line.startswith("rank"))
        check([r.split()[:4] for r in ranks] == [w.split()[:4] for w in want] and {r.split()[4] for r in ranks} == {"n1", "n2"},
              "%s printed %r, %r", words[0], done.out, done.err[-500:])
        equal([r.split()[5] for r in ranks], ["4", "2", "3", "4"], "the ring of " + words[0])


@test()
def test_mpi_het(t):
    """One ring over the components of a heterogeneous job, by PMI-2 and by PMIx."""
    c = t.cluster(controllers=1, nodes=2, cpus=4, gpus=0)
    ring = c.script(RING, name="ring")
    own = {"HOME": c.home, "OMPI_MCA_btl": "tcp,self"}
    kinds = [("pmi2", "mpich")] if shutil.which("mpiexec.mpich") else []
    if shutil.which("mpirun.openmpi") and os.path.exists(os.path.join(os.environ["MUSTER_BUILD"], "exec", "muster-pmix")):
        kinds.append(("pmix", "openmpi"))
    if not kinds:
        raise Skip("neither MPICH nor OpenMPI with muster-pmix is here")
    for kind, library in kinds:
        done = c.run("srun", "--mpi=" + kind, "-N1", "-n1", "-c4", ring, library, ":", "--mpi=" + kind, "-N1", "-n3", ring, library, user=USER, env=own).ok()
        said = [line.split() for line in sorted(done.out.splitlines())]
        equal([(words[1], words[3], words[5]) for words in said], [("0", "4", "4"), ("1", "4", "2"), ("2", "4", "3"), ("3", "4", "4")], "the ring by " + kind)
        nodes = [words[4] for words in said]
        check(nodes[0] != nodes[1] and len(set(nodes[1:])) == 1, "where they ran by %s: %s", kind, nodes)
