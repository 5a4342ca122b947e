#!/usr/bin/env bash
# A real S3 server on loopback for tests and benchmarks: Ceph RGW from Debian's packages, in memory, nothing kept.
#
#   scripts/object_store.sh install    install what is missing (root)
#   scripts/object_store.sh start      install, start, make the user, wait until it answers
#   scripts/object_store.sh stop       end the three daemons and forget all objects
#   scripts/object_store.sh env        print what clients need, for `eval`
#   scripts/object_store.sh others     install the other servers of the tests: nginx, and Azurite where there is npm
#
# OBJECT_STORE_PORT chooses another port than 7480, OBJECT_STORE_BYTES how much it may hold (4 GiB).
set -euo pipefail

PORT=${OBJECT_STORE_PORT:-7480}
PLACE=${TMPDIR:-/tmp}/bushel-object-store-$PORT
KEY=AKTEST
SECRET=SKTEST

have() {
    for command in "$@"; do command -v "$command" >/dev/null || return 1; done
}

install() {
    if have radosgw ceph-mon ceph-osd ceph monmaptool; then return; fi
    apt-get update -qq
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
        radosgw ceph-mon ceph-osd ceph-common >/dev/null
}

others() {
    if ! have nginx openssl; then
        apt-get update -qq
        DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends nginx-light openssl >/dev/null
    fi
    cd "$(dirname "$0")/.."
    if [ -x .cloud/node_modules/.bin/azurite-blob ]; then return; fi
    if have npm; then
        mkdir -p .cloud
        npm install --silent --no-fund --no-audit --prefix .cloud azurite
    else
        echo "npm is not installed: the tests against Azure Blob Storage will be skipped" >&2
    fi
}

answers() { curl --silent --output /dev/null "http://127.0.0.1:$PORT"; }

configure() {
    mkdir -p "$PLACE"/{mon,osd,log}
    cat >"$PLACE/ceph.conf" <<CONF
[global]
fsid = $1
mon_host = [v2:127.0.0.1:$((PORT + 100))/0,v1:127.0.0.1:$((PORT + 101))/0]
public_addr = 127.0.0.1
cluster_addr = 127.0.0.1
auth_cluster_required = none
auth_service_required = none
auth_client_required = none
ms_mon_client_mode = crc
ms_mon_cluster_mode = crc
ms_mon_service_mode = crc
osd_pool_default_size = 1
osd_pool_default_min_size = 1
osd_pool_default_pg_num = 4
osd_pool_default_pg_autoscale_mode = off
mon_allow_pool_size_one = true
mon_max_pg_per_osd = 1000
osd_crush_chooseleaf_type = 0
osd_objectstore = memstore
memstore_device_bytes = ${OBJECT_STORE_BYTES:-4294967296}
mon_data = $PLACE/mon
osd_data = $PLACE/osd
run_dir = $PLACE
pid_file = $PLACE/\$name.pid
admin_socket = $PLACE/\$name.asok
log_file = $PLACE/log/\$name.log
mon_data_avail_warn = 1
mon_data_avail_crit = 1
rgw_frontends = beast endpoint=127.0.0.1:$PORT tcp_nodelay=1
rgw_rados_pool_pg_num_min = 1
CONF
}

start() {
    install
    if answers; then
        echo "http://127.0.0.1:$PORT answers already" >&2
        return
    fi
    rm -rf "$PLACE"
    local cluster osd
    cluster=$(cat /proc/sys/kernel/random/uuid)
    osd=$(cat /proc/sys/kernel/random/uuid)
    configure "$cluster"
    exec 3>&1 1>"$PLACE/log/start.log" 2>&1 # daemons must not hold the caller's pipe
    monmaptool --create --fsid "$cluster" --addv a "[v2:127.0.0.1:$((PORT + 100)),v1:127.0.0.1:$((PORT + 101))]" \
        "$PLACE/monmap"
    ceph-mon --mkfs -i a --monmap "$PLACE/monmap" -c "$PLACE/ceph.conf"
    ceph-mon -i a -c "$PLACE/ceph.conf" 3>&-
    ceph -c "$PLACE/ceph.conf" --connect-timeout 20 osd new "$osd"
    ceph-osd -i 0 --mkfs --osd-uuid "$osd" -c "$PLACE/ceph.conf"
    ceph-osd -i 0 -c "$PLACE/ceph.conf" 3>&-
    radosgw -n client.rgw.a -c "$PLACE/ceph.conf" 3>&-
    for _ in $(seq 200); do
        if answers; then break; fi
        sleep 0.3
    done
    radosgw-admin -n client.admin -c "$PLACE/ceph.conf" user create --uid=test --display-name=test \
        --access-key="$KEY" --secret-key="$SECRET"
    exec 1>&3 3>&-
    answers
    echo "http://127.0.0.1:$PORT" >&2
}

stop() {
    if [ ! -d "$PLACE" ]; then return; fi
    local pids
    pids=$(cat "$PLACE"/*.pid 2>/dev/null || true)
    for pid in $pids; do kill "$pid" 2>/dev/null || true; done
    for pid in $pids; do
        for _ in $(seq 100); do
            if ! kill -0 "$pid" 2>/dev/null; then break; fi
            sleep 0.1
        done
    done
    rm -rf "$PLACE"
}

case ${1:-} in
install | start | stop | others) "$1" ;;
env)
    printf 'export AWS_ENDPOINT_URL=http://127.0.0.1:%s AWS_ACCESS_KEY_ID=%s AWS_SECRET_ACCESS_KEY=%s' \
        "$PORT" "$KEY" "$SECRET"
    printf ' AWS_REGION=us-east-1\n'
    ;;
*)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
