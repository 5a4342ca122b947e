#!/usr/bin/env bash
# Ray, Dask and Slurm on loopback, for the tests with the marker `cluster`.
#
#   scripts/cluster.sh install    install what is missing: Ray and Dask in .cluster/packages, Slurm by apt (root)
#   scripts/cluster.sh start      start munged, slurmctld and slurmd on this machine
#   scripts/cluster.sh stop       end them
#   scripts/cluster.sh env        print what clients need, for `eval`
set -euo pipefail

cd "$(dirname "$0")/.."
PLACE=${TMPDIR:-/tmp}/bushel-cluster
PYTHON=.venv/bin/python

have() {
    for command in "$@"; do command -v "$command" >/dev/null || return 1; done
}

install() {
    if [ ! -d .cluster/packages/ray ]; then
        $PYTHON -m pip install --quiet --disable-pip-version-check --target .cluster/packages \
            "ray>=2.9" "distributed>=2024.1" psutil pydantic
    fi
    if have sbatch slurmctld slurmd munged; then return; fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        slurmctld slurmd slurm-client munge >/dev/null
}

configure() {
    mkdir -p "$PLACE"/{state,spool,munge}
    chmod 700 "$PLACE/munge"
    host=$(hostname -s)
    cat >"$PLACE/slurm.conf" <<CONF
ClusterName=bushel
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
AuthType=auth/munge
AuthInfo=socket=$PLACE/munge/socket
CryptoType=crypto/munge
SlurmctldPort=16817
SlurmdPort=16818
StateSaveLocation=$PLACE/state
SlurmdSpoolDir=$PLACE/spool
SlurmctldPidFile=$PLACE/slurmctld.pid
SlurmdPidFile=$PLACE/slurmd.pid
SlurmctldLogFile=$PLACE/slurmctld.log
SlurmdLogFile=$PLACE/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
SchedulerParameters=sched_interval=1,batch_sched_delay=0
MpiDefault=none
ReturnToService=2
NodeName=$host NodeAddr=127.0.0.1 CPUs=$(nproc) State=UNKNOWN
PartitionName=all Nodes=$host Default=YES MaxTime=INFINITE State=UP
CONF
}

start() {
    configure
    export SLURM_CONF=$PLACE/slurm.conf
    if [ ! -s "$PLACE/munge/key" ]; then
        (umask 077 && head -c 1024 /dev/urandom >"$PLACE/munge/key")
    fi
    munged --force --key-file="$PLACE/munge/key" --socket="$PLACE/munge/socket" --pid-file="$PLACE/munge/pid" \
        --log-file="$PLACE/munge/log" --seed-file="$PLACE/munge/seed"
    slurmctld
    slurmd -N "$(hostname -s)"
    for _ in $(seq 60); do
        if sinfo --noheader --format=%T 2>/dev/null | grep -qE "idle|mixed|allocated"; then return; fi
        sleep 0.5
    done
    tail -n 20 "$PLACE"/*.log >&2
    exit 1
}

stop() {
    for daemon in slurmd.pid slurmctld.pid munge/pid; do
        if [ -s "$PLACE/$daemon" ]; then kill "$(cat "$PLACE/$daemon")" 2>/dev/null || true; fi
    done
    sleep 1
    rm -rf "$PLACE"
}

case ${1:-} in
    install) install ;;
    start) start ;;
    stop) stop ;;
    env) echo "SLURM_CONF=$PLACE/slurm.conf" ;;
    *) sed -n '2,8p' "$0" && exit 2 ;;
esac
