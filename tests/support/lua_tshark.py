# SPDX-License-Identifier: MIT
"""tshark with a Lua script. From 4.4 on Wireshark runs none for root: then it runs as nobody, with a copy of the script, in a folder that nobody
may enter."""
import os
import shutil

NOBODY = "65534"


def with_script(script, folder):
    """The words of a command line; `folder` is the caller's, with the files that tshark is to read."""
    if os.geteuid() != 0 or shutil.which("setpriv") is None:
        return ["tshark", "-X", "lua_script:" + script]
    copy = os.path.join(folder, os.path.basename(script))
    if not os.path.exists(copy):
        shutil.copy(script, copy)
    os.chmod(copy, 0o644)
    os.chmod(folder, 0o777)
    return ["setpriv", "--reuid", NOBODY, "--regid", NOBODY, "--clear-groups", "env", "HOME=" + folder, "XDG_CONFIG_HOME=" + folder,
            "tshark", "-X", "lua_script:" + copy]
