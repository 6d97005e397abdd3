#!/usr/bin/env bash
# Everything that needs a GPU, in one go (about ten minutes): parity, quality, speed.
# Run it on a machine with an NVIDIA GPU; what it prints goes into docs/performance.md.
set -euo pipefail
cd "$(dirname "$0")/.."
nvidia-smi --query-gpu=name,memory.total --format=csv
FLAVOUR=cuda tools/setup.sh dev
.venv/bin/harness doctor
# The engine tests take whatever device vLLM finds; float32 parity is the point.
.venv/bin/python -m pytest tests/contract/test_vllm_signatures.py tests/gpu tests/engine -m 'not long'
.venv/bin/harness bench ttft --target-config llama-3.2-1b --load dummy --length 8192 --keep 0.1 --look-ahead 8
.venv/bin/harness bench ttft --target-config llama-3.2-1b --load dummy --length 8192 --keep 0.1 --look-ahead 1
.venv/bin/harness run --method minference --task ruler_niah_single_1 --length 4096 --keep 0.1,0.3 --limit 10 --latency-samples 6
.venv/bin/harness run --task ruler --keep 0.1,0.3 --length 4096 --limit 10 --latency-samples 6
