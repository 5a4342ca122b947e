#!/bin/sh
# Makes a 64-bit ARM system in build/aarch64, on an x86-64 machine with Debian 12 or newer: `root` (Debian's Python,
# libjpeg-turbo and C library for ARM, unpacked, not installed) and `python`, a program that runs that Python under
# qemu-user. Installs the cross compiler and qemu-user if they are missing. Prints the version of that Python, such as 3.11.
set -eu
cd "$(dirname "$0")/.."
here=$PWD/build/aarch64
root=$here/root

if ! command -v apt-get >/dev/null 2>&1; then
    echo "this needs Debian: its cross compiler, qemu-user, and its packages for ARM" >&2
    exit 1
fi
if ! command -v aarch64-linux-gnu-g++ >/dev/null 2>&1 || ! command -v qemu-aarch64 >/dev/null 2>&1; then
    if [ "$(id -u)" = 0 ]; then become=; else become="sudo -n"; fi
    echo "installing g++-aarch64-linux-gnu qemu-user" >&2
    $become apt-get -qq update
    DEBIAN_FRONTEND=noninteractive $become apt-get -qq install --no-install-recommends g++-aarch64-linux-gnu qemu-user >/dev/null
fi

# Packages for ARM are unpacked, with a state of apt's own, so that nothing of the system changes.
if [ ! -e "$root/done" ]; then
    rm -rf "$root" "$here/apt"
    mkdir -p "$root" "$here/apt/state/lists/partial" "$here/apt/cache/archives/partial"
    touch "$here/apt/state/status"
    apt="apt-get -qq -o APT::Architecture=arm64 -o APT::Architectures=arm64 -o APT::Sandbox::User=root
        -o Dir::State=$here/apt/state -o Dir::State::status=$here/apt/state/status -o Dir::Cache=$here/apt/cache"
    # shellcheck disable=SC2086 # several options
    $apt update >&2
    # shellcheck disable=SC2086
    $apt install --no-install-recommends --download-only --yes python3 libpython3-dev libjpeg-dev libstdc++6 >/dev/null
    for package in "$here"/apt/cache/archives/*.deb; do dpkg-deb --extract "$package" "$root"; done
    rm -rf "$here/apt"
    touch "$root/done"
fi
name=$(basename "$(readlink -f "$root/usr/bin/python3")")

# A program of that name is what the tests start as Python. The kernel runs a shell script by its interpreter, so this needs
# no binfmt_misc; sys.executable has to be this program, too, for processes that Python starts.
mkdir -p "$here/start"
printf 'import sys\nsys.executable = "%s"\n' "$here/python" >"$here/start/sitecustomize.py"
cat >"$here/python" <<PROGRAM
#!/bin/sh
PYTHONPATH="$here/start\${PYTHONPATH:+:\$PYTHONPATH}" exec "$(command -v qemu-aarch64)" -L "$root" -0 "$here/python" "$root/usr/bin/$name" "\$@"
PROGRAM
chmod +x "$here/python"
echo "${name#python}"
