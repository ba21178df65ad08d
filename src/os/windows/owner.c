/* SPDX-License-Identifier: MIT */
/* Users, by the hash of their SIDs. Whether a process is of the same user is told by the SIDs. */
#include "os/windows/owner.h"

#include "os/os_atomic.h"

/* A token's user and its SID. */
union user {
    TOKEN_USER token;
    uint64_t room[(sizeof(TOKEN_USER) + SECURITY_MAX_SID_SIZE + 7) / 8];
};

/* Returns the SID of a process's user, in `user`; NULL: it is not known. */
static PSID sid_of(HANDLE process, union user *user)
{
    HANDLE token;
    DWORD length;
    if (!OpenProcessToken(process, TOKEN_QUERY, &token)) {
        return NULL;
    }
    BOOL good = GetTokenInformation(token, TokenUser, user, sizeof(*user), &length);
    (void)CloseHandle(token);
    return good ? user->token.User.Sid : NULL;
}

static uint32_t hash_of(PSID sid)
{
    const unsigned char *bytes = (const unsigned char *)sid;
    uint32_t hash = 2166136261u; /* FNV-1a */
    for (DWORD i = 0; i < GetLengthSid(sid); i++) {
        hash = (hash ^ bytes[i]) * 16777619u;
    }
    return hash;
}

uint32_t vipl_local_user(void)
{
    static uint32_t known; /* atomic; 0: not asked for yet */
    uint32_t user = vipl_load_relaxed(&known);
    if (user == 0) {
        union user own;
        PSID sid = sid_of(GetCurrentProcess(), &own);
        user = sid == NULL ? 0 : hash_of(sid);
        vipl_store_relaxed(&known, user);
    }
    return user;
}

/* Another user never has the number of this process's user. */
static uint32_t user_of(HANDLE process)
{
    union user own;
    union user other;
    PSID ours = sid_of(GetCurrentProcess(), &own);
    PSID theirs = sid_of(process, &other);
    bool same = ours != NULL && theirs != NULL && EqualSid(ours, theirs);
    return vipl_local_user() + (same ? 0 : 1);
}

struct vipl_owner vipl_owner_of_other_end(HANDLE pipe, bool is_server)
{
    struct vipl_owner owner = {0, NULL, vipl_local_user() + 1};
    ULONG pid = 0;
    if (is_server ? GetNamedPipeClientProcessId(pipe, &pid) : GetNamedPipeServerProcessId(pipe, &pid)) {
        owner.pid = pid;
        owner.handle =
            OpenProcess(PROCESS_DUP_HANDLE | PROCESS_QUERY_LIMITED_INFORMATION | SYNCHRONIZE, FALSE, pid);
    }
    if (owner.handle != NULL) {
        owner.user = user_of(owner.handle);
    }
    return owner;
}

int vipl_owner_only(struct vipl_owner_only *out)
{
    union user own;
    PSID sid = sid_of(GetCurrentProcess(), &own);
    ACL *acl = (ACL *)(void *)out->acl;
    bool good = sid != NULL && InitializeSecurityDescriptor(&out->descriptor, SECURITY_DESCRIPTOR_REVISION) &&
                InitializeAcl(acl, sizeof(out->acl), ACL_REVISION) &&
                AddAccessAllowedAce(acl, ACL_REVISION, GENERIC_ALL, sid) &&
                SetSecurityDescriptorDacl(&out->descriptor, TRUE, acl, FALSE);
    out->attributes = (SECURITY_ATTRIBUTES){sizeof(out->attributes), &out->descriptor, FALSE};
    return good ? 0 : vipl_errno_of(GetLastError());
}
