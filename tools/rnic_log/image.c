/* SPDX-License-Identifier: MIT */
#include "image.h"

#include <stdlib.h>
#include <string.h>

enum { PAGE = 4096 };

struct image_page {
    unsigned fn;
    uint64_t number;      /* of its addresses */
    uint8_t states[PAGE]; /* enum image_state */
    uint8_t bytes[PAGE];
};

static bool is_before(const struct image_page *page, unsigned fn, uint64_t number)
{
    return page->fn < fn || (page->fn == fn && page->number < number);
}

/* The place of a page, or where it would be. */
static size_t place_of(const struct image *image, unsigned fn, uint64_t number)
{
    size_t low = 0;
    size_t high = image->count;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (is_before(image->pages[middle], fn, number)) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

static struct image_page *page_of(const struct image *image, unsigned fn, uint64_t number)
{
    size_t place = place_of(image, fn, number);
    struct image_page *page = place < image->count ? image->pages[place] : NULL;

    return page != NULL && page->fn == fn && page->number == number ? page : NULL;
}

static bool make_room(struct image *image)
{
    size_t room = image->room == 0 ? 64 : 2 * image->room;
    struct image_page **pages;

    if (image->count < image->room) {
        return true;
    }
    pages = realloc(image->pages, room * sizeof(struct image_page *));
    if (pages != NULL) {
        image->pages = pages;
        image->room = room;
    }
    return pages != NULL;
}

static struct image_page *add_page(struct image *image, unsigned fn, uint64_t number)
{
    size_t place = place_of(image, fn, number);
    struct image_page *page = make_room(image) ? calloc(1, sizeof(*page)) : NULL;

    if (page != NULL) {
        page->fn = fn;
        page->number = number;
        memmove(image->pages + place + 1, image->pages + place,
                (image->count - place) * sizeof(struct image_page *));
        image->pages[place] = page;
        image->count++;
    }
    return page;
}

/* How many bytes of a range are in the page that it begins in. */
static uint32_t part_of(uint64_t address, uint32_t bytes)
{
    uint32_t rest = PAGE - (uint32_t)(address % PAGE);
    return bytes < rest ? bytes : rest;
}

bool image_put(struct image *image, unsigned fn, uint64_t address, const void *data, uint32_t bytes,
               enum image_state state)
{
    const uint8_t *from = data;

    for (uint32_t part; bytes > 0; address += part, from += part, bytes -= part) {
        struct image_page *page = page_of(image, fn, address / PAGE);
        part = part_of(address, bytes);
        if (page == NULL && (page = add_page(image, fn, address / PAGE)) == NULL) {
            return false;
        }
        memcpy(page->bytes + address % PAGE, from, part);
        memset(page->states + address % PAGE, (int)state, part);
    }
    return true;
}

void image_get(struct image *image, unsigned fn, uint64_t address, uint8_t *out, bool *is_known,
               uint32_t bytes, enum image_state state)
{
    for (uint32_t i = 0; i < bytes; i++) {
        struct image_page *page = is_known[i] ? NULL : page_of(image, fn, (address + i) / PAGE);
        size_t at = (size_t)((address + i) % PAGE);
        if (page != NULL && page->states[at] >= (uint8_t)state) {
            out[i] = page->bytes[at];
            page->states[at] = IMAGE_KNOWN;
            is_known[i] = true;
        }
    }
}

void image_end(struct image *image)
{
    for (size_t i = 0; i < image->count; i++) {
        free(image->pages[i]);
    }
    free(image->pages);
    *image = (struct image){0};
}
