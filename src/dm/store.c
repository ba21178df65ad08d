/* SPDX-License-Identifier: MIT */
/* The kinds of stores; see store.h. */
#include "dm/store.h"

#include "dm/reason.h"

static const struct dm_store_kind *const store_kinds[] = {&dm_store_file, &dm_store_nvme};

const struct dm_store_kind *dm_store_kind_of(const char *name, const char **argument,
                                             struct vipl_dm_reason *reason, int *error)
{
    for (size_t i = 0; i < sizeof(store_kinds) / sizeof(store_kinds[0]); i++) {
        *argument = dm_argument(name, store_kinds[i]->name);
        if (*argument != NULL) {
            return store_kinds[i];
        }
    }
    *error = dm_no_such_kind(reason, "store", name, NULL);
    return NULL;
}

int dm_store_open(const char *name, const struct dm_store_wish *wish, struct dm_store **store,
                  struct vipl_dm_reason *reason)
{
    const char *argument;
    int error = 0;
    const struct dm_store_kind *kind = dm_store_kind_of(name, &argument, reason, &error);

    return kind == NULL ? error : kind->open(argument, wish, store, reason);
}

void dm_store_close(struct dm_store *store)
{
    if (store != NULL) {
        store->kind->close(store);
    }
}
