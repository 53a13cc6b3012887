# Reads the lines of table.sh, keeps the fastest of each, prints the table.
function least(store, key, value) { if (!(key in store) || value < store[key]) store[key] = value }
$1 == "peak" { if ($3 > peak[$2]) peak[$2] = $3 }
$1 == "case" { key = $2 " " $3; if (!(key in mflop)) order[++count] = key; mflop[key] = $4 }
$1 == "own" {
    key = $2 " " $3 " " $4 " " $5
    least(round, key, $8)
    steps[key] = $9
    if ($7 > memory[key]) memory[key] = $7
}
$1 == "peer" {
    least(peer, $2 " " $3 " " $4, $6)
    least(peer_threads, $2 " " $3 " " $4 " " $5, $6)
    if (!seen[$2]++) peers[++peer_count] = $2
}
END {
    title["torch"] = "PyTorch"
    title["jax"] = "JAX"
    printf "SGEMM peak: %.0f GFLOP/s on one thread, %.0f on two\n\n", peak[1], peak[2]
    printf "%-15s %5s %-7s %7s %10s %10s %8s %6s %7s", "network", "batch", "method", "threads", "us/step", "us/round",
           "GFLOP/s", "peak", "MiB"
    for (p = 1; p <= peer_count; p++) printf " %9s", "x " title[peers[p]]
    print ""
    for (i = 1; i <= count; i++) {
        split(order[i], c, " ")
        for (t = 1; t <= 2; t++)
            for (m = 1; m <= 2; m++) {
                key = order[i] " " (m == 1 ? "fedavg" : "fedvra") " " t
                step = round[key] * 1e6 / steps[key]
                rate = mflop[order[i]] * c[2] / step * 1e3
                printf "%-15s %5d %-7s %7d %10.2f %10.0f %8.1f %5.0f%% %7.1f", c[1], c[2], m == 1 ? "FedAvg" : "FedVRA", t, step,
                       round[key] * 1e6, rate, 100 * rate / peak[t], memory[key]
                for (p = 1; p <= peer_count; p++) {
                    key = peers[p] " " order[i]
                    printf " %9s", key in peer ? sprintf("%.1f", peer[key] / step) : ""
                }
                print ""
            }
        for (p = 1; p <= peer_count; p++)
            for (t = 1; t <= 2; t++) {
                key = peers[p] " " order[i] " " t
                if (key in peer_threads) printf "%-15s %5d %-7s %7d %10.2f\n", c[1], c[2], title[peers[p]], t, peer_threads[key]
            }
        one = round[order[i] " fedavg 1"]
        printf "%-15s %5d FedVRA/FedAvg %.2f on one thread, %.2f on two; two threads are %.2f x one\n\n", c[1], c[2],
               round[order[i] " fedvra 1"] / one, round[order[i] " fedvra 2"] / round[order[i] " fedavg 2"],
               one / round[order[i] " fedavg 2"]
    }
}
