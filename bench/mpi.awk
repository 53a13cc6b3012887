# The tables of mpi.sh, from lines of measurements:
#     NETWORK METHOD KIND ranks|threads|apart|shaped N name=value ...
#     wire N WHAT BYTES SECONDS
# part=scaling prints the gains of the last case, part=shapes the same processors as ranks of several threads, part=model the model of a
# round, compared with the measurements, and its predictions.
function median(list,    v, n, i, j, t) {
    n = split(list, v, " ")
    for (i = 2; i <= n; i++) {
        t = v[i] + 0
        for (j = i - 1; j > 0 && v[j] + 0 > t; j--) v[j + 1] = v[j]
        v[j + 1] = t
    }
    return n ? v[int((n + 1) / 2)] + 0 : 0
}
function of(name, who, n) { return median(value[one " " who " " n " " name]) }
function ceil(x) { return x == int(x) ? x : int(x) + 1 }
function log2(x) { return log(x) / log(2) }
function most(a, b) { return a > b ? a : b }

# The time of a message, a sum, ... of this many bytes on n ranks: interpolated between measurements, extrapolated from the last two.
function wire(what, n, bytes,    i, a, b) {
    for (i = 1; i < sizes - 1 && size[i + 1] < bytes; i++) {}
    a = median(took[what " " n " " size[i]])
    b = median(took[what " " n " " size[i + 1]])
    return a + (b - a) * (bytes - size[i]) / (size[i + 1] - size[i])
}

$1 == "wire" {
    took[$3 " " $2 " " $4] = took[$3 " " $2 " " $4] " " $5
    if (!($4 in seen)) { seen[$4]; size[++sizes] = $4 }
    if ($2 > wired) wired = $2
    next
}
{
    one = $1 " " $2 " " $3
    if (!(one in known)) { known[one]; cases[++count] = one }
    if ($5 > largest) largest = $5
    for (i = 6; i <= NF; i++) {
        split($i, pair, "=")
        key = one " " $4 " " $5 " " pair[1]
        value[key] = value[key] " " pair[2]
    }
}

function share_of(what, n) { return 100 * of(what, "ranks", n) / of("mean", "ranks", n) }
function scaling(    n, r, t, wide) {
    wide = one ~ / weak$/
    for (n = 1; n <= largest; n *= 2) {
        r = of("seconds", "ranks", n)
        t = of("seconds", "threads", n)
        if (!r) continue
        printf "  %-11s %-9s %-7s %5d %9.2f %9.2f   %6.2f %6.2f   %6.2f   %4.0f%% %6.0f%% %6.0f%%   %8.1f\n", $1, $2, $3, n, 1e3 * r, 1e3 * t,
            (wide ? n : 1) * of("seconds", "ranks", 1) / r, (wide ? n : 1) * of("seconds", "threads", 1) / t, t / r,
            share_of("waits", n), share_of("together", n), share_of("handing", n),
            of("sent_kb", "ranks", n)
    }
}

# N ranks of processors / N threads each.
function shapes(    n, s) {
    for (n = 1; n <= largest; n *= 2) {
        s = of("seconds", "shaped", n)
        if (s) printf "  %-11s %-9s %4d ranks of %2d threads %9.2f ms %6.2f\n", $1, $2, n, processors / n, 1e3 * s, of("seconds", "shaped", 1) / s
    }
}

# ---- the model: docs/performance.md, "Over many processes", has the formula ------------------------------------------------

# The slowdown of a processor when n are busy: measured by n independent runs at the same time.
function crowd(n,    was, i) {
    for (i = n; i >= 1; i /= 2) {
        was = median(value[network " fedavg weak apart " i " seconds"])
        if (was) return was / median(value[network " fedavg weak apart 1 seconds"])
    }
    return 1
}

# The largest share of the server's entries at a rank: server_state.c cuts vectors into slices.
function largest_share(n,    slices, size) {
    slices = most(int(parameters / 8192), n)
    if (slices > 256) slices = 256
    size = int((int((parameters - 1) / slices) + 64) / 64) * 64
    return most(ceil(ceil(parameters / size) / n) * size / parameters, 0)
}

# Seconds of a round with this many clients on n ranks.
function model(clients, n,    upload, share, turns, each, parcels, inward, absorbing, talk, g) {
    upload = 4 * parameters * vectors
    absorbing = wire("absorb", wired, upload)
    if (n == 1) return clients * turn
    share = largest_share(n)
    turns = ceil(clients / n) * (turn - absorbing) * crowd(n)
    each = most(1, int(65536 / (upload / n + 21)))
    parcels = ceil(ceil(clients / n) / each) * (n - 1)
    inward = (clients - clients / n) * (20 + upload * share)
    talk = parcels * wire("each", wired, inward / parcels)
    g = calls * wire("gather", wired, 8 * wired) * log2(n) / log2(wired) + wire("gather", wired, moved) - wire("gather", wired, 8)
    parts = 1e3 * turns " " 1e3 * clients * absorbing * share " " 1e3 * talk " " 1e3 * g
    return turns + clients * absorbing * share + talk + g
}

function begin_case(    word) {
    split(one, word, " ")
    network = word[1]
    vectors = word[2] == "scaffold" ? 2 : 1
    parameters = network == "60-32-10" ? 2282 : 159010
    turn = of("seconds", "ranks", 1) / (word[3] == "weak" ? 8 : 64)
    calls = of("calls", "ranks", wired)
    moved = 1e3 * of("call_kb", "ranks", wired)
}

function beside_measured(    n, t, was, off, worst) {
    printf "\n  model beside what was measured, ms per round\n"
    for (c = 1; c <= count; c++) {
        one = cases[c]
        begin_case()
        for (n = 2; n <= largest; n *= 2) {
            t = model(one ~ / weak$/ ? 8 * n : 64, n)
            was = of("seconds", "ranks", n)
            if (!was) continue
            off = 100 * (t / was - 1)
            worst = most(worst, off < 0 ? -off : off)
            printf "  %-28s %5d ranks   measured %9.2f   model %9.2f   off by %+4.0f%%\n", one, n, 1e3 * was, 1e3 * t, off
        }
    }
    printf "  at most %.0f%% off\n", worst
}

function predict(    n, t, first) {
    printf "\n  MODEL, not measured: 8 clients per rank, all of which take part; ms per round: turns, absorbing, parcels, together\n"
    for (c = 1; c <= count; c++) {
        one = cases[c]
        if (one ~ / weak$/) continue
        begin_case()
        for (n = 64; n <= 1024; n *= 16) {
            first = model(8 * n, 1)
            t = model(8 * n, n)
            split(parts, p, " ")
            printf "  %-28s %5d ranks %10.2f = %8.2f + %7.2f + %7.2f + %6.2f   gains %7.1f, %3.0f%% of the ranks\n", one, n, 1e3 * t,
                p[1], p[2], p[3], p[4], first / t, 100 * first / t / n
        }
    }
}

END {
    if (part == "scaling") {
        if (title) {
            printf "  %54s %s\n", "", "gain over one of           waits   tog.  handing    KB sent"
            printf "  %-11s %-9s %-7s %5s %9s %9s   %6s %6s   %6s\n", "network", "method", "", "ranks", "ranks ms", "threads",
                "ranks", "thr.", "ratio"
        }
        scaling()
    } else if (part == "shapes") {
        shapes()
    } else {
        beside_measured()
        predict()
    }
}
