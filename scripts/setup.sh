#!/usr/bin/env bash
# Makes or reuses the checkout's .venv. The other scripts call it; running it by hand is fine too.
#
#   scripts/setup.sh            vLLM for CPU, or for CUDA where nvidia-smi sees a GPU
#   scripts/setup.sh gpu        choose: cpu or gpu; more extras may follow: cpu,alfworld
#
#   PYTHON=python3.12           which Python (3.11 to 3.13) the environment is made with
#   REFLEXION_EXTRA=cpu         the choice, for the scripts that call this one
#
# Packages come from wherever pip is configured to look; PyTorch's CPU build, which PyPI lacks, comes from
# PyTorch's own index if pip's configuration does not lead to it.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
venv=$root/.venv
python=$venv/bin/python
stamp=$venv/.setup-done      # checksum of what was installed; written last
started=$venv/.setup-started # left behind only by a set-up that was cut off

say() { echo "setup: $*" >&2; }
die() { say "$@"; exit 1; }

fits() { "$1" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 13))' 2>/dev/null; }

choose_python() {
    if [[ -n ${PYTHON:-} ]]; then
        fits "$PYTHON" || die "PYTHON=$PYTHON is not a Python 3.11, 3.12 or 3.13"
        echo "$PYTHON"
        return
    fi
    local candidate
    for candidate in python3 python3.13 python3.12 python3.11; do
        if fits "$candidate"; then
            echo "$candidate"
            return
        fi
    done
    die "no Python 3.11, 3.12 or 3.13 found; install one, or name it: PYTHON=/path/to/python scripts/setup.sh"
}

version() { "$1" -c 'import platform; print(platform.python_version())'; }

# The environment works, was made at this place, by the Python that was asked for, and no set-up was cut off.
usable() {
    [[ ! -e $started ]] && fits "$python" &&
        { [[ -e $stamp ]] || "$python" -m pip --version >/dev/null 2>&1; } &&
        grep -qF "$venv" "$venv/bin/activate" &&
        [[ -z ${PYTHON:-} || $(version "$PYTHON") == "$(version "$python")" ]]
}

# uv reads no pip configuration, so what pip knows is handed over as uv's own variables.
pip_settings() {
    "$python" -m pip config list | "$python" -c '
import ast, os, shlex, sys

rank = {"global": 0, "install": 1, ":env:": 2}
found = {}
for line in sys.stdin:
    key, _, value = line.strip().partition("=")
    section, _, option = key.partition(".")
    if section in rank:
        found.setdefault(option, []).append((rank[section], ast.literal_eval(value)))
settings = {option: max(values)[1].split() for option, values in found.items()}

names = {
    "find-links": ("UV_FIND_LINKS", ","),
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "constraint": ("UV_CONSTRAINT", " "),
    "no-index": ("UV_NO_INDEX", " "),
    "cert": ("SSL_CERT_FILE", " "),
}
variables = {name: separator.join(settings[option])
             for option, (name, separator) in names.items() if option in settings}
if "UV_INDEX" in variables:
    variables["UV_INDEX_STRATEGY"] = "unsafe-best-match"  # the newest of all indexes, as pip does
for name, value in variables.items():
    if name not in os.environ:
        print(f"export {name}={shlex.quote(value)}")'
}

install() {
    "$python" -m uv pip install --quiet --python "$python" --compile-bytecode --editable "${root}[$extras]" "$@"
}

install_all() {
    eval "$(pip_settings)"
    local log
    log=$(mktemp)
    if asked gpu; then
        install 2>"$log" && rm "$log" && return
    else
        local cpu=(--override "$root/scripts/cpu-overrides.txt")
        install "${cpu[@]}" 2>"$log" && rm "$log" && return
        echo "Then, with PyTorch's own index:" >>"$log"
        install "${cpu[@]}" --torch-backend cpu 2>>"$log" && rm "$log" && return
    fi
    cat "$log" >&2
    rm "$log"
    return 1
}

sandbox() {
    command -v bwrap >/dev/null && return
    if [[ $(id -u) == 0 ]] && command -v apt-get >/dev/null; then
        say "installing bubblewrap, the sandbox for untrusted code"
        { apt-get update && apt-get install -y --no-install-recommends bubblewrap; } >/dev/null 2>&1 && return
    fi
    say "bubblewrap is missing, so no generated code can be run; install it: sudo apt-get install bubblewrap"
}

extras=${1:-${REFLEXION_EXTRA:-}}
if [[ -z $extras ]]; then
    extras=cpu
    nvidia-smi -L >/dev/null 2>&1 && extras=gpu
fi
[[ $extras =~ ^[a-z,]+$ ]] || die "extras are names joined by commas, such as cpu,alfworld; got '$extras'"
asked() { [[ ,$extras, == *,$1,* ]]; }
if asked cpu && asked gpu; then die "cpu and gpu exclude each other; choose one"; fi
asked cpu || asked gpu || extras=cpu,$extras
extras=$extras,dev

# One set-up at a time; the second waits, then finds the work done.
exec 9<"$root/scripts/setup.sh"
if ! flock --nonblock 9; then
    say "waiting for another set-up of this checkout"
    flock 9
fi

sandbox
if ! usable; then
    base=$(choose_python)
    say "making .venv with Python $(version "$base")"
    "$base" -m venv --clear "$venv" || die "could not make .venv (on Debian and Ubuntu, python3-venv is needed)"
fi
sum=$(cat "$root"/pyproject.toml "$root"/scripts/{setup.sh,cpu-overrides.txt} - <<<"$extras" | sha256sum)
if [[ ! -e $stamp || $(<"$stamp") != "$sum" ]]; then
    say "installing $extras (a few minutes when packages have to be fetched)"
    touch "$started"
    if ! { "$python" -m pip -qq install 'uv>=0.8' && install_all; }; then
        rm "$started"
        die "the installation failed, see above; PYTHON=... chooses another Python"
    fi
    echo "$sum" >"$stamp"
    rm "$started"
    say "done in $SECONDS s"
fi
