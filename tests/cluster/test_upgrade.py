"""Rolling upgrade: programs of level n and n+1 side by side, in every order of restart."""
import itertools
import os
import re
import subprocess
import time

import wire
from harness import TOP, USER, check, equal, local, test, wait_until
from load import Load
from test_kills import FAST


def own_level():
    with open(os.path.join(TOP, "proto/version.h")) as f:
        return int(re.search(r"define MU_LEVEL (\d+)u?", f.read()).group(1))


def next_build(level):
    """A build whose programs know one level more."""
    where = os.path.join(TOP, "build-next")
    if not os.path.exists(os.path.join(where, "build.ninja")):
        subprocess.run(["meson", "setup", where, "-Dc_args=-DMU_LEVEL=%du" % level], cwd=TOP, check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", where, "log/ctld/musterd", "log/ctld/muster-history"], cwd=TOP, check=True, stdout=subprocess.DEVNULL)
    return where


def level_of(c, name):
    answer = wire.fields(wire.one(wire.request(c.socket(name), wire.field(wire.ASK_DIGEST, b"")), 22, b""))
    return wire.one(answer, 5)


def use(c, name, build):
    """The controller's program from its next start on."""
    c.c["controllers"][name]["build"] = build


@test(sizes="ci full", build="plain", seconds=600)
def test_upgrade(t):
    level = own_level()
    old, new = os.environ["MUSTER_BUILD"], next_build(level + 1)
    orders = list(itertools.permutations(("c1", "c2", "c3")))
    for number, order in enumerate(orders if os.environ["MUSTER_TEST_SIZE"] == "full" else t.draw.sample(orders, 2)):
        c = t.cluster("c%d" % number, nodes=1, settings=FAST)
        load = Load(c, 3)
        try:
            for name in order:
                time.sleep(t.draw.uniform(0.5, 1.5))
                equal(level_of(c, c.leader()), level, "level before the last upgrade")
                c.stop(name)
                use(c, name, new)
                c.start(name)
                wait_until("%s after its upgrade" % name, 30, lambda: wire.digest(c.socket(name), 5)[0] > 0)
            wait_until("level %d after the last upgrade" % (level + 1), 30, lambda: level_of(c, c.leader()) == level + 1)
        finally:
            load.stop()
        load.verify()
        c.check_equal()
        c.sbatch("-H", "--wrap", "true", user=USER)
        victim = t.draw.choice(order)
        c.stop(victim)
        done = c.run(local.find_program(old, "musterd"), "-D", "-f", os.path.join(c.dir, "muster.conf"), "-n", victim, timeout=20)
        with open(os.path.join(c.dir, "log", victim + ".log"), errors="replace") as f:
            words = done.err + f.read()[-3000:]
        check(done.code not in (None, 0), "a program of level %d runs on a State of level %d", level, level + 1)
        check("level" in words, "the refusal does not name the level: %r", words[-400:])
        c.start(victim)
        # A history with events of the new level needs the new program.
        link = os.path.join(c.dir, "bin", "muster-history")
        os.unlink(link)
        os.symlink(os.path.join(new, "log/ctld/muster-history"), link)
        c.check_history()
        t.say("order %s: no divergence, downgrade refused", " ".join(order))
        c.down()
