#!/usr/bin/env bash
# Starts a real Kubernetes control plane (etcd, kube-apiserver, kube-controller-manager)
# on free local ports with a new data folder, in the foreground. At the end, stops all
# processes and removes the folder.
# Usage: see --help.
set -euo pipefail

here="$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)"

say() { echo "control-plane: $*" >&2; }
die() { say "$*"; exit 1; }

usage() {
    cat <<'USAGE'
usage: run.sh [options] [-- more flags of kube-apiserver]

  --dir DIR           folder for data, keys, logs and the kubeconfig; must be
                      missing or empty (default: a new temporary folder)
  --keep              keep the folder at the end
  --fsync             make etcd wait for the disk, as in production; slower, for
                      measurements
  --audit             log all requests and responses to DIR/audit.log
  --restart           start kube-apiserver again when it is killed, but not while
                      the file DIR/outage exists
  --until-stdin-ends  also stop when stdin is closed, so that the control plane
                      does not outlive a killed test

When the control plane is ready, lines "name=value" (server, ca, kubeconfig,
admin_token, user_token, etcd, bin, dir) and the line "ready" are printed.
USAGE
}

dir=""
keep=""
fsync=""
audit=""
restart=""
until_stdin_ends=""
while [ $# -gt 0 ]; do
    case "$1" in
        --dir) [ $# -ge 2 ] || die "--dir requires a folder"; dir="$2"; shift 2 ;;
        --dir=*) dir="${1#--dir=}"; shift ;;
        --keep) keep=1; shift ;;
        --fsync) fsync=1; shift ;;
        --audit) audit=1; shift ;;
        --restart) restart=1; shift ;;
        --until-stdin-ends) until_stdin_ends=1; shift ;;
        --help | -h) usage; exit 0 ;;
        --) shift; break ;;
        *) usage >&2; die "unknown option: $1" ;;
    esac
done
more_apiserver_flags=("$@")

for tool in openssl curl; do
    command -v "$tool" >/dev/null || die "'$tool' is required: install it with your system's packages"
done
bin="$("$here/build.sh" | tail -n1)"

# Private keys are created here.
umask 077
if [ -n "$dir" ]; then
    mkdir -p "$dir"
    [ -z "$(ls -A "$dir")" ] || die "$dir is not empty"
    dir="$(cd "$dir" && pwd)"
else
    dir="$(mktemp -d "${TMPDIR:-/tmp}/kopf-control-plane.XXXXXX")"
fi

pids=()
declare -A names=()
finish() {
    status=$?
    trap '' INT TERM HUP
    trap - EXIT
    # On SIGTERM, the API server would wait up to a minute for open watches. Only if the
    # data is kept, etcd must close its files properly.
    for ((i = ${#pids[@]} - 1; i >= 0; i--)); do
        signal=KILL
        [ -n "$keep" ] && [ "${names[${pids[i]}]}" = etcd ] && signal=TERM
        kill -"$signal" "${pids[i]}" 2>/dev/null || true
        wait "${pids[i]}" 2>/dev/null || true
    done
    [ -n "$keep" ] || rm -rf "$dir"
    exit "$status"
}
trap finish EXIT
trap 'exit 0' INT TERM HUP

# free_port NAME: sets NAME to a free port below the range of outgoing connections.
free_port() {
    local port try
    for try in {1..100}; do
        port=$((20000 + RANDOM % 10000))
        # Connecting is the only check that requires no other tool.
        if ! (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
            printf -v "$1" %s "$port"
            return
        fi
    done
    die "no free port between 20000 and 29999"
}

# start NAME ARGS…: starts a binary in the background with a separate log. Its process id is in DIR/NAME.pid.
start() {
    local name="$1"
    shift
    "$bin/$name" "$@" >>"$dir/logs/$name.log" 2>&1 </dev/null &
    pids+=($!)
    names[$!]="$name"
    echo $! >"$dir/$name.pid"
}

# Exits if a process has exited, with the end of its log.
check_alive() {
    local pid
    for pid in "${pids[@]}"; do
        if ! kill -0 "$pid" 2>/dev/null; then
            say "${names[$pid]} exited unexpectedly; the end of its log:"
            tail -n 25 "$dir/logs/${names[$pid]}.log" >&2
            exit 1
        fi
    done
}

# await WHAT SECONDS COMMAND…: repeats the command until it succeeds.
await() {
    local what="$1" deadline=$((SECONDS + $2))
    shift 2
    until "$@"; do
        check_alive
        if [ "$SECONDS" -ge "$deadline" ]; then
            say "timeout while waiting for $what; the end of the logs:"
            tail -n 15 "$dir"/logs/*.log >&2
            exit 1
        fi
        sleep 0.05
    done
}

mkdir -p "$dir/logs" "$dir/pki" "$dir/etcd"

# --- etcd: started first, so that it is ready when the keys are created.
free_port etcd_port
free_port peer_port
etcd_flags=(
    --data-dir="$dir/etcd"
    --listen-client-urls="http://127.0.0.1:$etcd_port"
    --advertise-client-urls="http://127.0.0.1:$etcd_port"
    --listen-peer-urls="http://127.0.0.1:$peer_port"
    --initial-advertise-peer-urls="http://127.0.0.1:$peer_port"
    --initial-cluster="default=http://127.0.0.1:$peer_port"
    # A single member has no peers: short timeouts let it elect itself immediately.
    --heartbeat-interval=10 --election-timeout=100
    --log-level=warn
)
[ -n "$fsync" ] || etcd_flags+=(--unsafe-no-fsync)
start etcd "${etcd_flags[@]}"

# --- Keys and certificates. All are X.509 v3 with extensions, because strict clients
# (rustls) reject v1 certificates. Creating RSA keys would take longer than etcd's start.
cd "$dir/pki"
new_key() { openssl ecparam -name prime256v1 -genkey -noout -out "$1.key"; }

# certificate FILE SUBJECT USAGE [SAN]: a certificate signed by our CA.
certificate() {
    new_key "$1"
    {
        echo "basicConstraints=critical,CA:FALSE"
        echo "keyUsage=critical,digitalSignature"
        echo "extendedKeyUsage=$3"
        echo "subjectKeyIdentifier=hash"
        echo "authorityKeyIdentifier=keyid"
        [ $# -lt 4 ] || echo "subjectAltName=$4"
    } >"$1.ext"
    openssl req -new -key "$1.key" -subj "$2" -out "$1.csr"
    openssl x509 -req -sha256 -days 365 -in "$1.csr" -CA ca.crt -CAkey ca.key \
        -set_serial "0x$(openssl rand -hex 8)" -extfile "$1.ext" -out "$1.crt" 2>/dev/null
}

new_key ca
openssl req -x509 -new -sha256 -days 365 -key ca.key -subj "/CN=kopf-control-plane-ca" -out ca.crt \
    -addext "basicConstraints=critical,CA:TRUE" -addext "keyUsage=critical,keyCertSign,cRLSign" \
    -addext "subjectKeyIdentifier=hash"
certificate apiserver "/CN=kube-apiserver" serverAuth \
    "IP:127.0.0.1,IP:10.0.0.1,DNS:localhost,DNS:kubernetes,DNS:kubernetes.default,DNS:kubernetes.default.svc"
certificate admin "/O=system:masters/CN=admin" clientAuth
# The group has all permissions. Clusters use a service account per controller instead,
# which takes longer to start.
certificate controller-manager "/O=system:masters/CN=system:kube-controller-manager" clientAuth
new_key service-accounts
openssl ec -in service-accounts.key -pubout -out service-accounts.pub 2>/dev/null

# In addition: an administrator by token, and a user without permissions until a role is
# bound to "user".
admin_token="admin-$(openssl rand -hex 16)"
user_token="user-$(openssl rand -hex 16)"
cat >tokens.csv <<TOKENS
$admin_token,admin-by-token,admin-by-token,"system:masters"
$user_token,user,user,"users"
TOKENS

# --- kube-apiserver.
free_port api_port
server="https://127.0.0.1:$api_port"
apiserver_flags=(
    --etcd-servers="http://127.0.0.1:$etcd_port"
    --bind-address=127.0.0.1 --secure-port="$api_port"
    # The address is not detected on the machine's interfaces (there may be none), and not
    # published as endpoints (loopback addresses are rejected).
    --advertise-address=127.0.0.1 --endpoint-reconciler-type=none
    --tls-cert-file=apiserver.crt --tls-private-key-file=apiserver.key
    --client-ca-file=ca.crt
    --token-auth-file=tokens.csv
    --service-account-issuer=https://kubernetes.default.svc
    --service-account-key-file=service-accounts.pub
    --service-account-signing-key-file=service-accounts.key
    --service-cluster-ip-range=10.0.0.0/16
    --authorization-mode=RBAC
    --anonymous-auth=false
    # No controller creates the "default" service accounts, and pods would be rejected
    # without them.
    --disable-admission-plugins=ServiceAccount
    # Disabled by default in this version, but supported by the sandbox.
    --feature-gates=ShardedListAndWatch=true
    # Tests must not be throttled because of the load of other tests.
    --enable-priority-and-fairness=false
    --profiling=false
)
if [ -n "$audit" ]; then
    cat >audit.yaml <<'AUDIT'
apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
- level: RequestResponse
AUDIT
    apiserver_flags+=(--audit-policy-file=audit.yaml --audit-log-path="$dir/audit.log")
fi
apiserver_flags+=(${more_apiserver_flags[@]+"${more_apiserver_flags[@]}"})
start kube-apiserver "${apiserver_flags[@]}"

# --- kubeconfig: all data is embedded, so that the file can be copied.
inline() { base64 <"$1" | tr -d '\n'; }
# kubeconfig FILE CERTIFICATE
kubeconfig() {
    cat >"$1" <<CONFIG
apiVersion: v1
kind: Config
clusters:
- name: control-plane
  cluster:
    server: $server
    certificate-authority-data: $(inline ca.crt)
users:
- name: admin
  user:
    client-certificate-data: $(inline "$2.crt")
    client-key-data: $(inline "$2.key")
- name: admin-by-token
  user:
    token: $admin_token
- name: user
  user:
    token: $user_token
contexts:
- name: admin
  context: {cluster: control-plane, user: admin, namespace: default}
- name: admin-by-token
  context: {cluster: control-plane, user: admin-by-token, namespace: default}
- name: user
  context: {cluster: control-plane, user: user, namespace: default}
current-context: admin
CONFIG
}
kubeconfig controller-manager.kubeconfig controller-manager

# The token is passed in a file: arguments are visible in the list of processes.
echo "header = \"Authorization: Bearer $admin_token\"" >curl.conf
request() { curl --silent --fail --output /dev/null --max-time 5 --noproxy '*' --cacert ca.crt --config curl.conf "$server$1"; }

await kube-apiserver 120 request /readyz

# --- kube-controller-manager: only the two controllers that affect the objects of
# operators. All others require nodes, or create objects that tests do not expect.
start kube-controller-manager \
    --kubeconfig=controller-manager.kubeconfig \
    --controllers=garbage-collector-controller,namespace-controller \
    --leader-elect=false \
    --secure-port=0 --profiling=false \
    --kube-api-qps=500 --kube-api-burst=1000 \
    --v=2

await "the namespace 'default'" 60 request /api/v1/namespaces/default
await "the garbage collector" 60 grep -q '"synced garbage collector"' "$dir/logs/kube-controller-manager.log"

# Written last: when this file exists, the server is ready.
kubeconfig kubeconfig.new admin
mv kubeconfig.new "$dir/kubeconfig"
say "ready in $SECONDS seconds; export KUBECONFIG=$dir/kubeconfig"
cat <<READY
server=$server
ca=$dir/pki/ca.crt
kubeconfig=$dir/kubeconfig
admin_token=$admin_token
user_token=$user_token
etcd=http://127.0.0.1:$etcd_port
bin=$bin
dir=$dir
ready
READY

if [ -n "$until_stdin_ends" ]; then
    # Background processes of scripts have no stdin, hence the copy.
    exec 4<&0
    cat <&4 >/dev/null &
    stdin_pid=$!
    pids+=("$stdin_pid")
    names[$stdin_pid]="stdin"
fi
# restart_apiserver: starts kube-apiserver again; fails if it has not ended.
restart_apiserver() {
    local old i
    old="$(cat "$dir/kube-apiserver.pid")"
    ! kill -0 "$old" 2>/dev/null || return 1
    while [ -e "$dir/outage" ]; do sleep 0.1; done
    for i in "${!pids[@]}"; do
        [ "${pids[i]}" != "$old" ] || unset "pids[i]"
    done
    pids=("${pids[@]}")
    start kube-apiserver "${apiserver_flags[@]}"
}
while true; do
    wait -n "${pids[@]}" || true
    if [ -n "${stdin_pid:-}" ] && ! kill -0 "$stdin_pid" 2>/dev/null; then
        exit 0
    fi
    [ -n "$restart" ] && restart_apiserver && continue
    check_alive
    exit 0
done
