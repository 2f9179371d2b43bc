#!/usr/bin/env python3
"""The gates of the house. Each rule reads the tree and gives a list of sentences; none means that the rule holds.

    lint.py RULE [--top DIR] [--build DIR]     one rule; exit 1 and the sentences when it is broken
    lint.py self-test                          every rule against a small tree that breaks it

Rules on the source: includes, banned, words, length, rows, format. Rules on a build: archives, programs."""
import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile

# ---- which room may include what -------------------------------------------------------------------------------------------------

WIRE = ("wire", "auth", "stream", "loop", "clock", "diag", "fdpass", "metrics", "envelope")
# Room: (prefixes of our headers it may include, prefixes of libraries' headers it may include).
ROOMS = {
    "proto/base": (["proto/base/", "proto/errors.def"], []),
    "proto": (["proto/"], ["protobuf-c/"]),
    "sched": (["sched/", "proto/"], []),
    "log/wire": (["proto/base/"] + ["log/%s%s" % (w, end) for w in WIRE for end in "._"],
                 ["uv.h", "sodium", "munge.h", "protobuf-c/", "systemd/"]),
    "log": (["proto/base/", "log/"], ["uv.h", "raft.h", "raft/", "sodium", "protobuf-c/"]),
    "query": (["query/", "sched/", "proto/"], ["rocksdb/", "zstd.h"]),
    "log/ctld": (["log/", "sched/", "query/", "proto/"], ["uv.h", "protobuf-c/"]),
    "exec": (["exec/", "proto/"] + ["log/%s." % w for w in WIRE], ["hwloc", "protobuf-c/"]),
    "cli": (["cli/", "proto/", "log/entry."] + ["log/%s." % w for w in WIRE if w not in ("loop", "clock", "metrics", "fdpass")], ["protobuf-c/"]),
}
# What no file of log/ may include although the prefix log/ would allow it.
FORBIDDEN = {"log": ["log/ctld/"], "proto": [], "log/wire": ["log/ctld/"]}
LIBRARIES = ("uv.h", "raft.h", "raft/", "nng/", "sodium", "munge.h", "rocksdb/", "hwloc", "protobuf-c/", "zstd.h", "systemd/",
             "criterion/")
# The scheduler and the base see a pure subset of the C library.
PURE = {"stdint.h", "stdbool.h", "stddef.h", "stdarg.h", "string.h", "strings.h", "limits.h", "inttypes.h", "stdlib.h", "assert.h",
        "errno.h", "stdalign.h", "ctype.h", "stdnoreturn.h", "endian.h"}
# Printing into memory belongs to the vocabulary; struct tm is a value there.
PURE_ROOMS = {"sched": PURE, "proto/base": PURE | {"stdio.h", "sys/random.h", "sys/types.h"}, "proto": PURE | {"stdio.h", "time.h", "signal.h", "getopt.h"}}
INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]', re.M)


def room_of(path):
    """The room a file lives in, or None where rooms do not apply."""
    parts = path.split("/")
    if parts[0] == "proto":
        return "proto/base" if len(parts) > 2 and parts[1] == "base" else "proto"
    if parts[0] == "log":
        if len(parts) > 2 and parts[1] == "ctld":
            return "log/ctld"
        return "log/wire" if parts[1].split(".")[0].split("_")[0] in WIRE else "log"
    return parts[0] if parts[0] in ("sched", "query", "exec", "cli") else None


def sources(top, endings=(".c", ".h")):
    """Paths below TOP of the source tree's files, from git where there is one."""
    listed = subprocess.run(["git", "-C", top, "ls-files", "-co", "--exclude-standard"], stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, text=True)
    if listed.returncode == 0 and os.path.exists(os.path.join(top, ".git")):
        paths = listed.stdout.splitlines()
    else:
        paths = []
        for folder, folders, files in os.walk(top):
            folders[:] = [f for f in folders if not f.startswith((".", "build"))]
            paths += [os.path.relpath(os.path.join(folder, f), top) for f in files]
    return sorted(p for p in set(paths) if p.endswith(endings) and os.path.isfile(os.path.join(top, p)))


def read(top, path):
    with open(os.path.join(top, path), encoding="utf-8", errors="replace") as f:
        return f.read()


def without_comments(text):
    """C text with comments and string contents blanked, line numbers kept."""
    def blank(match):
        piece = match.group(0)
        if piece.startswith("/"):
            return re.sub(r"[^\n]", " ", piece)
        return piece[0] + re.sub(r"[^\n]", " ", piece[1:-1]) + piece[-1]
    return re.sub(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', blank, text, flags=re.S)


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def rule_includes(top, build):
    broken = []
    for path in sources(top):
        room = room_of(path)
        if not room:
            continue
        ours, libraries = ROOMS[room]
        text = read(top, path)
        for match in INCLUDE.finditer(text):
            kind, name = match.groups()
            where = "%s:%d" % (path, line_of(text, match.start()))
            if kind == '"' and "/" not in name:
                broken.append('%s: "%s" is not written room/file.h' % (where, name))
            elif kind == '"':
                if not name.startswith(tuple(ours)) or name.startswith(tuple(FORBIDDEN.get(room, ())) or ("\0",)):
                    broken.append("%s: the room %s may not include %s" % (where, room, name))
            elif name.startswith(LIBRARIES):
                if not name.startswith(tuple(libraries) or ("\0",)):
                    broken.append("%s: the room %s may not use <%s>" % (where, room, name))
            elif room in PURE_ROOMS and name not in PURE_ROOMS[room]:
                broken.append("%s: the room %s is pure; <%s> is outside its subset of libc" % (where, room, name))
    return broken


# ---- calls that no product file makes --------------------------------------------------------------------------------------------

BANNED = {
    "strcpy": "mu_buf or snprintf", "strcat": "mu_buf", "strncpy": "snprintf", "strncat": "mu_buf", "stpcpy": "mu_buf",
    "sprintf": "snprintf", "vsprintf": "vsnprintf", "gets": "getline", "strtok": "strtok_r", "atoi": "mu_u32_parse or strtol",
    "atol": "strtol", "atoll": "strtoll", "atof": "fixed point", "system": "posix_spawn", "popen": "posix_spawn", "tmpnam": "mkstemp",
    "mktemp": "mkstemp", "tempnam": "mkstemp", "signal": "sigaction", "alloca": "an arena", "rand": "mu_seed", "srand": "mu_seed",
    "random": "mu_seed", "localtime": "localtime_r", "gmtime": "gmtime_r", "ctime": "strftime", "asctime": "strftime",
    "vfork": "posix_spawn or clone", "readdir_r": "readdir", "getpwuid": "getpwuid_r", "getpwnam": "getpwnam_r",
    "getgrgid": "getgrgid_r", "getgrnam": "getgrnam_r", "setjmp": "an error code", "longjmp": "an error code", "creat": "open with O_CLOEXEC",
}
# In the pure rooms besides.
IMPURE = ["time", "clock", "clock_gettime", "gettimeofday", "getenv", "open", "read", "write", "close", "socket", "fopen", "printf",
          "fprintf", "puts", "fputs", "perror", "sleep", "pthread_create", "fork", "getpid", "getrandom"]
FLOATING = re.compile(r"\b(float|double|long double)\b")
CALL = re.compile(r"(?<![\w.>])([a-z_]\w*)\s*\(")


def rule_banned(top, build):
    broken = []
    for path in sources(top):
        room = room_of(path)
        if not room or path.endswith("banned.h"):
            continue
        text = without_comments(read(top, path))
        for match in CALL.finditer(text):
            name, where = match.group(1), "%s:%d" % (path, line_of(text, match.start()))
            if name in BANNED:
                broken.append("%s: %s() is banned, use %s" % (where, name, BANNED[name]))
            elif room == "sched" and name in IMPURE:
                broken.append("%s: %s() is not for the pure room %s" % (where, name, room))
        if room == "sched":
            for match in FLOATING.finditer(text):
                broken.append("%s:%d: %s in the scheduler" % (path, line_of(text, match.start()), match.group(1)))
    return broken


# ---- words, lengths, rows --------------------------------------------------------------------------------------------------------

# Written in pieces, so that this file obeys its own rule.
UNFINISHED = re.compile("|".join([r"\bTO" + r"DO\b", r"\bFIX" + r"ME\b", r"\bXX" + r"X\b", r"(?i:\bst" + r"ub\b)", "(?i:place" + "holder)",
                                  r"(?i:\bfor" + r" now\b)", "(?i:not (yet )?" + "implemented)"]))
FOREIGN = re.compile("|".join(["/wo" + "rk/", r"\bissue" + r" [0-9]+\b", r"\bhel" + r"per session", "/tmp/br" + "ief",
                               r"\bla" + r"nguage model\b"]), re.I)
WORD_ENDINGS = (".c", ".h", ".def", ".proto", ".py", ".sh", ".md", ".build", ".txt", ".service", ".conf", "/run")


def rule_words(top, build):
    broken = []
    for path in sources(top, WORD_ENDINGS):
        if path == "LICENSE":
            continue
        for number, line in enumerate(read(top, path).splitlines(), 1):
            for pattern, what in ((UNFINISHED, "sounds unfinished"), (FOREIGN, "does not belong in the product")):
                found = pattern.search(line)
                if found:
                    broken.append("%s:%d: '%s' %s" % (path, number, found.group(0), what))
    return broken


FUNCTION_LINES, FILE_LINES = 120, 1000


def functions(text):
    """(name, first line, lines) of each function body in C text laid out by clang-format: body opens and closes in column 0."""
    lines = without_comments(text).split("\n")
    start = None
    for number, line in enumerate(lines):
        if line.rstrip() == "{" and number and start is None:
            head = number - 1
            while head > 0 and lines[head - 1].strip() and not lines[head - 1].rstrip().endswith((";", "}")):
                head -= 1
            name = re.search(r"([A-Za-z_]\w*)\s*\(", " ".join(lines[head:number]))
            start = (name.group(1) if name else "?", head + 1, number)
        elif line.startswith("}") and start:
            yield start[0], start[1], number - start[1] + 2
            start = None


def rule_length(top, build):
    broken = []
    for path in sources(top):
        text = read(top, path)
        count = text.count("\n")
        if count > FILE_LINES:
            broken.append("%s: %d lines, more than %d" % (path, count, FILE_LINES))
        for name, line, length in functions(text):
            if length > FUNCTION_LINES:
                broken.append("%s:%d: %s has %d lines, more than %d" % (path, line, name, length, FUNCTION_LINES))
    return broken


ROW = re.compile(r"^([A-Z][A-Z0-9_]*)\(\s*([A-Za-z_]\w*)\s*,\s*(-?\d+)\s*[,)]", re.M)
TAG = re.compile(r"\w\s*=\s*(\d+)\s*[\[;]")


def messages(text):
    """(name, body) of each message of a .proto text, braces balanced."""
    for head in re.finditer(r"\bmessage\s+(\w+)\s*\{", text):
        depth, end = 1, head.end()
        while depth and end < len(text):
            depth += {"{": 1, "}": -1}.get(text[end], 0)
            end += 1
        yield head.group(1), text[head.end():end]


def rule_rows(top, build):
    """Numbers and names in X.def tables occur once each per table; tags of a protobuf message once each."""
    broken = []
    for path in sources(top, (".def",)):
        seen = {}
        text = read(top, path)
        for match in ROW.finditer(text):
            macro, name, number = match.groups()
            where = "%s:%d" % (path, line_of(text, match.start()))
            for kind, key in (("number", number), ("name", name)):
                if (macro, kind, key) in seen:
                    broken.append("%s: %s %s of %s is taken by %s" % (where, kind, key, macro, seen[macro, kind, key]))
                seen[macro, kind, key] = where
    for path in sources(top, (".proto",)):
        text = without_comments(read(top, path))
        for name, body in messages(text):
            tags = TAG.findall(body)
            for tag in sorted({t for t in tags if tags.count(t) > 1}):
                broken.append("%s: tag %s twice in %s" % (path, tag, name))
    return broken


def rule_format(top, build):
    """clang-format's opinion; the rule is skipped where the program is absent."""
    if not shutil.which("clang-format"):
        print("skipped: no clang-format on this machine")
        sys.exit(77)
    paths = [p for p in sources(top) if room_of(p)]
    if not paths:
        return []
    ran = subprocess.run(["clang-format", "--dry-run", "--Werror", "--ferror-limit=1"] + paths, cwd=top, text=True,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return sorted({line.split(": error")[0] + ": not as clang-format lays it out" for line in ran.stdout.splitlines() if ": error" in line})


# ---- what a build shows ----------------------------------------------------------------------------------------------------------

# Archive: other archives of ours that it may refer to, prefixes of libraries' symbols that it may refer to.
ARCHIVES = {
    "mu_base": ([], []),
    "mu_pb": ([], ["protobuf_c_"]),
    "mu_proto": (["mu_base", "mu_pb"], ["protobuf_c_"]),
    "mu_sched": (["mu_base", "mu_pb", "mu_proto"], ["protobuf_c_"]),
    "mu_sim": (["mu_base", "mu_pb", "mu_proto", "mu_sched"], ["protobuf_c_"]),
    "mu_wire": (["mu_base", "mu_envelope"], ["crypto_", "sodium_", "randombytes_", "munge_", "protobuf_c_"]),
    "mu_wire_server": (["mu_base", "mu_wire"], []),
    "mu_loop": (["mu_base", "mu_wire"], ["uv_"]),
    "mu_envelope": ([], ["protobuf_c_"]),
    "mu_entry": (["mu_base"], []),
    "mu_replica": (["mu_base", "mu_entry", "mu_wire", "mu_envelope"], ["raft_", "uv_", "crypto_", "sodium_", "randombytes_", "protobuf_c_"]),
    "mu_query": (["mu_base", "mu_pb", "mu_proto", "mu_sched"], ["rocksdb_", "protobuf_c_"]),
    "mu_exec_pb": (["mu_pb"], ["protobuf_c_"]),
    "mu_exec": (["mu_base", "mu_pb", "mu_proto", "mu_wire", "mu_loop", "mu_envelope", "mu_exec_pb"], ["hwloc_", "protobuf_c_"]),
    "mu_cli": (["mu_base", "mu_entry", "mu_pb", "mu_proto", "mu_wire", "mu_envelope"], ["protobuf_c_"]),
}
LIBRARY_SYMBOLS = ["uv_", "nng_", "crypto_", "sodium_", "randombytes_", "munge_", "protobuf_c_", "raft_", "rocksdb_", "hwloc_"]
# All that the scheduler may ask of the C library.
SCHED_SYMBOLS = {"memcpy", "memset", "memcmp", "memmove", "strlen", "strcmp", "strncmp", "strchr", "strrchr", "strstr", "strcasecmp",
                 "strncasecmp", "memchr", "malloc", "calloc", "realloc", "free", "qsort", "bsearch", "abort", "__assert_fail", "snprintf",
                 "vsnprintf", "__stack_chk_fail", "_GLOBAL_OFFSET_TABLE_", "strtol", "strtoul", "strtoll", "strtoull", "strnlen",
                 "__memcpy_chk", "__snprintf_chk", "__vsnprintf_chk", "__isoc99_sscanf", "strspn", "strcspn", "strpbrk",
                 "reallocarray", "strtok_r", "__ctype_b_loc", "tolower", "toupper", "__tls_get_addr_"}
# Program: libraries that it must not load.
PROGRAMS = {
    "muster": ["librocksdb", "libraft", "libnng", "libhwloc", "libuv"],
    "muster-shepherd": ["librocksdb", "libraft", "libnng", "libhwloc", "libuv", "libmunge"],
    "muster-agent": ["librocksdb", "libraft"],
    "musterd": ["libhwloc"],
}


def archives(build):
    found = {}
    for folder, folders, files in os.walk(build):
        folders[:] = [f for f in folders if f not in ("meson-logs", "meson-private", "meson-info")]
        for name in files:
            if name.startswith("libmu_") and name.endswith(".a"):
                found[name[3:-2]] = os.path.join(folder, name)
    return found


def symbols(archive):
    """(defined, undefined, writable) global names of an archive."""
    text = subprocess.run(["nm", "-A", archive], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    defined, undefined, writable = set(), set(), set()
    # Constant tables of pointers are relocated once, then read only: the letter does not tell them from data, the section does.
    table = subprocess.run(["nm", "-f", "sysv", archive], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    constant = {line.split("|")[0].strip() for line in table.splitlines() if line.split("|")[-1].startswith(".data.rel.ro")}
    for line in text.splitlines():
        words = line.rsplit(" ", 2)
        kind, name = words[-2], words[-1]
        if kind == "U" or kind in "wv":
            undefined.add(name)
        elif kind.isupper() or kind in "bd":
            if kind.isupper():
                defined.add(name)
            if kind in "bBdDC" and not name.startswith(".") and name not in constant:
                writable.add(name)
    return defined, undefined - defined, writable


def rule_archives(top, build):
    broken = []
    seen = {name: symbols(path) for name, path in archives(build).items()}
    home = {symbol: name for name, (defined, _, _) in seen.items() for symbol in defined}
    for name, (_, undefined, writable) in sorted(seen.items()):
        if name not in ARCHIVES:
            broken.append("lib%s.a is not in the table of archives" % name)
            continue
        others, prefixes = ARCHIVES[name]
        for symbol in sorted(undefined):
            owner = home.get(symbol)
            if owner and owner != name and owner not in others:
                broken.append("lib%s.a refers to %s of lib%s.a" % (name, symbol, owner))
            elif not owner and symbol.startswith(tuple(LIBRARY_SYMBOLS)) and not symbol.startswith(tuple(prefixes) or ("\0",)):
                broken.append("lib%s.a refers to %s" % (name, symbol))
            elif not owner and name == "mu_sched" and symbol not in SCHED_SYMBOLS and not symbol.startswith("protobuf_c_"):
                broken.append("libmu_sched.a refers to %s, which is not on the scheduler's list" % symbol)
        if name == "mu_sched":
            broken += ["libmu_sched.a has writable static data: %s" % symbol for symbol in sorted(writable)]
    return broken


def rule_programs(top, build):
    broken = []
    for name, banned in PROGRAMS.items():
        path = next((os.path.join(f, name) for f, _, files in os.walk(build) if name in files), None)
        if not path:
            continue
        text = subprocess.run(["readelf", "-d", path], text=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
        for library in re.findall(r"NEEDED.*\[(.*?)\]", text):
            if library.startswith(tuple(banned)):
                broken.append("%s loads %s" % (name, library))
    return broken


RULES = {name[5:]: function for name, function in list(globals().items()) if name.startswith("rule_")}

# ---- the rules themselves under test ---------------------------------------------------------------------------------------------

GOOD = {
    "proto/base/a.h": "#include <stdint.h>\n",
    "proto/base/a.c": '#include "proto/base/a.h"\n\nint a(void)\n{\n\treturn 0; /* calls no strcpy() */\n}\n',
    "sched/a.c": '#include "proto/base/a.h"\nint b(int signal);\n',
    "log/auth.c": '#include <sodium.h>\n#include "log/envelope.pb-c.h"\n',
    "log/replica.c": '#include <raft.h>\n#include "log/wire.h"\n',
    "exec/a.c": '#include <hwloc.h>\n#include "log/stream.h"\n',
    "proto/t.def": "T(A, 1)\nT(B, 2)\nU(A, 1)\n",
    "proto/t.proto": "message M { optional uint32 a = 1; optional uint32 b = 2; }\n",
}
BAD = [
    ("includes", "sched/b.c", '#include "log/wire.h"\n'),
    ("includes", "sched/b.c", "#include <time.h>\n"),
    ("includes", "sched/b.c", "#include <stdio.h>\n"),
    ("includes", "proto/base/b.c", '#include "proto/units.h"\n'),
    ("includes", "proto/b.c", '#include "sched/sched.h"\n'),
    ("includes", "log/auth.c", '#include "log/replica.h"\n'),
    ("includes", "log/auth.c", '#include "proto/wire.pb-c.h"\n'),
    ("includes", "log/replica.c", '#include "sched/sched.h"\n'),
    ("includes", "log/replica.c", '#include "log/ctld/core.h"\n'),
    ("includes", "query/b.c", '#include "log/replica.h"\n'),
    ("includes", "exec/b.c", '#include "log/replica.h"\n'),
    ("includes", "exec/b.c", '#include "query/view.h"\n'),
    ("includes", "cli/b.c", "#include <nng/nng.h>\n"),
    ("includes", "cli/b.c", '#include "exec/orders.h"\n'),
    ("includes", "cli/b.c", '#include "local.h"\n'),
    ("includes", "log/ctld/b.c", '#include "exec/orders.h"\n'),
    ("banned", "cli/b.c", "void f(char *a)\n{\n\tstrcpy(a, a);\n}\n"),
    ("banned", "exec/b.c", "void f(void)\n{\n\tsignal(1, 0);\n}\n"),
    ("banned", "sched/b.c", "int f(void)\n{\n\treturn time(0);\n}\n"),
    ("banned", "sched/b.c", "static double f;\n"),
    ("words", "cli/b.c", "/* TO" + "DO: later */\n"),
    ("words", "cli/b.md", "See issue" + " 12.\n"),
    ("length", "cli/b.c", "int f(void)\n{\n" + "\tf();\n" * 120 + "}\n"),
    ("length", "cli/b.h", "int a;\n" * 1001),
    ("rows", "proto/u.def", "T(A, 1)\nT(B, 1)\n"),
    ("rows", "proto/u.def", "T(A, 1)\nT(A, 2)\n"),
    ("rows", "proto/u.proto", "message M { optional uint32 a = 1; optional uint32 b = 1; }\n"),
    ("format", "cli/b.c", "int   f( void ){return 0;}\n"),
]
BAD_ARCHIVES = [
    ("mu_sched", "extern int clock_gettime(int, void *);\nint s(void) { return clock_gettime(0, 0); }\n"),
    ("mu_sched", "static int counter;\nint s(void) { return ++counter; }\n"),
    ("mu_cli", "extern int sch_x(void);\nint c(void) { return sch_x(); }\n"),
    ("mu_exec", "extern int raft_start(void);\nint e(void) { return raft_start(); }\n"),
    ("mu_other", "int o;\n"),
]


def plant(top, files):
    for path, text in files.items():
        full = os.path.join(top, path)
        os.makedirs(os.path.dirname(full), exist_ok=True)
        with open(full, "w") as f:
            f.write(text)


def archive(folder, name, text):
    plant(folder, {name + ".c": text})
    subprocess.run(["cc", "-c", name + ".c", "-o", name + ".o"], cwd=folder, check=True)
    subprocess.run(["ar", "rc", "lib%s.a" % name, name + ".o"], cwd=folder, check=True)


def self_test():
    wrong = 0
    checked = 0
    for name, rule in RULES.items():
        if name in ("archives", "programs") or (name == "format" and not shutil.which("clang-format")):
            continue
        with tempfile.TemporaryDirectory() as top:
            plant(top, GOOD)
            checked += 1
            if name != "format" and rule(top, top):
                wrong += 1
                print("rule %s refuses the good tree: %s" % (name, rule(top, top)))
    for name, path, text in BAD:
        if name == "format" and not shutil.which("clang-format"):
            continue
        with tempfile.TemporaryDirectory() as top:
            plant(top, dict(GOOD, **{path: text}))
            shutil.copy(os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../.clang-format"), top)
            checked += 1
            if not any(path in sentence for sentence in RULES[name](top, top)):
                wrong += 1
                print("rule %s does not see %s: %r" % (name, path, text[:60]))
    for name, text in BAD_ARCHIVES:
        with tempfile.TemporaryDirectory() as top:
            if name != "mu_sched":
                archive(top, "mu_sched", "int sch_x(void) { return 0; }\n")
            if rule_archives(top, top):
                wrong += 1
                print("rule archives refuses a good archive: %s" % rule_archives(top, top))
            archive(top, name, text)
            checked += 1
            if not rule_archives(top, top):
                wrong += 1
                print("rule archives does not see: %s %r" % (name, text))
    for call in ("strcpy(a, a)", "system(a)", "atoi(a)"):
        checked += 1
        ran = subprocess.run(["cc", "-fsyntax-only", "-include", "proto/base/banned.h", "-xc", "-"], text=True, stderr=subprocess.PIPE,
                             input="#include <stdlib.h>\n#include <string.h>\nvoid f(char *a)\n{\n\t(void)%s;\n}\n" % call,
                             cwd=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
        if ran.returncode == 0 or "banned" not in ran.stderr:
            wrong += 1
            print("%s compiles" % call)
    print("%d cases, %d wrong" % (checked, wrong))
    return 1 if wrong else 0


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("rule", choices=sorted(RULES) + ["self-test"])
    parser.add_argument("--top", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../.."))
    parser.add_argument("--build", default="build")
    arguments = parser.parse_args()
    if arguments.rule == "self-test":
        return self_test()
    broken = RULES[arguments.rule](os.path.abspath(arguments.top), os.path.abspath(arguments.build))
    for sentence in broken:
        print(sentence)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
