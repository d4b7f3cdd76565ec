// Copyright: the ldaptune authors
// SPDX-License-Identifier: GPL-3.0-or-later
// The least a client can do: one epoll, kept connections, prebuilt bind requests, one outstanding on each, no clock
// between them, answers compared with the one expected. What the probe is measured against; built for the benchmark only.
//
//   bindloop ADDRESS PORT CONNECTIONS SECONDS FILE
//
// FILE holds requests, each behind its length as four octets, least significant first, all with message id 1. They are
// sent in a random order. Prints operations, seconds and CPU seconds of the loop.
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static const unsigned char EXPECTED[] = {0x30, 0x0c, 0x02, 0x01, 0x01, 0x61, 0x07, 0x0a, 0x01, 0x00, 0x04, 0x00, 0x04, 0x00};

struct request {
    const unsigned char *octets;
    uint32_t length;
};

static struct request *requests;
static uint32_t many;
static uint64_t state = 88172645463325252ull;

static void stop(const char *what) {
    perror(what);
    exit(1);
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return now.tv_sec + now.tv_nsec * 1e-9;
}

static void load(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) stop(path);
    fseek(file, 0, SEEK_END);
    long size = ftell(file);
    rewind(file);
    unsigned char *all = malloc(size);
    if (fread(all, 1, size, file) != (size_t)size) stop(path);
    fclose(file);
    for (long at = 0; at + 4 <= size; many++) at += 4 + (all[at] | all[at + 1] << 8 | all[at + 2] << 16);
    requests = calloc(many, sizeof *requests);
    long at = 0;
    for (uint32_t i = 0; i < many; i++) {
        requests[i].length = all[at] | all[at + 1] << 8 | all[at + 2] << 16;
        requests[i].octets = all + at + 4;
        at += 4 + requests[i].length;
    }
}

static void next(int fd) {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    const struct request *chosen = &requests[(state >> 32) * many >> 32];
    if (send(fd, chosen->octets, chosen->length, MSG_NOSIGNAL) != (ssize_t)chosen->length) stop("send");
}

int main(int count, char **words) {
    if (count != 6) {
        fprintf(stderr, "usage: bindloop ADDRESS PORT CONNECTIONS SECONDS FILE\n");
        return 2;
    }
    int connections = atoi(words[3]);
    double duration = atof(words[4]);
    load(words[5]);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(atoi(words[2]))};
    if (inet_pton(AF_INET, words[1], &to.sin_addr) != 1) stop("address");
    int poll = epoll_create1(0);
    int *fds = calloc(connections, sizeof *fds);
    for (int i = 0; i < connections; i++) {
        int on = 1;
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        if (fds[i] < 0 || connect(fds[i], (struct sockaddr *)&to, sizeof to)) stop("connect");
        setsockopt(fds[i], IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        struct epoll_event wanted = {.events = EPOLLIN, .data.fd = fds[i]};
        if (epoll_ctl(poll, EPOLL_CTL_ADD, fds[i], &wanted)) stop("epoll_ctl");
    }
    struct epoll_event *events = calloc(connections, sizeof *events);
    unsigned char answer[256];
    uint64_t done = 0;
    double begun = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID), now = begun;
    for (int i = 0; i < connections; i++) next(fds[i]);
    while ((now = seconds(CLOCK_MONOTONIC)) < begun + duration) {
        int ready = epoll_wait(poll, events, connections, 50);
        for (int i = 0; i < ready; i++) {
            int fd = events[i].data.fd;
            ssize_t size = recv(fd, answer, sizeof answer, 0);
            if (size != sizeof EXPECTED || memcmp(answer, EXPECTED, size)) {
                fprintf(stderr, "an answer of %zd octets is not the expected one\n", size);
                return 1;
            }
            done++;
            next(fd);
        }
    }
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%llu %.6f %.6f\n", (unsigned long long)done, now - begun, cpu);
    return 0;
}
