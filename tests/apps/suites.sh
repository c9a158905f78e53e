#!/usr/bin/env bash
# The own tests of network libraries for Python, over the kernel and over Clearway, whose namespace owns 127.0.0.1 and ::1: the same tests must hold.
#
#   tests/apps/suites.sh [twisted|trio|tornado|gevent|uvloop ...]      all of them without an argument (half an hour)
#
# Installs the libraries from PyPI below target/suites, and runs each in a network namespace of its own (root). What differs for a reason is told with it, and is no
# failure; what else differs is. Needs Debian's python3-venv, and `clearway` with its library below target/release or target/debug (or where CLEARWAY_BIN says).
set -euo pipefail
top=$(cd "$(dirname "$0")/../.." && pwd)
bin=${CLEARWAY_BIN:-$([ -x "$top/target/release/clearway" ] && echo "$top/target/release" || echo "$top/target/debug")}
[ -x "$bin/clearway" ] || { echo "no clearway at $bin: cargo build --release" >&2; exit 2; }
python3 -c "import ensurepip" 2> /dev/null || { echo "apt-get install python3-venv" >&2; exit 2; }
[ "$(id -u)" = 0 ] || { echo "network namespaces need root" >&2; exit 2; }
suites=("$@")
[ $# -gt 0 ] || suites=(twisted trio tornado gevent uvloop)
for suite in "${suites[@]}"; do
    [[ " twisted trio tornado gevent uvloop " == *" $suite "* ]] || { echo "no suite $suite: twisted, trio, tornado, gevent, uvloop" >&2; exit 2; }
done

venv=$top/target/suites
[ -x "$venv/bin/python" ] || python3 -m venv "$venv"
"$venv/bin/pip" install --quiet 'twisted[tls]==26.10.0' trio==0.35.0 tornado==6.6.1 gevent==26.9.0 uvloop==0.23.0 pytest==9.2.0 pytest-timeout==2.4.0 \
    pyhamcrest==2.1.0 hypothesis==6.170.17 trustme==1.2.1 pyopenssl==26.4.0 psutil==7.2.2
sources=$venv/uvloop-0.23.0
if [[ " ${suites[*]} " == *" uvloop "* && ! -d $sources ]]; then
    # Its tests are in the source only, which pip would build; what is beside them would hide the installed module.
    "$venv/bin/python" - "$venv" <<'PYTHON'
import io, re, sys, tarfile, urllib.parse, urllib.request

index = "https://pypi.org/simple/uvloop/"
page = urllib.request.urlopen(index).read().decode()
url = urllib.parse.urljoin(index, re.search(r'href="([^"#]*uvloop-0[.]23[.]0[.]tar[.]gz)', page).group(1))
with tarfile.open(fileobj=io.BytesIO(urllib.request.urlopen(url).read())) as archive:
    tests = [one for one in archive.getmembers() if "/tests/" in one.name]
    archive.extractall(sys.argv[1], tests, filter="data")
PYTHON
fi

folder=$(mktemp -d /tmp/cwsuites.XXXXXX)
trap 'rm -rf "$folder"' EXIT

# What a suite runs. Each prints the names of tests that failed, one a line; to stderr, how many there were.
cat > "$folder/suite" <<'SUITE'
#!/usr/bin/env bash
suite=$1 venv=$2 log=$3
python=$venv/bin/python
tested() { "$python" -m pytest -q -p no:cacheprovider --timeout 120 -rfE "$@" > "$log" 2>&1; sed -n 's/^\(FAILED\|ERROR\) \([^ ]*\).*/\2/p' "$log"; tail -n 1 "$log" >&2; }
case $suite in
    twisted)
        "$venv/bin/trial" --reporter=text twisted.internet.test.test_tcp twisted.internet.test.test_udp twisted.internet.test.test_endpoints twisted.internet.test.test_tls \
            twisted.internet.test.test_socket twisted.internet.test.test_unix twisted.internet.test.test_epollreactor twisted.internet.test.test_process twisted.internet.test.test_core \
            twisted.test.test_tcp twisted.test.test_tcp_internals twisted.test.test_udp twisted.test.test_ssl twisted.test.test_sslverify twisted.test.test_ftp \
            twisted.web.test.test_http twisted.web.test.test_webclient > "$log" 2>&1
        # Below each failure stand the tests that it is of.
        awk '/^\[(FAIL|ERROR)\]/ { bad = 1 } /^(=|\[SKIPPED|-----)/ { if (!/^\[(FAIL|ERROR)/) bad = 0 } bad && /^twisted\.[A-Za-z0-9_.]*\.test_[A-Za-z0-9_]*$/' "$log"
        grep '^Ran\|^PASSED\|^FAILED' "$log" | tr '\n' ' ' >&2 && echo >&2 ;;
    trio)
        tested -p trio._tests.pytest_plugin --pyargs trio._tests.test_socket trio._tests.test_highlevel_socket trio._tests.test_highlevel_open_tcp_stream \
            trio._tests.test_highlevel_open_tcp_listeners trio._tests.test_ssl trio._tests.test_dtls trio._core._tests.test_io trio._tests.test_signals trio._tests.test_subprocess ;;
    tornado)
        "$python" -m tornado.test.runtests > "$log" 2>&1
        sed -n 's/^\(FAIL\|ERROR\): [^ ]* (\(.*\))$/\2/p' "$log"
        grep '^Ran\|^OK\|^FAILED' "$log" | tr '\n' ' ' >&2 && echo >&2 ;;
    gevent)
        : > "$log"
        for test in socket socket_ex socket_timeout socket_close socket_errors socket_send_memoryview socketpair select selectors monkey_select server server_pywsgi pywsgi ssl backdoor core_fork; do
            timeout 300 "$python" -m gevent.tests.test__$test >> "$log" 2>&1 || echo "test__$test"
        done
        grep -c '^Ran' "$log" | sed 's/$/ modules/' >&2 ;;
    uvloop)
        cd "$venv/uvloop-0.23.0"
        tested tests/test_tcp.py tests/test_udp.py tests/test_sockets.py tests/test_unix.py tests/test_pipes.py tests/test_process.py tests/test_signals.py tests/test_dns.py tests/test_base.py ;;
esac
SUITE

# Both ways have a namespace of their own, in which the loopback interface is up.
cat > "$folder/way" <<'WAY'
#!/usr/bin/env bash
way=$1 bin=$2 folder=$3 commands=$4
shift 4
ip link set lo up
host=
trap '[ -z "$host" ] || { unset LD_PRELOAD; kill "$host" && wait "$host"; }' EXIT
if [ "$way" = clearway ]; then
    "$bin/clearway" up --script "$commands" --socket "$folder/host.sock" > "$folder/host.log" 2>&1 &
    host=$!
    for _ in $(seq 300); do grep -q "is ready" "$folder/host.log" && break; sleep 0.1; done
    grep -q "is ready" "$folder/host.log" || { cat "$folder/host.log" >&2; exit 1; }
    export CLEARWAY_SOCKET=$folder/host.sock CLEARWAY_NS=python CLEARWAY_SECRET=1234 CLEARWAY_REQUIRED=1
    LD_PRELOAD=$bin/libclearway_preload.so "$@"
else
    "$@"
fi
WAY
chmod +x "$folder/suite" "$folder/way"

# Tests that may differ, and why.
declare -A reasons=(
    [test_closePeerOnEMFILE]="accepts beyond RLIMIT_NOFILE: the session fd was there before"
    [test_acceptOutOfFiles]="connect needs a descriptor for a moment"
    [test_connectionRefused]="expects the error while it still sends; closes a socket that shows EPOLLERR"
    [test_inline_read_error]="expects that the other end has ended its handshake in the same turn"
    [test_local_address_real]="of 127.0.0.0/8 the namespace has 127.0.0.1"
)
status=0
for suite in "${suites[@]}"; do
    for way in kernel clearway; do
        mkdir -p "$folder/$way.work"
        echo -n "$suite over $way: " >&2
        (cd "$folder/$way.work" && unshare --net "$folder/way" "$way" "$bin" "$folder" "$top/tests/apps/python.commands" "$folder/suite" "$suite" "$venv" "$folder/$suite.$way.log" < /dev/null |
            sort -u > "$folder/$way.bad") || true
        rm -rf "$folder/$way.work"
    done
    while read -r test; do
        name=${test##*.} name=${name##*:}
        if [ -n "${reasons[$name]:-}" ]; then
            echo "  $test differs: ${reasons[$name]}"
        else
            echo "  fails over Clearway only: $test"
            status=1
        fi
    done < <(comm -13 "$folder/kernel.bad" "$folder/clearway.bad")
    [ $status = 0 ] || cp "$folder/$suite.clearway.log" "$venv/" 2>/dev/null || true
done
exit $status
