#!/usr/bin/env python3
"""run.py [--minutes M] [--count N] [--seed S] [--only TEXT] [--again] [--table] [FOLDER]
run.py --names

Changes one thing at a time in src, and looks whether a test notices. Everything happens in FOLDER (build-mutants), in
a copy of the tree; the checkout is only read. A mutant is compiled as one object, which is linked before the libraries,
so that a test program takes it instead of the library's own. Tests that go through the function run one after the other
until one fails.

Mutants come from list.txt, and from operators that a seed applies to all of src: N of them. Their names are
FILE.FUNCTION OPERATOR NUMBER, without folders and lines, so that what is known about one survives most edits. Results
are kept in FOLDER/results.json: what has a result is not tried again unless its function has changed, or --again asks
for it. --only TEXT: those whose name has it. --table: prints what is known and tries nothing. known.txt says which
mutants change nothing that can be seen, and why others survive. --names: builds and tries nothing, but fails where a
name of list.txt or known.txt is not in src any more. $JOBS is for the builds, $CMAKE_FLAGS for cmake."""
import argparse, hashlib, json, os, re, resource, shlex, shutil, signal, subprocess, sys, tempfile, time

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(HERE))
LIMIT = 40       # seconds for one mutant, at most
SUITES = 30      # of them for tests that are not about its file, when nothing is wrong
KINDS = ("killed", "survived", "equivalent", "stale")

# ---- functions -----------------------------------------------------------------------------------------------------

LITERAL = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'|^[ \t]*#(?:[^\n]*\\\n)*[^\n]*',
                     re.S | re.M)


def masked(text):
    """The same length, with spaces for comments, literals and directives."""
    return LITERAL.sub(lambda m: re.sub(r"[^\n]", " ", m.group()), text)


def function_name(signature):
    signature = re.sub(r"__attribute__\(\((?:[^()]|\([^()]*\))*\)\)", "", signature)
    names = re.findall(r"(\w+)\s*\(", signature)
    return names[0] if names else None


def functions(text):
    """(name, from, until) of every function: braces are in the first column, or all of it is on one line."""
    mask, found = masked(text), []
    for m in re.finditer(r"^\{\n.*?^\}$", mask, re.S | re.M):
        begin = max(mask.rfind(c, 0, m.start()) for c in ";}{")
        name = function_name(mask[begin + 1:m.start()])
        if name: found.append((name, m.start(), m.end()))
    for m in re.finditer(r"^(?:static |inline |const )*\w[\w *]*\([^;{}]*\) \{ .* \}$", mask, re.M):
        name = function_name(m.group())
        if name: found.append((name, m.start() + m.group().index("{"), m.end()))
    return sorted(found, key=lambda f: f[1])


# ---- operators: of the masked text of a function, (from, until, instead) ------------------------------------------

def replacing(pattern, table):
    def apply(body):
        for m in re.finditer(pattern, body):
            yield m.start(1), m.end(1), table[m.group(1)]
    return apply


def negated(body):
    for m in re.finditer(r"(?<=[ (])!(?=[\w(*])", body):
        yield m.start(), m.end(), ""


def more_by_one(body):
    for m in re.finditer(r"(?<![\w.])(\d+)(?![\w.])", body):
        yield m.start(), m.end(), str(int(m.group()) + 1)


def without_statement(body):
    what = r"(?:\(void\))?[\w>.\[\]*()-]+(?:\([^;{}]*\)| [-+*/|&]?= [^;{}]*|\+\+|--)"
    for m in re.finditer(r"([ \n]+)(" + what + r");(?=\s)", body):
        if re.match(r"(return|break|continue|goto|else|for|while|if|do|switch|case)\b", m.group(2)): continue
        yield m.start(2), m.end(2), ""


def swapped(body):
    for m in re.finditer(r"(?<=[( ])([\w.>\[\]-]+), ([\w.>\[\]-]+)(?=[,)])", body):
        if m.group(1) != m.group(2): yield m.start(), m.end(), f"{m.group(2)}, {m.group(1)}"


OPERATORS = {
    "boundary": replacing(r"(?<= )(<=|>=|<|>)(?= )", {"<": "<=", "<=": "<", ">": ">=", ">=": ">"}),
    "equality": replacing(r"(?<= )(==|!=)(?= )", {"==": "!=", "!=": "=="}),
    "logic": replacing(r"(?<= )(&&|\|\|)(?=\s)", {"&&": "||", "||": "&&"}),
    "sign": replacing(r"(?<=[\w)\]] )([+-]=?)(?= )", {"+": "-", "-": "+", "+=": "-=", "-=": "+="}),
    "extreme": replacing(r"\b(fmin|fmax)(?=\()", {"fmin": "fmax", "fmax": "fmin"}),
    "negation": negated,
    "one": more_by_one,
    "statement": without_statement,
    "swap": swapped,
}

# ---- what there is -------------------------------------------------------------------------------------------------


class Source:
    def __init__(self, tree, path):
        self.path = path
        self.stem = os.path.splitext(os.path.basename(path))[0]
        with open(os.path.join(tree, path)) as f: self.text = f.read()
        self.mask = masked(self.text)
        self.functions = functions(self.text)


class Mutant:
    def __init__(self, name, source, begin, end, instead, function, tests=()):
        self.name, self.source, self.begin, self.end, self.instead = name, source, begin, end, instead
        self.function, self.tests = function, list(tests)

    def text(self):
        t = self.source.text
        return t[:self.begin] + self.instead + t[self.end:]

    def digest(self):
        """Of its function, before and after."""
        _, begin, end = self.function
        t = self.source.text
        after = t[begin:self.begin] + self.instead + t[self.end:end]
        return hashlib.sha256((t[begin:end] + "\0" + after).encode()).hexdigest()[:16]

    def shown(self):
        t = self.source.text
        first, last = t.rfind("\n", 0, self.begin) + 1, t.find("\n", self.end)
        before, after = t[first:self.begin].strip(), t[self.end:last].strip()
        return f"{before}[{t[self.begin:self.end].strip()} -> {self.instead}]{after}"


def sources(tree, compiled):
    left_out = ("src/cuda/", "src/mpi/", "src/cli/", "src/vec/plain/")
    paths = sorted(p for p in compiled if p.startswith("src/") and not p.startswith(left_out))
    return [Source(tree, p) for p in paths]


def named(all_sources):
    """Functions by FILE.FUNCTION, as far as that says which."""
    by = {}
    for s in all_sources:
        for f in s.functions: by.setdefault(f"{s.stem}.{f[0]}", []).append((s, f))
    return {k: v[0] for k, v in by.items() if len(v) == 1}


def random_mutants(by_name, seed):
    """In the order of digests of seed and name, so that an edit elsewhere moves few; at most two of a function."""
    found = []
    for name, (s, f) in by_name.items():
        body = s.mask[f[1]:f[2]]
        for operator, apply in OPERATORS.items():
            for k, (b, e, instead) in enumerate(apply(body)):
                at = f[1] + b, f[1] + e
                if operator == "swap": instead = ", ".join(reversed(s.text[at[0]:at[1]].split(", ")))
                full = f"{name} {operator} {k + 1}"
                found.append((hashlib.sha256(f"{seed} {full}".encode()).hexdigest(), Mutant(full, s, *at, instead, f)))
    found.sort(key=lambda m: m[0])
    # Operators take turns, or the many numbers and statements would push out the few others.
    queues, per = {o: [m for _, m in found if m.name.split()[1] == o] for o in OPERATORS}, {}
    while any(queues.values()):
        for q in queues.values():
            while q:
                m = q.pop(0)
                function = m.name.split()[0]
                per[function] = per.get(function, 0) + 1
                if per[function] <= 2:
                    yield m
                    break


def listed_mutants(by_name):
    """Lines `FILE.FUNCTION: OLD => NEW [: TESTS]`; OLD is there once in the function. What is not is stale."""
    for number, line in enumerate(open(os.path.join(HERE, "list.txt")), 1):
        line = line.rstrip("\n")
        if not line.strip() or line.startswith("#"): continue
        m = re.match(r"([\w.]+): (.+?) => (.*?)(?: :: ([\w /.]+))?$", line)
        if not m: sys.exit(f"list.txt:{number}: this is not FUNCTION: OLD => NEW")
        name, old, new, tests = m.groups()
        full = f"{name}: {old} => {new}"
        new = "" if new == "nothing" else new
        if name not in by_name:
            yield full, None
            continue
        s, f = by_name[name]
        body = s.text[f[1]:f[2]]
        if body.count(old) != 1:
            yield full, None
            continue
        at = f[1] + body.index(old)
        yield full, Mutant(full, s, at, at + len(old), new, f, (tests or "").split())


def known():
    """Lines `NAME | equivalent or survives | why`."""
    found = {}
    for number, line in enumerate(open(os.path.join(HERE, "known.txt")), 1):
        if not line.strip() or line.startswith("#"): continue
        parts = [p.strip() for p in line.rsplit(" | ", 2)]
        if len(parts) != 3 or parts[1] not in ("equivalent", "survives"):
            sys.exit(f"known.txt:{number}: this is not NAME | equivalent or survives | why")
        found[parts[0]] = (parts[1], parts[2])
    return found


def wrong_names():
    """Those of both files that src does not have."""
    names = subprocess.run(["find", "src", "-name", "*.c"], cwd=ROOT, check=True, capture_output=True, text=True)
    by_name = named(sources(ROOT, names.stdout.split()))
    listed = list(listed_mutants(by_name))
    there, wrong = {n for n, m in listed if m}, ["list.txt: " + n for n, m in listed if not m]
    for name, (s, f) in by_name.items():
        body = s.mask[f[1]:f[2]]
        there |= {f"{name} {o} {k + 1}" for o, apply in OPERATORS.items() for k, _ in enumerate(apply(body))}
    return wrong + ["known.txt: " + n for n in known() if n not in there]


# ---- the copy and its build ----------------------------------------------------------------------------------------

def copy_tree(folder):
    """Files that git has or would take, as they are now; what went away goes away."""
    tree = os.path.join(folder, "tree")
    names = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=ROOT,
                           check=True, capture_output=True).stdout.decode().split("\0")
    names = {n for n in names if n and os.path.isfile(os.path.join(ROOT, n))}
    for n in names:
        old, new = os.path.join(ROOT, n), os.path.join(tree, n)
        with open(old, "rb") as f: data = f.read()
        if os.path.isfile(new):
            with open(new, "rb") as f:
                if f.read() == data: continue
        os.makedirs(os.path.dirname(new), exist_ok=True)
        shutil.copy(old, new)
    for where, _, files in os.walk(tree):
        for name in files:
            path = os.path.join(where, name)
            if os.path.relpath(path, tree) not in names: os.unlink(path)
    return tree


def build(tree, out, more=()):
    """The libraries, and the commands that make everything else."""
    flags = os.environ.get("CMAKE_FLAGS", "").split()
    for command in (["cmake", "-G", "Unix Makefiles", "-S", tree, "-B", out, "-DCMAKE_BUILD_TYPE=Release",
                     "-DFEDLOOM_CUDA=OFF", "-DFEDLOOM_MPI=OFF", *flags, *more],
                    ["cmake", "--build", out, "-j", os.environ.get("JOBS", "1"), "--target", "fedloom_net"]):
        r = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        if r.returncode: sys.exit(r.stdout.decode())
    commands = json.load(open(os.path.join(out, "compile_commands.json")))
    return {os.path.relpath(c["file"], tree): shlex.split(c["command"]) for c in commands}


def keep(path, value):
    with open(path + ".tmp", "w") as f: json.dump(value, f, indent=1)
    os.replace(path + ".tmp", path)


def kept(path):
    if not os.path.exists(path): return {}
    with open(path) as f: return json.load(f)


class Bench:
    """Compiles and links beside the build, and runs tests."""

    def __init__(self, tree, folder):
        self.tree, self.folder = tree, folder
        self.out = os.path.join(folder, "build")
        self.compiled = build(tree, self.out)
        self.scratch = os.path.join(folder, "scratch")
        os.makedirs(self.scratch, exist_ok=True)
        self.links, self.objects = {}, {}
        self.tests = {os.path.basename(p)[:-2]: p for p in self.compiled
                      if re.match(r"tests/(unit/\w+|conform|theory|net)/test_\w+\.c$", p)}
        self.tests["golden"] = None
        self.text = {}
        for name, p in self.tests.items():
            with open(os.path.join(tree, p or "tests/golden/ready.txt")) as f: self.text[name] = f.read()

    def target(self, test):
        return "fedloom_program" if test == "golden" else test

    def link(self, test):
        """The command that links a program, from what CMake wrote; built as it is, so that its objects are there."""
        if test not in self.links:
            target = self.target(test)
            subprocess.run(["cmake", "--build", self.out, "--target", target], check=True, stdout=subprocess.DEVNULL)
            where = self.out if test == "golden" else os.path.join(self.out, "tests")
            script = os.path.join(where, "CMakeFiles", f"{target}.dir", "link.txt")
            with open(script) as f: self.links[test] = (where, shlex.split(f.read()))
        return self.links[test]

    def compile(self, source, text, name):
        command = self.compiled[source.path]
        path, result = (os.path.join(self.scratch, name + end) for end in (".c", ".o"))
        with open(path, "w") as f: f.write(text)
        words, k = [], 0
        while k < len(command):
            if command[k] == "-o":
                k += 2
                continue
            if command[k] not in ("-Werror", os.path.join(self.tree, source.path)): words.append(command[k])
            k += 1
        beside = os.path.dirname(os.path.join(self.tree, source.path))
        words += ["-Werror=incompatible-pointer-types", "-Werror=int-conversion", "-iquote", beside, "-x", "c",
                  path, "-o", result]
        return None if subprocess.run(words, cwd=self.out, capture_output=True).returncode else result

    def plain(self, source):
        """The object of a source as it is, from a file of the same name."""
        if source.path not in self.objects:
            with open(self.compile(source, source.text, "changed"), "rb") as f: self.objects[source.path] = f.read()
        return self.objects[source.path]

    def program(self, test, obj, libraries=None):
        """The test program with this object in it, and these libraries in the place of the build's."""
        where, words = self.link(test)
        words, k = list(words), words.index("-o")
        own = os.path.join(self.scratch, "program")
        words[k + 1] = own
        if libraries: words = [os.path.join(libraries, os.path.basename(w)) if w.endswith(".a") else w for w in words]
        words.insert(next(i for i, w in enumerate(words) if w.endswith(".a")), obj)
        r = subprocess.run(words, cwd=where, capture_output=True)
        if r.returncode: sys.exit(r.stderr.decode())
        return own

    def arguments(self, test):
        if test != "golden": return []
        golden = os.path.join(self.tree, "tests", "golden")
        with open(os.path.join(golden, "ready.txt")) as f: names = f.read().split()
        return ["verify", *(os.path.join(golden, n) for n in names)]

    def run(self, program, test, limit, **variables):
        """0: passes, 1: fails, 2: takes longer; and its seconds."""
        def limits():
            os.setsid()
            os.nice(5)
            resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
            resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
        begin = time.time()
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else self.scratch # tests that wait for a disk take long
        with tempfile.TemporaryDirectory(dir=memory) as work:
            environment = {**os.environ, "TMPDIR": work, "FEDLOOM_BRIEF": "1", **variables}
            p = subprocess.Popen([program, *self.arguments(test)], cwd=work, env=environment, stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, preexec_fn=limits)
            try:
                code = p.wait(limit)
            except subprocess.TimeoutExpired:
                code = None
            try:
                os.killpg(p.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            p.wait()
        return (2 if code is None else 1 if code else 0), time.time() - begin

    def map(self, all_sources):
        """What every test goes through, and how long it takes; measured once, by libraries that note it."""
        path = os.path.join(self.folder, "covers.json")
        self.covers = kept(path)
        missing = [t for t in self.tests if t not in self.covers]
        if not missing: return
        out, trace = os.path.join(self.folder, "traced"), os.path.join(self.scratch, "trace.o")
        build(self.tree, out, ["-DCMAKE_C_FLAGS=-O1 -finstrument-functions", "-DCMAKE_C_FLAGS_RELEASE=-DNDEBUG"])
        source = os.path.join(self.tree, "tests/mutants/trace.c")
        subprocess.run(["cc", "-D_GNU_SOURCE", "-O2", "-c", source, "-o", trace], check=True)
        files = {}
        for s in all_sources:
            for f in s.functions: files.setdefault(f[0], []).append(s.path)
        # Functions of one name in several files: those of a file count where one with a name of its own was seen.
        distinct = {paths[0] for paths in files.values() if len(paths) == 1}
        for i, test in enumerate(missing):
            where, words = self.link(test)
            code, seconds = self.run(os.path.join(where, words[words.index("-o") + 1]), test, LIMIT)
            hit = self.traced(test, trace, out) if not code else set()
            alone = {files[n][0] for n in hit if len(files.get(n, ())) == 1}
            through = sorted({f"{p}:{n}" for n in hit for p in files.get(n, ()) if p in alone or p not in distinct})
            self.covers[test] = {"seconds": None if code else seconds, "functions": through}
            keep(path, self.covers)
            how = "too long, or fails" if code else f"{seconds:.1f} s, {len(through)} functions"
            print(f"{i + 1:4}/{len(missing)} {test}: {how}", flush=True)

    def traced(self, test, trace, out):
        program, seen = self.program(test, trace, out), os.path.join(self.scratch, "seen")
        if os.path.exists(seen): os.unlink(seen)
        self.run(program, test, 2 * LIMIT, FEDLOOM_TRACE=seen)
        if not os.path.exists(seen): return set()
        names = {}
        for line in subprocess.run(["nm", program], check=True, capture_output=True, text=True).stdout.splitlines():
            parts = line.split()
            if len(parts) == 3 and parts[1] in "tT": names[int(parts[0], 16)] = parts[2].split(".")[0]
        with open(seen, "rb") as f: data = f.read()
        return {names.get(int.from_bytes(data[i:i + 8], "little")) for i in range(0, len(data), 8)} - {None}

    def suites(self, mutant):
        """Tests that go through the mutant's function, those first that name it or its file, then the fast ones; SUITES
        seconds of them."""
        s = mutant.source
        header = os.path.splitext(os.path.relpath(s.path, "src"))[0] + ".h"
        wanted, names_it = f"{s.path}:{mutant.function[0]}", re.compile(r"\b%s\b" % re.escape(s.stem))
        through = {t for t, c in self.covers.items() if wanted in c["functions"]}
        if not through: # it may be new, or always inline
            through = {t for t, c in self.covers.items() if any(f.startswith(s.path + ":") for f in c["functions"])}
        if not through: through = {t for t in self.tests if names_it.search(self.text[t])} | {"golden"}
        found = []
        for test in through & set(self.tests):
            seconds = self.covers[test]["seconds"]
            if seconds is None: continue
            about = test == f"test_{s.stem}" or f'"{header}"' in self.text[test] or \
                (mutant.function[0].startswith("fl") and mutant.function[0] in self.text[test])
            names = names_it.search(self.text[test]) is not None
            found.append((test not in mutant.tests, 0 if about else 1 if names else 2, seconds, test))
        chosen, sum_ = [], 0
        for other, elsewhere, seconds, test in sorted(found):
            if other and sum_ + seconds > (SUITES if elsewhere == 2 else LIMIT): continue
            chosen.append(test)
            sum_ += seconds
        return chosen


# ---- one mutant ----------------------------------------------------------------------------------------------------


def try_mutant(bench, m):
    """("killed", by) | ("survived", tests) | ("equivalent", why) | None: it does not compile."""
    plain, changed = bench.plain(m.source), bench.compile(m.source, m.text(), "changed")
    if not changed: return None
    with open(changed, "rb") as f:
        if f.read() == plain: return "equivalent", "the same object code"
    tests = bench.suites(m)
    spent, tried = 0, []
    for t in tests:
        if spent > LIMIT: break
        program = bench.program(t, changed)
        usual = bench.covers[t]["seconds"]
        limit = min(max(5 * usual + 5, 10), LIMIT)
        code, seconds = bench.run(program, t, limit)
        spent += seconds
        if code == 1: code = bench.run(program, t, limit)[0] # a busy machine must not pass for a mistake
        tried.append(t)
        if code: return "killed", t + (" (hangs)" if code == 2 else "")
    return "survived", " ".join(tried)


def try_it(bench, m, kind):
    begin = time.time()
    what, why = try_mutant(bench, m) or ("no", "it does not compile")
    print(f"{what:10} {time.time() - begin:5.1f} s  {m.name}  ({why})", flush=True)
    return {"what": what, "why": why, "digest": m.digest(), "area": m.source.path.split("/")[1], "shown": m.shown()}


# ---- tables --------------------------------------------------------------------------------------------------------

def show(results, names, reasons, stale):
    by_area, counts, unknown = {}, dict.fromkeys(KINDS, 0), []
    counts["stale"] = len(stale)
    for name in names:
        r = results.get(name)
        if not r or r["what"] == "no": continue
        what = r["what"]
        if what == "survived" and reasons.get(name, ("",))[0] == "equivalent": what = "equivalent"
        counts[what] += 1
        row = by_area.setdefault(r["area"], dict.fromkeys(KINDS, 0))
        row[what] += 1
        if what == "survived": unknown.append((name, r, reasons.get(name, ("", "not looked at yet"))[1]))
    print(f"\n{'area':<14}{'mutants':>9}{'killed':>9}{'survived':>10}{'equivalent':>12}{'rate':>8}")
    for area, row in [*sorted(by_area.items()), ("all", counts)]:
        n = row["killed"] + row["survived"]
        print(f"{area:<14}{n + row['equivalent']:>9}{row['killed']:>9}{row['survived']:>10}{row['equivalent']:>12}"
              f"{100 * row['killed'] / n if n else 0:>7.1f}%")
    for name, r, why in unknown: print(f"survived: {name}\n          {r['shown']}\n          {why}")
    for name in stale: print(f"stale: {name} (its function or text is not there any more, or not once)")
    waiting = sum(1 for n in names if n not in results)
    n = counts["killed"] + counts["survived"]
    rate = f"; {100 * counts['killed'] / n:.1f} % of those not equivalent are killed" if n else ""
    print(f"{n + counts['equivalent']} mutants: {counts['killed']} killed, {counts['survived']} survived, "
          f"{counts['equivalent']} equivalent" + (f", {waiting} to be tried" if waiting else "") + rate)
    return counts["survived"]


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--minutes", type=float, default=float("inf"))
    a.add_argument("--count", type=int, default=140)
    a.add_argument("--seed", type=int, default=1)
    a.add_argument("--only", default="")
    a.add_argument("--again", action="store_true")
    a.add_argument("--table", action="store_true")
    a.add_argument("--names", action="store_true")
    a.add_argument("folder", nargs="?", default=os.path.join(ROOT, "build-mutants"))
    o = a.parse_args()
    if o.names:
        wrong = wrong_names()
        for name in wrong: print(f"mutants: {name}: its function or text is not in src, or not once", file=sys.stderr)
        if not wrong: print("mutants: every name is in src")
        return len(wrong)
    os.nice(5)
    folder = os.path.abspath(o.folder)
    os.makedirs(folder, exist_ok=True)
    bench = Bench(copy_tree(folder), folder)
    all_sources = sources(bench.tree, bench.compiled)
    if not o.table: bench.map(all_sources)
    by_name = named(all_sources)
    listed = list(listed_mutants(by_name))
    path = os.path.join(folder, "results.json")
    results = kept(path)
    begin, names, drawn = time.time(), [], 0
    for kind, m in [*(("listed", m) for _, m in listed if m), *(("drawn", m) for m in random_mutants(by_name, o.seed))]:
        if kind == "drawn" and drawn >= o.count: break
        if m.name in results and results[m.name]["digest"] != m.digest(): del results[m.name]
        over = o.table or time.time() - begin > 60 * o.minutes
        if not over and o.only in m.name and (m.name not in results or o.again):
            results[m.name] = try_it(bench, m, kind)
            keep(path, results)
        if results.get(m.name, {}).get("what") == "no": continue
        drawn += kind == "drawn"
        names.append(m.name)
    return show(results, names, known(), [n for n, m in listed if not m])


if __name__ == "__main__":
    sys.exit(1 if main() else 0)
