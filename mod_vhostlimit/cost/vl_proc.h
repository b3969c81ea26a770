/* SPDX-License-Identifier: Apache-2.0 */
#ifndef VL_PROC_H
#define VL_PROC_H

/* What the kernel says about processes of this machine: whether a thread wants a processor,
 * what it waits for, which process is at the other end of a socket, and CPU times. All from
 * /proc (proc(5)) and sock_diag(7). Only the sampler uses it. It keeps a cache of open files,
 * so one thread at a time may call it. */

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <apr.h>

#include "base/vl_own.h"

/* Opens the netlink socket. Returns 0 if the kernel answers no questions about sockets. */
int vl_proc_open(void);

typedef enum {
    VL_PROC_GONE,                   /* there is no such thread */
    VL_PROC_DENIED,                 /* CAP_SYS_PTRACE is missing */
    VL_PROC_RUNS,                   /* it runs, or waits for a processor */
    VL_PROC_WAITS
} vl_proc_e;

#define VL_PROC_FDS 8
/* Descriptors that a thread waits for; none if it sleeps or waits for another thread. */
typedef struct vl_waits_t {
    int n;
    int is_for_child;               /* it waits for the end of a program that it has started */
    int is_loop;                    /* it waits with epoll: `fd` may have a part of the descriptors */
    int fd[VL_PROC_FDS];
} vl_waits_t;

/* Looks at a thread (/proc/PID/task/TID/syscall). Fills in *ret_waits if it waits. */
vl_proc_e vl_proc_look(pid_t pid, pid_t tid, vl_waits_t *ret_waits);

/* Returns the inode of a socket or pipe of the process, 0 if the descriptor is neither.
 * *ret_is_pipe may be NULL. */
apr_uint64_t vl_proc_inode(pid_t pid, int fd, int *ret_is_pipe);

typedef enum {
    VL_PEER_NONE,                   /* not connected, or of an unknown family */
    VL_PEER_QUEUED,                 /* the other end has not been accepted yet */
    VL_PEER_HERE,                   /* on this machine, with this inode */
    VL_PEER_HIDDEN,                 /* an address of this machine, but its socket is not seen */
    VL_PEER_REMOTE                  /* on another machine or in another network namespace */
} vl_peer_e;

/* See vl_own_address(). */
typedef struct in6_addr vl_ip_t;
#define vl_proc_ip vl_own_address
#define vl_proc_ip6(ip) (*(ip))
#define vl_proc_key vl_own_key_of
/* Returns 0 if a socket that listens at `listens` accepts no connections to the address, 1 if it accepts those
 * to any address, and 2 if it listens at this one. */
int vl_proc_ip_matches(const vl_ip_t *listens, const vl_ip_t *address);

typedef struct vl_peer_t {
    apr_uint64_t inode;
    apr_uint64_t listener;          /* inode of the socket that listens, if it is in another network namespace */
    vl_ip_t ip, from_ip;            /* from: of this end */
    int port, from_port;            /* of TCP; 0: a Unix socket */
    char name[128];                 /* address that the other end listens at */
} vl_peer_t;

/* Finds the other end of a socket, given a descriptor of the process and its inode. The name of
 * a Unix socket is left empty: vl_proc_name() finds it. That of a queued one may stay unknown (before Linux 5.6). */
vl_peer_e vl_proc_peer(pid_t pid, int fd, apr_uint64_t inode, vl_peer_t *ret_peer);
void vl_proc_name(pid_t pid, int fd, vl_peer_t *peer);
/* Returns the number of the process's network namespace, 0 if it is gone. */
apr_uint64_t vl_proc_net(pid_t pid);
/* Returns 1 if the other end of a TCP connection is in the network namespace of this process. Fills in the port there,
 * and the inode of the socket that listens. May read all TCP sockets there, which takes milliseconds. */
int vl_proc_apart(pid_t pid, vl_peer_t *peer);
/* Stands for the inode of a TCP connection to another network namespace, in which it cannot be asked for: the port
 * of its client's end. vl_proc_from_port() returns it for the server's end, 0 for any other descriptor. */
#define VL_PROC_FROM_PORT ((apr_uint64_t)1 << 63)
apr_uint64_t vl_proc_from_port(pid_t pid, int fd);
/* Returns the process at the other end of this Unix socket of the process, 0 if it is unknown: the one
 * that has connected, or has called listen(). */
pid_t vl_proc_client(pid_t pid, int fd);
/* Returns the inode of the socket that listens at this address, 0 if there is none. Reads all
 * of /proc/net/unix for a Unix socket. */
apr_uint64_t vl_proc_listener(const vl_peer_t *peer);

/* Calls `see` with the inode of each socket that listens, and the path of a Unix socket or "". It returns 0 if it
 * wants no more Unix sockets. */
typedef int vl_proc_listener_fn(void *data, apr_uint64_t inode, const char *name);
void vl_proc_listeners(vl_proc_listener_fn *see, void *data);

/* Returns the CPU time that all threads of the process have used, ns; 0 if it is gone. */
apr_uint64_t vl_proc_cpu_ns(pid_t pid);
/* The same for one thread. */
apr_uint64_t vl_proc_thread_ns(pid_t pid, pid_t tid);
/* Reads a file of the process, such as "comm" (the name of the program, and a newline) and "cmdline" (first the title).
 * Returns 0 if it cannot be read. */
int vl_proc_read(pid_t pid, const char *name, char *ret_text, size_t size);
/* Returns the parent, 0 if the process is gone, and the CPU time of the children that it has
 * waited for, ns. */
pid_t vl_proc_parent(pid_t pid, apr_uint64_t *ret_children_ns);
/* Copies the working folder of the process. Returns 0 if it is not known. */
int vl_proc_folder(pid_t pid, char *ret_folder, size_t size);
/* Returns 1 if both processes have the same user and are in the same cgroups. */
int vl_proc_is_alike(pid_t pid, pid_t other);
/* Returns for how long the process has lived. */
apr_int64_t vl_proc_age_us(pid_t pid);
/* Returns up to max children of the thread's forks, or of the main thread (tid 0). */
int vl_proc_children(pid_t pid, pid_t tid, pid_t *ret_pids, int max);
/* Returns the CPU time that living programs of a process have used: the children of its threads, and
 * theirs, of so many generations. Adds those that want a processor to *ret_run. */
apr_uint64_t vl_proc_programs_ns(pid_t pid, int generations, int *ret_run);
/* Returns up to max threads of the process. */
int vl_proc_threads(pid_t pid, pid_t *ret_tids, int max);
/* Returns how many there are, at most max, in a third of the time of a list. */
int vl_proc_count_threads(pid_t pid, int max);
/* Pure; exported for its test. Reads the text of /proc/PID/task/TID/syscall. Returns -1 for
 * "running", else the number of the system call, with its first two arguments. -2: no sense. */
long vl_proc_parse_syscall(const char *text, unsigned long ret_args[2]);

#endif
