#!/usr/bin/env bash
# Runs over several processes, by mpiexec on this machine: what MPI carries, and the program. Usage: run.sh BUILD
# The launcher is that of the MPI which the build found, or $MPIEXEC.
set -u
. "$(dirname "$0")/../built.sh" "${1:?usage: $0 BUILD}"
if [ ! -e "$build/libfedloom_mpi.so" ]; then echo "skipped: this build has no MPI"; exit 77; fi
mpiexec=${MPIEXEC:-$(cached MPIEXEC_EXECUTABLE)}
if ! command -v "$mpiexec" >/dev/null; then echo "skipped: there is no mpiexec"; exit 77; fi
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1

# What differs between launchers. More ranks than processors are no matter here.
if "$mpiexec" --version 2>&1 | grep -qE 'Open ?(MPI|RTE)'; then
    launch=("$mpiexec" --oversubscribe --bind-to none --mca mpi_yield_when_idle 1 -n)
    rank_variable=OMPI_COMM_WORLD_RANK command='mpirun -n' abrupt=
    other=(PMI_RANK=0 PMI_SIZE=2)
else # MPICH and its relatives
    launch=("$mpiexec" -n)
    rank_variable=PMI_RANK command='mpiexec -n' abrupt=yes # it kills the others when one dies
    other=(OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2)
fi

# ranks N COMMAND...: leaves $code, out, err.
ranks() {
    timeout 120 "${launch[@]}" "$@" >out 2>err </dev/null
    code=$?
}

# ---- the table ----------------------------------------------------------------------------------------------

for n in 1 2 3 4; do
    ranks "$n" "$build/tests/mpi_carry"
    check "the table on $n ranks" exits 0
    check "the table on $n ranks: all of it" has out " passed, 0 failed"
done
ranks 3 "$build/tests/mpi_carry" late
check 'a rank does not come: the others do not wait for ever' exits 42

# ---- the program --------------------------------------------------------------------------------------------

cat >first.yaml <<'EOF'
data: {kind: blobs, samples: 600}
partition: {kind: iid, clients: 10}
model: softmax
local: {epochs: 1, batch: 10, lr: 0.1}
participation: {kind: uniform, count: 4}
algorithm: fedavg
rounds: 20
metrics: {every: 5}
EOF
once() { [ "$(grep -cF -e "$2" "$1")" = 1 ]; }

check 'the program is not linked with MPI' eval '! ldd "$program" | grep -qi mpi'
fedloom run first.yaml --output one
check 'one process' exits 0
for n in 1 2 3; do
    ranks "$n" "$program" run first.yaml --output "many-$n"
    check "$n ranks" exits 0
    check "$n ranks: the model of one process" same one/model.safetensors "many-$n/model.safetensors"
    check "$n ranks: one table" once out 'fedavg'
    check "$n ranks: one place" once err 'report.html are in'
    check "$n ranks: one line per row" once err 'round 20/20'
done

# What needs no run is done once, what is for one process is refused once.
ranks 3 "$program" --version
check '--version: once' eval 'exits 0 && once out "fedloom "'
ranks 3 "$program" run --help
check 'help: once' eval 'exits 0 && once out "usage: fedloom run"'
ranks 3 "$program" config first.yaml
check 'config: once' eval 'exits 0 && once out "algorithm:"'
ranks 3 "$program" compare first.yaml
check 'compare: refused' exits 2
check 'compare: once' once err 'fedloom compare` is for one process'

# ---- failures -----------------------------------------------------------------------------------------------

ranks 3 "$program" run missing.yaml
check 'all fail alike: exit code' exits 2
check 'all fail alike: said once' once err 'missing.yaml: cannot be read'
check 'all fail alike: no rank is named' lacks err 'fedloom: rank'
ranks 3 "$program" run first.yaml --output one
check 'a result that is there: exit code' exits 1
check 'a result that is there: said once' once err 'fedloom: one'

# One rank has another command line, and does not come to the run: the others would wait for ever.
ranks 1 "$program" run first.yaml : -n 1 "$program" run missing.yaml
check 'one fails alone: exit code' exits 2
check 'one fails alone: it says so' once err 'fedloom: rank 1: missing.yaml: cannot be read'
ranks 1 "$program" run missing.yaml : -n 1 "$program" run first.yaml
check 'the first fails alone: exit code' exits 2
check 'the first fails alone: it says so' once err 'fedloom: rank 0 failed alone'

# The launcher of another MPI; no library; a batch script, which is no launcher.
alone() {
    timeout 60 env "$@" >out 2>err </dev/null
    code=$?
}
alone "${other[@]}" "$program" run first.yaml
check 'another launcher' eval 'exits 1 && has err "2 processes were started, but MPI knows of 1"'
mkdir bare
cp "$program" bare/fedloom
ranks 2 "$work/bare/fedloom" run first.yaml
check 'without the library: exit code' exits 1
check 'without the library: said once' once err 'or build fedloom where MPI is installed'
alone SLURM_NTASKS=4 SLURM_PROCID=0 "$work/bare/fedloom" run first.yaml
check 'a batch script of Slurm is no launcher' exits 0

# ---- how fast -----------------------------------------------------------------------------------------------

ranks 3 "$program" run first.yaml --output timed
check 'idle time: a line per process' eval 'exits 0 && [ "$(wc -l <timed/ranks.csv)" = 4 ]'
check 'idle time: said once' once err '3 ranks: idle '
if "$program" --version | grep -q 'x86-64-v[34]'; then
    ranks 1 env FEDLOOM_KERNELS=v2 "$program" run first.yaml : -n 1 env FEDLOOM_KERNELS=v3 "$program" run first.yaml
    check 'other kernels: exit code' exits 2
    check 'other kernels: said once' once err 'rank 1 computes with kernels for'
fi

# ---- signals ------------------------------------------------------------------------------------------------

# start TEXT ARGS...: the program on three ranks, in the background, until TEXT is on its stderr.
start() {
    local text=$1
    shift
    rm -f err # of the one before
    "${launch[@]}" 3 "$program" "$@" >out 2>err </dev/null &
    launcher=$!
    for _ in $(seq 1200); do
        grep -qF -e "$text" err 2>/dev/null && return
        sleep 0.05
    done
}

# begin ARGS...: a run that would last for ever.
begin() { start 'round 0/' run first.yaml --set rounds=100000000 --set metrics.every=100000000 "$@"; }

children() { grep -lsxF "PPid:$(printf '\t')$1" /proc/[0-9]*/status | cut -d/ -f3; }

# process RANK: its number, among those that the launcher started, or its helper on this machine did.
process() {
    local p helper
    for p in $(children "$launcher") $(for helper in $(children "$launcher"); do children "$helper"; done); do
        if tr '\0' '\n' <"/proc/$p/environ" | grep -qx "$rank_variable=$1"; then echo "$p"; fi
    done
}

for rank in 0 2; do
    begin
    kill -KILL "$(process "$rank")"
    leaves "$launcher"
    check "rank $rank is killed: all end" [ "$code" -ne 0 ]
    [ "$abrupt" ] || check "rank $rank is killed: said once" once err 'the run ended early, and there is no checkpoint'
done
# With checkpoints the last sentence is a command, or one was said before.
begin --output killed --checkpoint-every 10
wait_for 'killed.checkpoint/3*.checkpoint'
kill -KILL "$(process 1)"
leaves "$launcher"
check 'killed with checkpoints: all end' [ "$code" -ne 0 ]
if [ "$abrupt" ]; then
    round=10
    check 'killed with checkpoints: said once' once err "from the last checkpoint with \`$command 3 fedloom resume killed\`"
else
    round=$(sed -n 's/^fedloom: the run ended early; the last checkpoint is after round \([1-9][0-9]*\): .*/\1/p' err)
    check 'killed with checkpoints: said once' once err "after round $round: $command 3 fedloom resume killed"
    check 'killed with checkpoints: not before' lacks err 'if a rank dies'
fi
start 'continuing after round' resume killed
again=$(sed -n 's/.* continuing after round //p' err) # a later one may have been ready, and not known to all yet
check 'killed with checkpoints: goes on from there' [ "${again:-0}" -ge "${round:-1}" ]
kill -USR1 "$launcher"
leaves "$launcher"
check 'a resumed run stops, too' eval 'exits 130 && once err "\`$command 3 fedloom resume killed\` continues it"'
begin --output paused --checkpoint-every 1000000
kill -USR1 "$launcher"
leaves "$launcher"
check 'SIGUSR1 with checkpoints: exit code' exits 130
check 'SIGUSR1 with checkpoints: the command to go on' once err "\`$command 3 fedloom resume paused\` continues it"

if [ "$abrupt" ]; then # srun --mpi=pmi2 has the same variables, and one more
    PMI_JOBID=1.0 begin --output batch --checkpoint-every 1000000
    kill -USR1 "$launcher"
    leaves "$launcher"
    check 'under Slurm: the command to go on' once err '`srun -K --mpi=pmi2 -n 3 fedloom resume batch` continues it'
fi

begin
kill -TERM "$launcher"
leaves "$launcher"
check 'SIGTERM: all end' [ "$code" -ne 0 ]
check 'SIGTERM: said once' once err 'fedloom: the run ended early'
begin --output stopped
kill -USR1 "$launcher"
leaves "$launcher"
check 'SIGUSR1: exit code' exits 130
check 'SIGUSR1: said once' once err 'stopping after this round'
check 'SIGUSR1: it stops after the round' eval 'has err "(stopped)" && lacks err "ended early"'
check 'SIGUSR1: and saves' [ -e stopped/model.safetensors ]
begin
kill -USR2 "$(process 1)"
leaves "$launcher"
check 'SIGUSR2 to one of them: all stop' eval 'exits 130 && has err "(stopped)"'

# ---- checkpoints --------------------------------------------------------------------------------------------

# A rank is killed; another number of processes goes on: the model of a run that was never stopped.
long=(run first.yaml --set algorithm=scaffold --set rounds=300 --set metrics.every=100)
kept() { ls "$1.checkpoint" 2>/dev/null | grep -cE "$2"; }
fedloom "${long[@]}" --output whole
for n in 1 2 4; do
    "${launch[@]}" 3 "$program" "${long[@]}" --checkpoint-every 1 --output "cut-$n" >out 2>err </dev/null &
    launcher=$!
    for _ in $(seq 1200); do
        [ "$(kept "cut-$n" '^[0-9]+[.]checkpoint$')" -ge 2 ] && break
        sleep 0.05
    done
    kill -KILL "$(process 1)"
    leaves "$launcher"
    check "killed, for $n: says how to go on" once err "fedloom resume cut-$n"
    check "killed, for $n: every rank has written" [ "$(kept "cut-$n" '^[0-9]+[.][12][.]checkpoint$')" -ge 4 ]
    if [ "$n" = 1 ]; then fedloom resume "cut-$n"; else ranks "$n" "$program" resume "cut-$n"; fi
    check "resumed by $n" exits 0
    check "resumed by $n: said once" once err 'continuing after round'
    check "resumed by $n: not from the start" lacks err 'continuing after round 0'
    check "resumed by $n: the model of one process" same whole/model.safetensors "cut-$n/model.safetensors"
    check "resumed by $n: no checkpoints are left" [ ! -e "cut-$n.checkpoint" ]
done

# Asked to stop: all ranks write one more.
begin --checkpoint-every 100000000 --output asked
kill -USR1 "$launcher"
leaves "$launcher"
check 'SIGUSR1 with checkpoints: exit code' exits 130
check 'SIGUSR1 with checkpoints: the command is said once' once err 'fedloom resume asked'
check 'SIGUSR1 with checkpoints: one, in three parts' [ "$(kept asked '^1([.][12])?[.]checkpoint$')" = 3 ]

count
