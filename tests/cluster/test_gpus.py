"""GPUs, found through a library that answers as NVML does (tests/exec/fake_nvml.c): what is known of them, what a job is told, what
happens when one fails, what is counted."""
import json
import os

from harness import USER, Skip, check, equal, local, test, wait_until
from test_steps import settle

SHOW = "echo cuda=$CUDA_VISIBLE_DEVICES nvidia=$NVIDIA_VISIBLE_DEVICES rocr=${ROCR_VISIBLE_DEVICES-none} job=$SLURM_JOB_GPUS on=$SLURM_GPUS_ON_NODE"


def cluster(t, **options):
    try:
        return t.cluster(controllers=1, gpus=0, nvml=8, settings={"SelectTypeParameters": "CR_Core_Memory", "MusterHeartbeat": "2"}, **options)
    except local.Trouble as trouble:
        if "stand in" in str(trouble):
            raise Skip(str(trouble))
        raise


def cards(c, node, change):
    """Puts what CHANGE makes of NODE's cards into their place."""
    path = os.path.join(local.gpu_root(c.c, node), "cards")
    with open(path) as f:
        text = f.read()
    local.write(path, change(text))


def shown(c, *words):
    """A record of scontrol as a dictionary; the last value of a key."""
    return dict(word.split("=", 1) for word in c.run("scontrol", "-o", "show", *words).ok().out.split() if "=" in word)


def drained(c, node, reason):
    """Waits until NODE is drained for REASON."""
    def look():
        out = c.run("scontrol", "show", "node", node).ok().out
        return "DRAIN" in out and reason in out
    wait_until("%s drained for %s" % (node, reason), 60, look)


@test()
def test_gpus(t):
    """Inventory by scontrol, JSON and the agent's -G; links choose the cards; the variables; the fence; parts of a card; too few cards."""
    c = cluster(t, nodes=1, cpus=8)
    out = c.run("scontrol", "show", "node", "n1", "-d").ok().out
    check("Gres=gpu:h100:8(S:0-7)" in out and "GresDrain=N/A" in out, "the node's gres: %s", out)
    check("GresIdx=gpu:5 UUID=GPU-00000005 PCI=00000000:15:00.0 File=/dev/nvidia5 Memory=81559M Cores=4-7 Links=0,0,0,0,6,-1,6,6" in out,
          "card 5 of %s", out)
    node = json.loads(c.run("scontrol", "show", "node", "n1", "--json").ok().out)["nodes"][0]
    equal([(d["uuid"], d["links"][:4], d["files"]) for d in node["gres_devices"][:1]], [("GPU-00000000", [-1, 6, 6, 6], ["/dev/nvidia0"])], "in JSON")
    agent = local.describe(c.c, "n1")["env"]
    out = c.run("muster-agent", "-G", "-N", "n1", "--emulate", env=agent).ok().out.splitlines()
    equal(len(out), 8, "lines of -G")
    check(out[4].startswith("Gres Name=gpu Type=h100 Count=1 Index=4 File=/dev/nvidia4 Cores=4-7 CoreCnt=8 Links=0,0,0,0,-1,6,6,6 Flags=HAS_FILE,HAS_TYPE,ENV_NVML"),
          "-G says %s", out[4])
    check("Found gpu:nvidia_h100_80gb_hbm3:8 with AutoDetect=nvml" in c.run("muster-agent", "-C", env=agent).ok().out, "-C finds no cards")
    # One card in the first group is taken: four that belong together come from the second.
    hold = c.sbatch("--gres=gpu:1", "-o", "hold", "--wrap", "echo held; sleep 1000", user=USER)
    wait_until("the first job", 60, lambda: "held" in c.read("hold", 60))
    devices = " ".join("%s/dev/nvidia%d" % (local.gpu_root(c.c, "n1"), k) for k in range(8))
    tries = "for d in %s; do (: <> $d) 2>/dev/null && printf ' %%s' ${d##*nvidia}; done; echo" % devices
    job = c.sbatch("--gres=gpu:h100:4", "-o", "four", "--wrap", SHOW + "; " + tries + "; srun --gres=gpu:1 sh -c 'echo step=$CUDA_VISIBLE_DEVICES of=$SLURM_STEP_GPUS on=$SLURM_GPUS_ON_NODE'", user=USER)
    equal(settle(c, job), ("COMPLETED", "0:0"), "the job with four cards")
    equal(c.read("four").splitlines(),
          ["cuda=0,1,2,3 nvidia=GPU-00000004,GPU-00000005,GPU-00000006,GPU-00000007 rocr=none job=4,5,6,7 on=4", " 4 5 6 7", "step=0 of=4 on=1"], "four cards")
    check("GRES=gpu:h100:4(IDX:4,5,6,7)" in c.run("scontrol", "show", "job", job, "-d").ok().out, "scontrol shows other cards")
    c.run("scancel", hold).ok()
    # Its node has released it, not only said how it ended: the node's devices are about to change.
    wait_until("the first job's release", 60, lambda: shown(c, "job", hold)["JobState"] == "CANCELLED")
    # The same cards, one in three parts, and one fewer than the file says.
    parts = "".join("part card=0 uuid=MIG-%d gi=%d ci=0 name=NVIDIA_H100_80GB_HBM3_MIG_1g.10gb mem=9728\n" % (k, 7 + k) for k in range(3))
    c.stop("n1")
    root = local.gpu_root(c.c, "n1")
    os.makedirs(root + "/proc/driver/nvidia-caps")
    os.makedirs(root + "/dev/nvidia-caps")
    local.write(root + "/proc/driver/nvidia-caps/mig-minors", "".join("gpu0/gi%d/access %d\ngpu0/gi%d/ci0/access %d\n" % (7 + k, 2 * k, 7 + k, 2 * k + 1) for k in range(3)))
    for k in range(6):
        os.link("%s/dev/nvidia%d" % (root, k + 1), "%s/dev/nvidia-caps/nvidia-cap%d" % (root, k))
    cards(c, "n1", lambda text: text.replace(" mem", " mig=1 mem", 1) + parts)
    local.write(os.path.join(c.dir, "muster.conf"), open(os.path.join(c.dir, "muster.conf")).read().replace("Gres=gpu:h100:8", "Gres=gpu:1g.10gb:3,gpu:h100:7"))
    c.run("scontrol", "reconfigure").ok()
    c.start("n1")
    c.wait_idle()
    job = c.sbatch("-n2", "--gres=gpu:1g.10gb:2", "-o", "parts", "--wrap", SHOW + "; srun -n2 --gpus-per-task=1 sh -c 'echo $CUDA_VISIBLE_DEVICES' | sort", user=USER)
    equal(settle(c, job), ("COMPLETED", "0:0"), "the job with parts")
    equal(c.read("parts").splitlines(), ["cuda=MIG-0,MIG-1 nvidia=MIG-0,MIG-1 rocr=none job=0,1 on=2", "MIG-0", "MIG-1"], "parts of a card")
    c.stop("n1")
    cards(c, "n1", lambda text: text.replace(parts.splitlines()[2], ""))
    c.start("n1")
    drained(c, "n1", "gres/gpu count reported lower than configured (9 < 10)")
    check("INVAL" in c.run("sinfo", "-h", "-N", "-o", "%T").ok().out.upper(), "sinfo: %s", c.run("sinfo", "-h", "-N", "-o", "%T").out)
    c.check_history()


@test()
def test_gpu_faults(t):
    """A fatal Xid and a card that disappears drain their node by cause and are said in their jobs, which go on; use is counted."""
    c = cluster(t, nodes=1, cpus=8)
    work = "echo began >&2; echo $$ > pid.%s; while [ ! -e go ]; do sleep 0.1; done"
    jobs = [c.sbatch("--gres=gpu:2", "-c1", "--mem=50", "-o", "out.%d" % k, "--wrap", work % k, user=USER) for k in range(3)]
    pids = [wait_until("job %d" % k, 60, lambda: c.read("pid.%d" % k, 60).strip()) for k in range(3)]
    # Three megabytes more each second would not be seen for sure; what stays is.
    cards(c, "n1", lambda text: text + "use card=0 pid=%s mem=512 util=37\nuse card=1 pid=%s mem=256 util=20\n" % (pids[0], pids[0]))

    def used():
        done = c.run("sstat", "-n", "-P", "-j", "%d.batch" % jobs[0], "-o", "TRESUsageInMax")
        return done.code == 0 and "gres/gpumem=786432K,gres/gpuutil=57" in done.out
    wait_until("sstat's figures", 60, used)
    # An error of a program on its card is nothing; one of the card is.
    cards(c, "n1", lambda text: text + "xid card=1 code=31\nxid card=3 code=79\n")
    drained(c, "n1", "gpu 3 (GPU-00000003): Xid 79")
    state = c.run("scontrol", "show", "node", "n1", "-d").ok().out
    check("GresDrain=gpu:h100:1(IDX:3)" in state and "Fault=Xid 79" in state, "the node's devices: %s", state)
    wait_until("the word in job 1's output", 60, lambda: "slurmstepd: error: GPU 3 (GPU-00000003) of node n1: Xid 79" in c.read("out.1"))
    check("SystemComment=node n1, gpu 3 (GPU-00000003): Xid 79" in c.run("scontrol", "show", "job", jobs[1]).ok().out, "scontrol show job does not say it")
    check("gpu 3 (GPU-00000003): Xid 79" in c.run("scontrol", "show", "job", jobs[1], "--trail").ok().out, "the trail does not say it")
    cards(c, "n1", lambda text: text + "lost card=5\n")
    wait_until("the word in job 2's output", 60, lambda: "GPU 5 (GPU-00000005) of node n1: it is no longer there" in c.read("out.2"))
    check("GPU" not in c.read("out.0"), "a job with healthy cards was told of them: %s", c.read("out.0"))
    equal({row[0] for row in c.states(*jobs).values()}, {"RUNNING"}, "jobs after faults")
    open(os.path.join(c.home, "go"), "w").close()
    equal([settle(c, job) for job in jobs], [("COMPLETED", "0:0")] * 3, "ends")
    done = c.run("sacct", "-n", "-P", "-j", jobs[0], "-o", "JobID,TRESUsageInMax").ok().out
    check("gres/gpumem=786432K,gres/gpuutil=57" in done, "sacct: %s", done)
    check("Xid 79" in c.run("sacct", "-X", "-n", "-P", "-j", jobs[1], "-o", "SystemComment").ok().out, "sacct does not say it")
    c.check_history()
