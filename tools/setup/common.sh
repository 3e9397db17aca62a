# What the set-up scripts share: installing Debian packages quietly, and finding a cargo that is new enough. To be sourced
# by bash. It installs only what is missing, and prints what it does on stderr.

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
# What the scripts fetch for themselves, kept between runs; outside the source tree's tracked files.
target=${CARGO_TARGET_DIR:-$here/target}
cache=$target/setup

say() { echo "setup: $*" >&2; }

as_root() {
    if [ "$(id -u)" = 0 ]; then "$@"; elif command -v sudo >/dev/null; then sudo "$@"; else
        say "need root for: $* (run this as root, or install sudo)"
        return 1
    fi
}

# packages NAME...: installs those that are not there.
packages() {
    local missing=() name
    for name in "$@"; do
        dpkg-query -W -f '${Status}' "$name" 2>/dev/null | grep -q "ok installed" || missing+=("$name")
    done
    [ ${#missing[@]} = 0 ] && return 0
    say "installing ${missing[*]}"
    local log
    log=$(mktemp)
    if ! beside "installing Debian packages" apt_install "${missing[@]}" >"$log"; then
        cat "$log" >&2
        say "apt-get failed, see above"
        rm -f "$log"
        return 1
    fi
    rm -f "$log"
}

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get update -qq 2>&1 &&
        as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends "$@" 2>&1
}

# reading oldest|newest NAME...: the versions of packages that read the tables, as pip takes them.
reading() {
    local which=$1 name found
    shift
    for name in "$@"; do
        found=$(awk -v name="$name" -v at=$([ "$which" = oldest ] && echo 2 || echo 3) '$1 == name { print $at }' "$here/tools/query/engines/versions.txt")
        [ -n "$found" ] || { say "tools/query/engines/versions.txt does not name $name"; return 1; }
        printf '%s==%s ' "$name" "$found"
    done
}

# python_with FOLDER WHEELS: a Python environment that has exactly these, made anew where the list is another.
python_with() {
    [ "$(cat "$1/wheels" 2>/dev/null)" = "$2" ] && return 0
    say "installing wheels: $2"
    mkdir -p "$cache"
    rm -rf "$1"
    /usr/bin/python3 -m venv "$1" || return 1
    # shellcheck disable=SC2086
    beside "installing wheels" "$1/bin/pip" install --quiet --disable-pip-version-check $2 || return 1
    echo "$2" >"$1/wheels"
}

# Whether `$1 --version` says 1.88 or newer.
new_enough() {
    local version
    version=$("$1" --version 2>/dev/null | sed -n 's/^[a-z]* \([0-9]*\.[0-9]*\).*/\1/p')
    [ -n "$version" ] && [ "$(printf '%s\n1.88\n' "$version" | sort -V | head -n 1)" = 1.88 ]
}

# Sets CARGO, and RUSTC where it is not the one beside it. Debian 12's own cargo is older than the project needs.
find_cargo() {
    local candidate
    for candidate in "${CARGO:-}" cargo "$HOME/.cargo/bin/cargo"; do
        if [ -n "$candidate" ] && command -v "$candidate" >/dev/null && new_enough "$candidate"; then
            CARGO=$(command -v "$candidate")
            PATH=$(dirname "$CARGO"):$PATH
            export CARGO PATH
            return 0
        fi
    done
    packages rustc-web cargo-web || return 1
    # These packages put cargo and rustc in the usual place, in place of the older ones.
    if command -v cargo >/dev/null && new_enough cargo; then
        CARGO=$(command -v cargo)
        export CARGO
        return 0
    fi
    say "no cargo of version 1.88 or newer: install Rust from your distribution or with rustup"
    return 1
}

# still COMMAND...: every five seconds prints what COMMAND prints, for as long as this script runs and until it is killed.
still() {
    while sleep 5 </dev/null >/dev/null 2>&1 && kill -0 $$ 2>/dev/null; do say "$("$@")"; done
}

# beside TEXT COMMAND...: runs COMMAND; every five seconds says TEXT and for how long it has run.
beside() {
    local text=$1 begun=$SECONDS ticker status=0
    shift
    passed() { echo "$text: $((SECONDS - begun)) s"; }
    still passed &
    ticker=$!
    "$@" || status=$?
    kill "$ticker" 2>/dev/null || true
    return "$status"
}

# build_products: recorder, commands and audit shim, side by side in $target/release. What compilers print is shown where they
# fail, and else left out: it is for who changes clscope.
build_products() {
    local log all begun=$SECONDS
    log=$(mktemp)
    all=$(cd "$here" && "$CARGO" tree -p clscope -p clscope-cli -p clscope-lab --edges normal,build --prefix none 2>/dev/null | sed 's/ .*//' | sort -u | wc -l)
    say "building clscope: $all crates, two to four minutes on two cores the first time"
    compiled() { echo "building: $(grep -c '^ *Compiling' "$log") of some $all crates, $((SECONDS - begun)) s"; }
    still compiled &
    local ticker=$! status=0
    (cd "$here" && CARGO_TARGET_DIR=$target "$CARGO" build --release -p clscope -p clscope-cli -p clscope-lab &&
        CARGO_TARGET_DIR=$target "$CARGO" build --release --manifest-path tools/audit/Cargo.toml) >"$log" 2>&1 || status=$?
    kill "$ticker" 2>/dev/null || true
    [ "$status" = 0 ] || cat "$log" >&2
    rm -f "$log"
    [ "$status" = 0 ] && say "built in $((SECONDS - begun)) s"
    return "$status"
}

# photograph: prints the path of a photograph of a face that is free to use. It comes with scikit-image; the package is
# only unpacked, for this one picture.
photograph() {
    local face=$cache/photographs/astronaut.png fetched
    if [ ! -f "$face" ]; then
        fetched=$(mktemp -d)
        # apt reads and writes as a user of its own.
        chmod 777 "$fetched"
        if ! (cd "$fetched" && apt-get download -qq python3-skimage) >/dev/null 2>&1; then
            as_root apt-get update -qq >/dev/null || return 1
            (cd "$fetched" && apt-get download -qq python3-skimage) >/dev/null || return 1
        fi
        dpkg-deb -x "$fetched"/python3-skimage_*.deb "$fetched/unpacked" || return 1
        mkdir -p "$cache/photographs"
        cp "$fetched/unpacked/usr/lib/python3/dist-packages/skimage/data/astronaut.png" "$face" || return 1
        rm -rf "$fetched"
    fi
    echo "$face"
}
