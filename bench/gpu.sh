#!/bin/sh
# Whole rounds on a GPU, in a table: fedloom's FedAvg and FedVRA beside FedAvg in JAX (a round as one compiled program) and PyTorch.
#     gpu.sh [BUILD [MODEL ...]]        models: 60-32-10 784-200-10 784-200-200-10 cnn pfl; none: all
# PEAK (TFLOP/s of single precision) and BANDWIDTH (TB/s) of the chip are an H200's unless the environment says otherwise. DEVICE: cuda.
# Missing tools (JAX, PyTorch) are reported and left out. One program at a time uses the GPU.
set -u
build=${1:-build}
[ $# -gt 0 ] && shift
here=$(dirname "$0")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
failed=0

peer() { # NAME MODULE MODEL ...
    name=$1 module=$2
    shift 2
    if ! python3 -c "import $module" 2>/dev/null; then
        echo "$name: not here (python3 cannot import $module), left out"
        return
    fi
    XLA_PYTHON_CLIENT_PREALLOCATE=false python3 "$here/gpu_$name.py" "$@" >>"$work/lines" || echo "$name: failed, rows may be missing"
}

nvidia-smi --query-gpu=name,driver_version,clocks.sm --format=csv,noheader 2>/dev/null | sed 's/^/GPU: /'
"$build/bench/bench_gpu" "${DEVICE:-cuda}" "$@" >>"$work/lines" || failed=1
peer jax jax "$@"
peer torch torch "$@"
cp "$work/lines" "${LINES_TO:-/dev/null}"

awk -v peak="${PEAK:-67}" -v bandwidth="${BANDWIDTH:-4.3}" '
    function target(model, precision, clients) {
        if (model == "60-32-10" && precision != "f64") return clients == 100 ? 0.15 : 1
        if (precision == "tf32") return model == "cnn" ? (clients == 100 ? 60 : 100) : clients == 100 ? 1 : 4
        if (precision == "f64") return 0
        if (model == "cnn") return clients == 100 ? 130 : 200
        if (model == "784-200-10") return clients == 100 ? 1.4 : 6
        return clients == 100 ? 1.9 : 7
    }
    $1 == "case" { flop[$2] = $3; bytes[$2] = $4; next }
    $1 == "total" { total[++totals] = sprintf("  %-12s %-5s %10.2f s   %8.2f s before it", $2, $4, $5, $6); next }
    $1 == "torch-eager" { eager[$2 " " $3] = $6; next } # one client after the other: however many there are
    {
        id = $2 " " $3 " " $4
        if (!(id in seen)) { seen[id] = 1; row[++rows] = id }
        if ($1 == "fedloom" && $5 == "fedvra") { vra[id] = $6; next }
        us[id, $1] = $6; first[id, $1] = $7
    }
    function cell(id, tool) { return (id, tool) in us ? sprintf("%9.3f", us[id, tool]) : "        -" }
    END {
        printf "Microseconds per client-step, batch 50, 20 steps per round; TFLOP/s and shares of fedloom FedAvg (%s TFLOP/s, %s TB/s)\n",
               peak, bandwidth
        printf "%-15s %-5s %7s %9s %7s %9s %6s %9s %8s %9s %9s %8s %6s %6s %8s %8s\n", "model", "prec.", "clients", "FedAvg", "aim",
               "FedVRA", "ratio", "JAX", "x", "vmap", "eager", "TFLOP/s", "peak", "bytes", "set-up", "JAX"
        for (k = 1; k <= rows; k++) {
            id = row[k]; split(id, w, " ")
            if (!((id, "fedloom") in us)) us[id, "fedloom"] = 0
            own = us[id, "fedloom"]; aim = target(w[1], w[2], w[3])
            rate = own > 0 ? flop[w[1]] / own * 1e-6 : 0
            moved = own > 0 ? bytes[w[1]] * (w[2] == "f64" ? 2 : 1) / own * 1e-6 : 0
            ratio = id in vra && own > 0 ? sprintf("%.2f", vra[id] / own) : "-"
            times = (id, "jax") in us && own > 0 ? sprintf("%.1f", us[id, "jax"] / own) : "-"
            printf("%-15s %-5s %7d %9.3f %7s %9s %6s %s %8s %s %s %8.2f %5.1f%% %5.1f%% %7.2fs %7.2fs\n", w[1], w[2], w[3], own,
                   aim ? aim : "-", id in vra ? sprintf("%.3f", vra[id]) : "-", ratio, cell(id, "jax"), times, cell(id, "torch-vmap"),
                   (w[1] " " w[2]) in eager ? sprintf("%9.1f", eager[w[1] " " w[2]]) : "        -", rate, 100 * rate / peak, 100 * moved / bandwidth, first[id, "fedloom"], first[id, "jax"])
        }
        if (totals) print "\npfl-research, CIFAR-10 shape, random images: 1000 users x 50, 50 a round, batch 10, 1500 rounds, evaluated every 10"
        for (k = 1; k <= totals; k++) print total[k]
    }' "$work/lines"
exit $failed
