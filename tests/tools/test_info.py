# SPDX-License-Identifier: MIT
"""vipl-info: options, exit codes, the table and the JSON object, aliases."""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "support"))
from toolrun import Checks, directory, run  # noqa: E402

LIMITS = ["max_transfer_bytes", "max_segments_per_descriptor", "max_descriptors_per_queue", "max_vis",
          "max_completion_queues", "max_completion_queue_entries", "max_protection_tags",
          "max_registered_regions", "max_region_bytes", "max_registered_bytes", "native_mtu_bytes",
          "max_discriminator_bytes"]

info = os.path.join(directory(), "vipl-info")
checks = Checks()
checks.common_options(info)

result = run(info)
checks.code(result, 0, "no option")
checks.that(result.out.count("(the default device)") == 1, "the default device is marked once", result)
lines = result.out.splitlines()
checks.that(any(line.startswith("loopback") for line in lines), "loopback is listed", result)
checks.that("9223372036854775807" not in result.out and "unlimited" in result.out, "what has no limit is unlimited", result)
checks.that(lines[0].startswith("library ") and lines[1].split()[0] == "devices", "the build is shown", result)
built = lines[1].split()[1].split(",")
if "tcp" in built:
    checks.that(any(line.startswith("tcp:lo:") and line.endswith("127.0.0.1") for line in lines), "interfaces are listed", result)

result = run(info, "--json", "--device", "loopback")
checks.code(result, 0, "--json --device loopback")
top = checks.json(result.out, "--json")
checks.that(top.get("schema") == 1 and top.get("tool") == "vipl-info", "schema and tool are named", result)
devices = top.get("devices", [])
checks.that(len(devices) == 1 and devices[0].get("device") == "loopback", "only the device asked for", result)
device = devices[0] if devices else {}
checks.that(device.get("opens") is True, "loopback opens", result)
for key in LIMITS:
    checks.that(isinstance(device.get(key), int) and device[key] > 0, "%s is a number above 0" % key, result)
checks.that(device.get("max_transfer_bytes", 0) >= 1 << 20, "transfers of 1 MiB", result)
checks.that(device.get("max_vis", 0) >= 65536, "65,536 VIs", result)
checks.that(set(device.get("reliability_levels", [])) == {"unreliable", "delivery", "reception"},
            "all reliability levels", result)

result = run(info, "--json", "--device", "no such\tdevice\"")
checks.code(result, 1, "a device that does not exist")
device = (checks.json(result.out, "--json of a missing device").get("devices") or [{}])[0]
checks.that(device.get("opens") is False and device.get("error") == "VIP_ERROR_RESOURCE",
            "a missing device is an entry with an error", result)
checks.that(device.get("device") == "no such\tdevice\"", "a name with odd characters survives", result)

aliases = {"VIPL_DEVICE_ALIASES": "/dev/clanvi7=loopback,broken=nowhere,junk,"}
result = run(info, "--json", env=aliases)
checks.code(result, 0, "aliases, one of them broken")
devices = checks.json(result.out, "aliases").get("devices", [])
found = {d.get("device"): d.get("opens") for d in devices if d.get("is_alias")}
checks.that(found == {"/dev/clanvi7": True, "broken": False}, "each alias is listed: %r" % found, result)
names = [d.get("device") for d in devices]
checks.that(len(names) == len(set(names)), "each device is listed once: %r" % names, result)
checks.that([d.get("device") for d in devices if d.get("is_default")] == ["loopback"], "one is the default", result)
checks.that('"nowhere"' in result.err, "what does not open is explained", result)

checks.code(run(info, "stray"), 2, "a stray argument")
checks.finish()
