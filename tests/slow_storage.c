/* Makes positional reads slow, as network storage is: preloaded into a process by LD_PRELOAD, so
 * that what is tested is the wheel as it is, with nothing in it for the test.
 *
 * SLOW_FILES      reads of files with this in their path are slowed; others are not
 * SLOW_LATENCY_MS what each of them takes before its first byte, side by side with others
 * SLOW_MBPS       what all of them together get, one after another; 0 is no limit
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double free_at;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + 1e-9 * t.tv_nsec;
}

static void sleep_until(double when) {
    struct timespec t = {(time_t)when, (long)(1e9 * (when - (time_t)when))};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
}

static int is_slow(int fd) {
    const char *part = getenv("SLOW_FILES");
    char link[64], path[4096];
    snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
    ssize_t n = readlink(link, path, sizeof path - 1);
    if (part == NULL || n <= 0)
        return 0;
    path[n] = 0;
    return strstr(path, part) != NULL;
}

ssize_t pread64(int fd, void *to, size_t count, off64_t offset) {
    static ssize_t (*real)(int, void *, size_t, off64_t);
    if (real == NULL)
        real = (ssize_t(*)(int, void *, size_t, off64_t))dlsym(RTLD_NEXT, "pread64");
    ssize_t n = real(fd, to, count, offset);
    if (n > 0 && is_slow(fd)) {
        const char *mbps = getenv("SLOW_MBPS"), *ms = getenv("SLOW_LATENCY_MS");
        double done = now();
        if (mbps != NULL && atof(mbps) > 0) {
            pthread_mutex_lock(&lock);
            free_at = (free_at > done ? free_at : done) + n / (1e6 * atof(mbps));
            done = free_at;
            pthread_mutex_unlock(&lock);
        }
        sleep_until(done + 1e-3 * (ms == NULL ? 0 : atof(ms)));
    }
    return n;
}
