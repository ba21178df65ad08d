# SPDX-License-Identifier: MIT
"""Programs of MPI under Debian's Open MPI: over the provider vipl, and over what Open MPI itself has."""
import os
import shutil
import subprocess

VADER = "Open MPI vader"
OFI_TCP = "tcp;ofi_rxm"

OPTIONS = {
    VADER: ["--mca", "pml", "ob1", "--mca", "btl", "vader,self"],
    OFI_TCP: ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", OFI_TCP],
}
OVER_VIPL = ["--mca", "pml", "cm", "--mca", "mtl", "ofi", "--mca", "mtl_ofi_provider_include", "vipl"]


def is_here():
    return shutil.which("mpirun.openmpi") is not None


def mpirun(build, over, ranks, command, environment=None, spins=False, **more):
    """Runs the program over VADER, OFI_TCP or a device of VIPL. The environment is that of the ranks. `spins`: ranks have a CPU each."""
    ranks_have = dict(environment or {})
    options = OPTIONS.get(over)
    if options is None:
        options = OVER_VIPL
        ranks_have.update(FI_VIPL_DEVICE=over, FI_PROVIDER_PATH=os.path.join(os.path.abspath(build), "lib", "libfabric"))
    for name in os.environ:
        if name.startswith("VIPL_"):
            ranks_have.setdefault(name, os.environ[name])
    if not spins:
        options = options + ["--oversubscribe", "--mca", "mpi_yield_when_idle", "1"]
    for name, value in sorted(ranks_have.items()):
        options = options + ["-x", "%s=%s" % (name, value)]
    around = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    return subprocess.run(["mpirun.openmpi", "-np", str(ranks)] + options + command, env=around, check=False, **more)
