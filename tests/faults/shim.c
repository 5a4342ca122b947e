/* A library for LD_PRELOAD that logs what a process changes below one folder, kills or stops it at a chosen change, makes
 * system calls fail, and sets the clock back. `crash.py` reads the log and decides what a power cut would have left.
 *
 * A program switches it on by `shim_log(root, log, kill_at)`, `shim_stop(...)`, `shim_fail(...)` and `shim_clock(...)` (see
 * `shim.py`); without that, every call is passed on unchanged. Writes by `mmap` cannot be seen: such a mapping is logged as
 * an error.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

enum { CREATE = 1, WRITE, TRUNCATE, RENAME, EXCHANGE, LINK, UNLINK, MKDIR, RMDIR, FSYNC, FSYNC_FOLDER, SYNC, UNSEEN };
enum { FAIL_OPEN = 1, FAIL_READ = 2, FAIL_WRITE = 4, FAIL_SYNC = 8, FAIL_NAMES = 16, FAIL_STAT = 32, FAIL_CREATE = 64 };

#define REAL(name) \
    static __typeof__(&name) real; \
    if (!real) real = (__typeof__(&name))dlsym(RTLD_NEXT, #name)

struct frame {
    uint32_t kind, first, second, data;
    uint64_t inode, offset;
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char root[PATH_MAX];
static size_t root_length;
static int log_file = -1;
static long changes, kill_at, stop_at;
static char failing[PATH_MAX];
static long fail_after, fail_times;
static int fail_calls, fail_errno;
static long clock_after, clock_jump;

static void before_fork(void) { pthread_mutex_lock(&mutex); }
static void after_fork(void) { pthread_mutex_unlock(&mutex); }
__attribute__((constructor)) static void set_up(void) { pthread_atfork(before_fork, after_fork, after_fork); }

/* Log changes below `folder` in the file `path`, and end the process before change number `number` (0: never). */
void shim_log(const char *folder, const char *path, long number) {
    REAL(open);
    snprintf(root, sizeof root, "%s", folder);
    root_length = strlen(root);
    changes = 0;
    kill_at = number;
    log_file = real(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
}

/* Stop the process, until it gets SIGCONT, before change number `number` since `shim_log` (0: never). */
void shim_stop(long number) { stop_at = number; }

/* Number of changes so far. */
long shim_changes(void) { return changes; }

/* After `after` calls of these kinds on paths below `folder`, let `times` of them (-1: all) fail with an error. */
void shim_fail(int calls, int error, long after, long times, const char *folder) {
    snprintf(failing, sizeof failing, "%s", folder);
    fail_errno = error;
    fail_after = after;
    fail_times = times;
    fail_calls = calls;
}

/* Set the clock back by `seconds` after it was read `after` times. */
void shim_clock(long after, long seconds) {
    clock_after = after;
    clock_jump = seconds;
}

static int is_below(const char *path, const char *folder) {
    size_t length = strlen(folder);
    return length && strncmp(path, folder, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/* The absolute path of a file, without links in its folder; 0 if there is none. */
static int resolve(int folder, const char *path, char *out) {
    char text[PATH_MAX], link[64], parent[PATH_MAX], copy[PATH_MAX];
    if (path[0] == '/') {
        snprintf(text, sizeof text, "%s", path);
    } else if (folder == AT_FDCWD) {
        if (!getcwd(parent, sizeof parent) || snprintf(text, sizeof text, "%s/%s", parent, path) >= PATH_MAX) return 0;
    } else {
        snprintf(link, sizeof link, "/proc/self/fd/%d", folder);
        ssize_t length = readlink(link, parent, sizeof parent - 1);
        if (length < 0) return 0;
        parent[length] = 0;
        if (snprintf(text, sizeof text, "%s/%s", parent, path) >= PATH_MAX) return 0;
    }
    snprintf(copy, sizeof copy, "%s", text);
    for (size_t length = strlen(copy); length > 1 && copy[length - 1] == '/'; length--) copy[length - 1] = 0;
    char *slash = strrchr(copy, '/');
    if (!slash) return 0;
    *slash = 0;
    if (!realpath(*copy ? copy : "/", parent)) return 0;
    return snprintf(out, PATH_MAX, "%s/%s", strcmp(parent, "/") ? parent : "", slash + 1) < PATH_MAX;
}

static int path_of(int file, char *out) {
    char link[64];
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    ssize_t length = readlink(link, out, PATH_MAX - 1);
    if (length < 0) return 0;
    out[length] = 0;
    return 1;
}

static int is_logged(const char *path) { return log_file >= 0 && is_below(path, root); }
static int is_logged_file(int file, char *path) { return log_file >= 0 && path_of(file, path) && is_logged(path); }

static int fails(int call, const char *path) {
    if (!(fail_calls & call) || !is_below(path, failing)) return 0;
    if (fail_after-- > 0) return 0;
    fail_after = 0;
    if (fail_times == 0) return 0;
    if (fail_times > 0) fail_times--;
    errno = fail_errno;
    return 1;
}

static int file_fails(int call, int file) {
    char path[PATH_MAX];
    return (fail_calls & call) && path_of(file, path) && fails(call, path);
}

static void die(void) {
    syscall(SYS_kill, getpid(), SIGKILL);
    for (;;) pause();
}

/* Begin a change: only one is made at a time, so that the log has their order. */
static void begin(void) {
    pthread_mutex_lock(&mutex);
    if (kill_at && changes + 1 >= kill_at) die();
    if (stop_at && changes + 1 >= stop_at) {
        stop_at = 0;
        syscall(SYS_kill, getpid(), SIGSTOP);
    }
}

static void end(void) {
    int kept = errno;
    pthread_mutex_unlock(&mutex);
    errno = kept;
}

static const char *below(const char *path) { return strlen(path) > root_length ? path + root_length + 1 : ""; }

static void put(int kind, uint64_t inode, uint64_t offset, const char *first, const char *second, const struct iovec *data,
                int pieces, size_t size) {
    int kept = errno;
    struct frame frame = {kind, first ? strlen(below(first)) : 0, second ? strlen(below(second)) : 0, size, inode, offset};
    syscall(SYS_write, log_file, &frame, sizeof frame);
    if (first) syscall(SYS_write, log_file, below(first), frame.first);
    if (second) syscall(SYS_write, log_file, below(second), frame.second);
    for (int each = 0; each < pieces && size; each++) {
        size_t length = data[each].iov_len < size ? data[each].iov_len : size;
        const char *at = data[each].iov_base;
        size -= length;
        while (length) {
            long done = syscall(SYS_write, log_file, at, length);
            if (done <= 0) abort();
            at += done;
            length -= done;
        }
    }
    changes++;
    errno = kept;
}

static uint64_t inode_of(int file) {
    struct stat stat;
    return syscall(SYS_fstat, file, &stat) == 0 ? stat.st_ino : 0;
}

static int open_any(int folder, const char *path, int flags, mode_t mode) {
    char whole[PATH_MAX];
    int named = (log_file >= 0 || fail_calls) && resolve(folder, path, whole);
    if (named && fails(flags & (O_CREAT | O_WRONLY | O_RDWR) ? FAIL_CREATE : FAIL_OPEN, whole)) return -1;
    if (!named || !is_logged(whole) || !(flags & (O_CREAT | O_TRUNC))) return syscall(SYS_openat, folder, path, flags, mode);
    begin();
    int there = access(whole, F_OK) == 0;
    int file = syscall(SYS_openat, folder, path, flags, mode);
    if (file >= 0) {
        if (!there) put(CREATE, inode_of(file), 0, whole, 0, 0, 0, 0);
        else if (flags & O_TRUNC) put(TRUNCATE, inode_of(file), 0, 0, 0, 0, 0, 0);
    }
    end();
    return file;
}

#define MODE(flags, last) \
    mode_t mode = 0; \
    if ((flags) & (O_CREAT | __O_TMPFILE)) { \
        va_list arguments; \
        va_start(arguments, last); \
        mode = va_arg(arguments, mode_t); \
        va_end(arguments); \
    }

int open(const char *path, int flags, ...) { MODE(flags, flags) return open_any(AT_FDCWD, path, flags, mode); }
int open64(const char *path, int flags, ...) { MODE(flags, flags) return open_any(AT_FDCWD, path, flags, mode); }
int openat(int folder, const char *path, int flags, ...) { MODE(flags, flags) return open_any(folder, path, flags, mode); }
int openat64(int folder, const char *path, int flags, ...) { MODE(flags, flags) return open_any(folder, path, flags, mode); }
int creat(const char *path, mode_t mode) { return open_any(AT_FDCWD, path, O_CREAT | O_WRONLY | O_TRUNC, mode); }

static ssize_t write_any(int file, const struct iovec *data, int pieces, int64_t offset) {
    char path[PATH_MAX];
    if (file_fails(FAIL_WRITE, file)) return -1;
    int logged = is_logged_file(file, path);
    if (logged) begin();
    int64_t at = offset;
    if (logged && offset < 0) {
        struct stat stat;
        syscall(SYS_fstat, file, &stat);
        at = fcntl(file, F_GETFL) & O_APPEND ? stat.st_size : lseek(file, 0, SEEK_CUR);
    }
    ssize_t done = offset < 0 ? syscall(SYS_writev, file, data, pieces)
                              : syscall(SYS_pwritev, file, data, pieces, (long)offset, 0L);
    if (logged) {
        if (done > 0) put(WRITE, inode_of(file), at, 0, 0, data, pieces, done);
        end();
    }
    return done;
}

ssize_t write(int file, const void *data, size_t size) {
    struct iovec piece = {(void *)data, size};
    return write_any(file, &piece, 1, -1);
}
ssize_t writev(int file, const struct iovec *data, int pieces) { return write_any(file, data, pieces, -1); }
ssize_t pwrite(int file, const void *data, size_t size, off_t offset) {
    struct iovec piece = {(void *)data, size};
    return write_any(file, &piece, 1, offset);
}
ssize_t pwrite64(int file, const void *data, size_t size, off64_t offset) { return pwrite(file, data, size, offset); }
ssize_t pwritev(int file, const struct iovec *data, int pieces, off_t offset) { return write_any(file, data, pieces, offset); }
ssize_t pwritev64(int file, const struct iovec *data, int pieces, off64_t offset) { return write_any(file, data, pieces, offset); }
ssize_t pwritev2(int file, const struct iovec *data, int pieces, off_t offset, int flags) {
    (void)flags;
    return write_any(file, data, pieces, offset);
}
ssize_t pwritev64v2(int file, const struct iovec *data, int pieces, off64_t offset, int flags) {
    (void)flags;
    return write_any(file, data, pieces, offset);
}

/* Copies inside the kernel are passed on as reads and writes. */
static ssize_t copy(int source, off_t *from, int sink, off_t *to, size_t size) {
    static char buffer[1 << 16];
    size_t wanted = size < sizeof buffer ? size : sizeof buffer;
    ssize_t done = from ? pread(source, buffer, wanted, *from) : read(source, buffer, wanted);
    if (done <= 0) return done;
    done = to ? pwrite(sink, buffer, done, *to) : write(sink, buffer, done);
    if (done > 0 && from) *from += done;
    if (done > 0 && to) *to += done;
    return done;
}

ssize_t copy_file_range(int source, off64_t *from, int sink, off64_t *to, size_t size, unsigned flags) {
    char path[PATH_MAX];
    if (is_logged_file(sink, path) || fail_calls) return copy(source, from, sink, to, size);
    return syscall(SYS_copy_file_range, source, from, sink, to, size, flags);
}

ssize_t sendfile(int sink, int source, off_t *from, size_t size) {
    char path[PATH_MAX];
    if (is_logged_file(sink, path) || fail_calls) return copy(source, from, sink, 0, size);
    return syscall(SYS_sendfile, sink, source, from, size);
}
ssize_t sendfile64(int sink, int source, off64_t *from, size_t size) { return sendfile(sink, source, from, size); }

int ftruncate(int file, off_t size) {
    char path[PATH_MAX];
    if (file_fails(FAIL_WRITE, file)) return -1;
    if (!is_logged_file(file, path)) return syscall(SYS_ftruncate, file, size);
    begin();
    int result = syscall(SYS_ftruncate, file, size);
    if (result == 0) put(TRUNCATE, inode_of(file), size, 0, 0, 0, 0, 0);
    end();
    return result;
}
int ftruncate64(int file, off64_t size) { return ftruncate(file, size); }

int truncate(const char *path, off_t size) {
    int file = open(path, O_WRONLY | O_CLOEXEC);
    if (file < 0) return -1;
    int result = ftruncate(file, size), kept = errno;
    close(file);
    errno = kept;
    return result;
}
int truncate64(const char *path, off64_t size) { return truncate(path, size); }

int posix_fallocate(int file, off_t offset, off_t size) {
    struct stat stat;
    if (syscall(SYS_fstat, file, &stat)) return errno;
    return offset + size > stat.st_size && ftruncate(file, offset + size) ? errno : 0;
}
int posix_fallocate64(int file, off64_t offset, off64_t size) { return posix_fallocate(file, offset, size); }
int fallocate(int file, int mode, off_t offset, off_t size) {
    if (mode) {
        errno = EOPNOTSUPP;
        return -1;
    }
    int code = posix_fallocate(file, offset, size);
    if (code) errno = code;
    return code ? -1 : 0;
}
int fallocate64(int file, int mode, off64_t offset, off64_t size) { return fallocate(file, mode, offset, size); }

static int sync_any(int file, long call) {
    char path[PATH_MAX];
    if (file_fails(FAIL_SYNC, file)) return -1;
    if (!is_logged_file(file, path)) return syscall(call, file);
    struct stat stat;
    begin();
    int result = syscall(call, file);
    syscall(SYS_fstat, file, &stat);
    if (result == 0) put(S_ISDIR(stat.st_mode) ? FSYNC_FOLDER : FSYNC, stat.st_ino, 0, path, 0, 0, 0, 0);
    end();
    return result;
}
int fsync(int file) { return sync_any(file, SYS_fsync); }
int fdatasync(int file) { return sync_any(file, SYS_fdatasync); }
int syncfs(int file) {
    (void)file;
    sync();
    return 0;
}
void sync(void) {
    if (log_file < 0) return;
    begin();
    put(SYNC, 0, 0, 0, 0, 0, 0, 0);
    end();
}

static int rename_any(int old_folder, const char *old, int new_folder, const char *new, unsigned flags) {
    char from[PATH_MAX], to[PATH_MAX];
    int named = (log_file >= 0 || fail_calls) && resolve(old_folder, old, from) && resolve(new_folder, new, to);
    if (named && (fails(FAIL_NAMES, from) || fails(FAIL_NAMES, to))) return -1;
    if (!named || !(is_logged(from) || is_logged(to))) return syscall(SYS_renameat2, old_folder, old, new_folder, new, flags);
    begin();
    int result = syscall(SYS_renameat2, old_folder, old, new_folder, new, flags);
    if (result == 0) put(!is_logged(from) || !is_logged(to) ? UNSEEN : flags & 2 ? EXCHANGE : RENAME, 0, 0, from, to, 0, 0, 0);
    end();
    return result;
}
int rename(const char *old, const char *new) { return rename_any(AT_FDCWD, old, AT_FDCWD, new, 0); }
int renameat(int old_folder, const char *old, int new_folder, const char *new) { return rename_any(old_folder, old, new_folder, new, 0); }
int renameat2(int old_folder, const char *old, int new_folder, const char *new, unsigned flags) {
    return rename_any(old_folder, old, new_folder, new, flags);
}

int linkat(int old_folder, const char *old, int new_folder, const char *new, int flags) {
    char from[PATH_MAX], to[PATH_MAX];
    int named = (log_file >= 0 || fail_calls) && resolve(old_folder, old, from) && resolve(new_folder, new, to);
    if (named && fails(FAIL_NAMES, to)) return -1;
    if (!named || !is_logged(to)) return syscall(SYS_linkat, old_folder, old, new_folder, new, flags);
    begin();
    int result = syscall(SYS_linkat, old_folder, old, new_folder, new, flags);
    if (result == 0) put(is_logged(from) ? LINK : UNSEEN, 0, 0, from, to, 0, 0, 0);
    end();
    return result;
}
int link(const char *old, const char *new) { return linkat(AT_FDCWD, old, AT_FDCWD, new, 0); }

static int change_name(int kind, int folder, const char *path, long call, long last) {
    char whole[PATH_MAX];
    int named = (log_file >= 0 || fail_calls) && resolve(folder, path, whole);
    if (named && fails(FAIL_NAMES, whole)) return -1;
    if (!named || !is_logged(whole)) return syscall(call, folder, path, last);
    begin();
    int result = syscall(call, folder, path, last);
    struct stat stat = {0};
    if (kind == MKDIR) syscall(SYS_newfstatat, AT_FDCWD, whole, &stat, 0);
    if (result == 0) put(kind, stat.st_ino, 0, whole, 0, 0, 0, 0);
    end();
    return result;
}
int unlink(const char *path) { return change_name(UNLINK, AT_FDCWD, path, SYS_unlinkat, 0); }
int rmdir(const char *path) { return change_name(RMDIR, AT_FDCWD, path, SYS_unlinkat, AT_REMOVEDIR); }
int unlinkat(int folder, const char *path, int flags) {
    return change_name(flags & AT_REMOVEDIR ? RMDIR : UNLINK, folder, path, SYS_unlinkat, flags);
}
int remove(const char *path) {
    struct stat stat;
    if (syscall(SYS_newfstatat, AT_FDCWD, path, &stat, AT_SYMLINK_NOFOLLOW)) return -1;
    return S_ISDIR(stat.st_mode) ? rmdir(path) : unlink(path);
}
int mkdirat(int folder, const char *path, mode_t mode) { return change_name(MKDIR, folder, path, SYS_mkdirat, mode); }
int mkdir(const char *path, mode_t mode) { return mkdirat(AT_FDCWD, path, mode); }

void *mmap(void *address, size_t size, int protection, int flags, int file, off_t offset) {
    char path[PATH_MAX];
    if (file >= 0 && file_fails(FAIL_READ, file)) return MAP_FAILED;
    void *result = (void *)syscall(SYS_mmap, address, size, protection, flags, file, offset);
    int writes = (flags & MAP_SHARED) && (protection & PROT_WRITE);
    if (result != MAP_FAILED && writes && file >= 0 && is_logged_file(file, path)) {
        begin();
        put(UNSEEN, inode_of(file), 0, path, 0, 0, 0, 0);
        end();
    }
    return result;
}
void *mmap64(void *address, size_t size, int protection, int flags, int file, off64_t offset) {
    return mmap(address, size, protection, flags, file, offset);
}

/* Calls that only fail. */

ssize_t read(int file, void *data, size_t size) {
    return file_fails(FAIL_READ, file) ? -1 : syscall(SYS_read, file, data, size);
}
ssize_t pread(int file, void *data, size_t size, off_t offset) {
    return file_fails(FAIL_READ, file) ? -1 : syscall(SYS_pread64, file, data, size, offset);
}
ssize_t pread64(int file, void *data, size_t size, off64_t offset) { return pread(file, data, size, offset); }
ssize_t preadv(int file, const struct iovec *data, int pieces, off_t offset) {
    return file_fails(FAIL_READ, file) ? -1 : syscall(SYS_preadv, file, data, pieces, (long)offset, 0L);
}
ssize_t preadv64(int file, const struct iovec *data, int pieces, off64_t offset) { return preadv(file, data, pieces, offset); }
ssize_t preadv2(int file, const struct iovec *data, int pieces, off_t offset, int flags) {
    return file_fails(FAIL_READ, file) ? -1 : syscall(SYS_preadv2, file, data, pieces, (long)offset, 0L, flags);
}
ssize_t preadv64v2(int file, const struct iovec *data, int pieces, off64_t offset, int flags) {
    return preadv2(file, data, pieces, offset, flags);
}
int fstat(int file, struct stat *stat) { return file_fails(FAIL_STAT, file) ? -1 : syscall(SYS_fstat, file, stat); }
int fstat64(int file, struct stat64 *stat) { return file_fails(FAIL_STAT, file) ? -1 : syscall(SYS_fstat, file, stat); }
int stat(const char *path, struct stat *stat) {
    char whole[PATH_MAX];
    if (fail_calls && resolve(AT_FDCWD, path, whole) && fails(FAIL_STAT, whole)) return -1;
    return syscall(SYS_newfstatat, AT_FDCWD, path, stat, 0);
}
int stat64(const char *path, struct stat64 *out) { return stat(path, (struct stat *)out); }

int clock_gettime(clockid_t clock, struct timespec *time) {
    int result = syscall(SYS_clock_gettime, clock, time);
    if (clock_jump && clock == CLOCK_REALTIME && clock_after-- <= 0) {
        clock_after = 0;
        time->tv_sec -= clock_jump;
    }
    return result;
}
int gettimeofday(struct timeval *restrict time, void *restrict zone) {
    struct timespec now;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &now);
    time->tv_sec = now.tv_sec;
    time->tv_usec = now.tv_nsec / 1000;
    return 0;
}
time_t time(time_t *out) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    if (out) *out = now.tv_sec;
    return now.tv_sec;
}
