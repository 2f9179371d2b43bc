"""The node's limits where cgroup v2 is all there is: the tests of test_node.py in a guest."""
import os

import guest
from harness import check, test

INSIDE = ("memory", "affinity", "devices", "signals", "shepherd_killed")


@test(sizes="ci full", build="plain", seconds=600)
def test_guest_v2(t):
    lines = guest.run(t, INSIDE, os.environ["MUSTER_BUILD"], 540)
    verdicts = {line.split()[1]: line.split()[0] for line in lines if line.startswith(("PASS ", "FAIL ", "SKIP "))}
    if set(verdicts) != set(INSIDE) or "FAIL" in verdicts.values():
        print("\n".join("    guest| " + line for line in lines[-80:]))
    check(set(verdicts) == set(INSIDE), "the guest ran only %s", sorted(verdicts))
    check(set(verdicts.values()) <= {"PASS", "SKIP"} and "PASS" in verdicts.values(), "in the guest: %s", verdicts)
    t.say("%s; %s", next((line for line in lines if line.startswith("guest: kernel")), "?"),
          " ".join("%s %s" % item for item in sorted(verdicts.items())))
