#!/bin/sh
# Start the server of a container. With arguments it runs `flightllm` with them instead, such as `doctor`.
#
# FLIGHTLLM_CONFIG  a configuration; by default /etc/flightllm.toml if that is there, else the shipped container.toml
# FLIGHTLLM_TOKEN   the token that clients must send; without it, the first start makes one and keeps it in the volume
set -eu

if [ "$#" -gt 0 ]; then
    exec flightllm "$@"
fi

if [ -z "${FLIGHTLLM_CONFIG:-}" ]; then
    FLIGHTLLM_CONFIG=container
    [ -f /etc/flightllm.toml ] && FLIGHTLLM_CONFIG=/etc/flightllm.toml
fi

if [ -z "${FLIGHTLLM_TOKEN:-}" ]; then
    kept="$FLIGHTLLM_HOME/container-token"
    if [ ! -s "$kept" ]; then
        (umask 077 && python -c 'import secrets; print(secrets.token_urlsafe(32))' > "$kept")
    fi
    FLIGHTLLM_TOKEN=$(cat "$kept")
    export FLIGHTLLM_TOKEN
    echo "clients need the token in $kept: docker exec CONTAINER cat $kept" >&2
fi

exec flightllm serve --config "$FLIGHTLLM_CONFIG"
