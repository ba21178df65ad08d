/* SPDX-License-Identifier: MIT */
/* The picture of vipl-gen and vipl-cap; see traffic_plot.h. */
#include "traffic_plot.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tool_text.h"

#define NS_PER_SECOND 1e9
#define FIRST_APART_NS UINT64_C(50000000)

/* --- what gnuplot can do ---------------------------------------------------------------------- */

/* gnuplot's word for the format that the name asks for, or NULL. */
static const char *terminal_of(const char *path)
{
    static const struct {
        const char *end;
        const char *terminal;
    } known[] = {{".svg", "svg size 900,480 background 'white'"},
                 {".png", "pngcairo size 900,480"},
                 {".pdf", "pdfcairo size 18cm,10cm"}};
    size_t length = strlen(path);

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t end = strlen(known[i].end);
        if (length > end && strcmp(path + length - end, known[i].end) == 0) {
            return known[i].terminal;
        }
    }
    return NULL;
}

static bool is_in_path(const char *program)
{
    const char *folders = getenv("PATH");
    char name[4096];

    while (folders != NULL && *folders != '\0') {
        int length = (int)strcspn(folders, ":");
        int written = snprintf(name, sizeof(name), "%.*s/%s", length, folders, program);
        if (length > 0 && written > 0 && (size_t)written < sizeof(name) && access(name, X_OK) == 0) {
            return true;
        }
        folders += length;
        folders += *folders == ':' ? 1 : 0;
    }
    return false;
}

bool traffic_plot_is_possible(const char *path)
{
    if (terminal_of(path) == NULL || strchr(path, '\n') != NULL) {
        tool_complain("--plot %s: the name ends in .svg, .png or .pdf", path);
        return false;
    }
    if (!is_in_path("gnuplot")) {
        tool_complain("--plot: gnuplot draws the picture, and is not installed (Debian: gnuplot-nox)");
        return false;
    }
    return true;
}

/* --- samples ---------------------------------------------------------------------------------- */

void traffic_plot_start(struct traffic_plot *plot, const char *path, uint64_t now)
{
    plot->path = path;
    plot->start = now;
    plot->apart = FIRST_APART_NS;
    plot->count = 1;
    plot->sample[0] = (struct traffic_sample){0};
}

static void thin_out(struct traffic_plot *plot)
{
    for (unsigned i = 0; 2 * i < plot->count; i++) {
        plot->sample[i] = plot->sample[2 * i];
    }
    plot->count = (plot->count + 1) / 2;
    plot->apart *= 2;
}

void traffic_plot_look(struct traffic_plot *plot, uint64_t now, const struct vipl_dm_counters *counters,
                       bool is_end)
{
    uint64_t ns = now - plot->start;
    uint64_t last = plot->sample[plot->count - 1].ns;

    if (plot->path == NULL || ns <= last || (!is_end && ns - last < plot->apart)) {
        return;
    }
    if (plot->count == TRAFFIC_MOST_SAMPLES) {
        thin_out(plot);
    }
    plot->sample[plot->count++] =
        (struct traffic_sample){.ns = ns,
                                .packets = counters->sent + counters->received,
                                .bytes = counters->sent_bytes + counters->received_bytes,
                                .lost = counters->lost};
}

/* --- drawing ---------------------------------------------------------------------------------- */

/* A text as gnuplot takes it as it is: only its own quotation mark is doubled. */
static void put_quoted(FILE *to, const char *text)
{
    putc('\'', to);
    for (; *text != '\0'; text++) {
        if (*text == '\'') {
            putc('\'', to);
        }
        putc(*text == '\n' ? ' ' : *text, to);
    }
    putc('\'', to);
}

/* A line for each interval: its middle, packets/s, Mb/s, lost packets/s. */
static void put_rates(FILE *to, const struct traffic_plot *plot)
{
    fputs("$rates << EOD\n", to);
    for (unsigned i = 1; i < plot->count; i++) {
        const struct traffic_sample *a = &plot->sample[i - 1];
        const struct traffic_sample *b = &plot->sample[i];
        double seconds = (double)(b->ns - a->ns) / NS_PER_SECOND;
        fprintf(to, "%.6f %.3f %.6f %.3f\n", (double)(a->ns + b->ns) / 2 / NS_PER_SECOND,
                (double)(b->packets - a->packets) / seconds, 8e-6 * (double)(b->bytes - a->bytes) / seconds,
                (double)(b->lost - a->lost) / seconds);
    }
    fputs("EOD\n", to);
}

static void put_script(FILE *to, const struct traffic_plot *plot, const char *title)
{
    fprintf(to, "set terminal %s\nset output ", terminal_of(plot->path));
    put_quoted(to, plot->path);
    fputs("\nset title ", to);
    put_quoted(to, title);
    fputs(" noenhanced\n"
          "set xlabel 'seconds'\nset ylabel 'packets/s'\nset y2label 'Mb/s'\n"
          "set xrange [0:*]\nset yrange [0:*]\nset y2range [0:*]\n"
          "set ytics nomirror\nset y2tics\nset grid\nset key below\n",
          to);
    put_rates(to, plot);
    fputs("plot $rates using 1:2 with lines linewidth 2 title 'packets/s', "
          "$rates using 1:3 axes x1y2 with lines dashtype 2 title 'Mb/s', "
          "$rates using 1:4 with impulses linecolor 'red' title 'lost packets/s'\n",
          to);
}

/* gnuplot may end before it has read all. */
static int run_gnuplot(const struct traffic_plot *plot, const char *title)
{
    void (*before)(int) = signal(SIGPIPE, SIG_IGN);
    FILE *gnuplot = popen("gnuplot", "we"); /* NOLINT(cert-env33-c): no word of it comes from outside */
    int status = -1;

    if (gnuplot == NULL) {
        tool_complain("gnuplot: %s", strerror(errno));
    } else {
        put_script(gnuplot, plot, title);
        status = pclose(gnuplot);
    }
    (void)signal(SIGPIPE, before);
    return status;
}

bool traffic_plot_draw(const struct traffic_plot *plot, const char *title)
{
    if (plot->path == NULL || plot->count < 2) {
        return true;
    }
    if (run_gnuplot(plot, title) != 0) {
        tool_complain("--plot %s: gnuplot has failed", plot->path);
        return false;
    }
    return true;
}
