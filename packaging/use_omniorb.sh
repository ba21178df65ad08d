#!/bin/sh
# SPDX-License-Identifier: MIT
# The naming service of omniORB and its command, over the transport giop:vipl alone: what the package libomniorb4-vipl is for.
set -e
logs=$(mktemp -d)
export LD_PRELOAD=libomniviplTP4.so ORBserverTransportRule='* vipl' ORBclientTransportRule='* vipl'
omniNames -start 2809 -logdir "$logs" -ORBendPoint giop:vipl: >"$logs/log" 2>&1 &
trap 'kill $!; rm -rf "$logs"' EXIT
for _ in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20; do
    reference=$(sed -n 's/.*Root context is \(IOR:[0-9a-f]*\).*/\1/p' "$logs/log")
    [ -z "$reference" ] || break
    sleep 0.5
done
nameclt -ORBInitRef NameService="$reference" bind_new_context sample >/dev/null
test "$(nameclt -ORBInitRef NameService="$reference" list)" = sample/
echo "omniorb: the naming service is called over giop:vipl"
