# SPDX-License-Identifier: MIT
"""Calls of omniORB, by the server and the client of integrations/omniorb: over TCP, Unix sockets and VIPL, whose ends sleep while they wait; and over
VIPL a second time, with ends that poll first."""
import os
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "integrations", "omniorb", "bench"))
import bench as omniorb  # noqa: E402
import orb  # noqa: E402

TCP, UNIX, VIPL, POLLING = "TCP", "Unix", "VIPL", "VIPL, polling"
WAYS = (TCP, UNIX, VIPL, POLLING)
POLL_US = "50"
CALLS_A_SECOND = 3000  # so many give a figure for each second that one may take


class Calls:
    """Each round has a server and a client of its own for each way."""

    def __init__(self, build):
        folder = os.path.join(build, "integrations", "omniorb")
        self.programs, self.plugin = os.path.join(folder, "bin"), os.path.join(folder, "lib", "libomniviplTP4.so")

    def are_there(self):
        return os.path.exists(self.plugin) and os.path.exists(os.path.join(self.programs, "omnivipl-client"))

    def measure(self, way, seconds):
        """Rows of one round."""
        programs = orb.Orb(self.programs, self.plugin, 1)
        endpoint = {TCP: "giop:tcp:127.0.0.1:", UNIX: "giop:unix:%s/socket" % programs.folder}.get(way, "giop:vipl:")
        os.environ["VIPL_SPIN_US"] = POLL_US if way == POLLING else "0" # the plug-in polls if it is not told
        try:
            found = omniorb.measure(programs, endpoint, self.plugin if way in (VIPL, POLLING) else None, int(CALLS_A_SECOND * seconds))
        except AssertionError as failure:
            return [{"call": call, "way": way, "failed": str(failure).splitlines()[0][:200]} for call in omniorb.CALLS]
        finally:
            os.environ.pop("VIPL_SPIN_US", None)
        return [{"call": call, "way": way, "median": median, "mean": mean, "p99": percentile}
                for call, (median, mean, percentile) in found.items()]
