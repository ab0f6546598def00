/* Group locks, on two mounts of one file system: who is of the group shares the data of a file, who is not waits. */
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <lustre/lustreapi.h>
#include "two_mounts.h"

static void nothing(int signal)
{
	(void)signal;
}

/* A process that reads the first bytes on the other mount, and says whether they are these. */
static pid_t reader(int fd, const char *expected)
{
	char bytes[16] = "";
	pid_t child = fork();

	CHECK(child >= 0);
	if (child == 0)
		_exit(pread(fd, bytes, strlen(expected), 0) != (ssize_t)strlen(expected) || strcmp(bytes, expected));
	return child;
}

int main(int argc, char **argv)
{
	struct sigaction action = { .sa_handler = nothing };
	int first, second, other, impatient, status;
	char bytes[16] = "";
	pid_t child;

	CHECK(argc == 3);
	first = at(argv[1], "file", O_RDWR | O_CREAT);
	second = at(argv[1], "file", O_RDWR);
	other = at(argv[2], "file", O_RDWR);
	impatient = at(argv[2], "file", O_RDWR | O_NONBLOCK);
	CHECK(pwrite(first, "before", 6, 0) == 6);

	CHECK(llapi_group_lock(first, 0) == -EINVAL && errno == EINVAL);
	CHECK(llapi_group_unlock(first, 7) == -EINVAL);
	CHECK(llapi_group_lock(first, 7) == 0);
	CHECK(llapi_group_lock(first, 7) == -EINVAL && llapi_group_lock(first, 8) == -EINVAL);
	CHECK(llapi_group_lock64(impatient, 8) == -EAGAIN);

	/* The other mount is not of it: it sees the file as the group leaves it. */
	child = reader(other, "behind");
	usleep(300000);
	CHECK(waitpid(child, &status, WNOHANG) == 0);
	CHECK(pwrite(first, "middle", 6, 0) == 6 && pwrite(second, "behind", 6, 0) == 6);
	usleep(100000);
	CHECK(waitpid(child, &status, WNOHANG) == 0);
	CHECK(llapi_group_unlock(first, 8) == -EINVAL);
	CHECK(llapi_group_unlock(first, 7) == 0);
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);

	/* Of both mounts: each sees what the other writes. */
	CHECK(llapi_group_lock(first, 1) == 0 && llapi_group_lock(second, 1) == 0);
	CHECK(llapi_group_lock(other, 1) == 0);
	CHECK(pwrite(other, "theirs", 6, 0) == 6);
	CHECK(pread(first, bytes, 6, 0) == 6 && strcmp(bytes, "theirs") == 0);
	CHECK(pwrite(first, "ours..", 6, 0) == 6);
	CHECK(pread(other, bytes, 6, 0) == 6 && strcmp(bytes, "ours..") == 0);

	/* The last one that leaves ends it, by close(2) too. */
	CHECK(llapi_group_unlock(first, 1) == 0 && llapi_group_unlock(other, 1) == 0);
	CHECK(llapi_group_lock64(impatient, 2) == -EAGAIN);
	CHECK(sigaction(SIGALRM, &action, NULL) == 0);
	alarm(1);
	CHECK(llapi_group_lock(other, 2) == -EINTR);
	CHECK(close(second) == 0);
	CHECK(llapi_group_lock(other, 2) == 0);

	/* Two wait for one group: who does not want to wait does not wait for them, and a signal ends the wait of its own process. */
	{
		pid_t waiters[2];
		int n;

		for (n = 0; n < 2; n++) {
			waiters[n] = fork();
			CHECK(waiters[n] >= 0);
			if (waiters[n] == 0)
				_exit(llapi_group_lock(at(argv[1], "file", O_RDWR), 9) != 0);
		}
		usleep(300000);
		second = at(argv[1], "file", O_RDWR | O_NONBLOCK);
		CHECK(llapi_group_lock(second, 9) == -EAGAIN && close(second) == 0);
		for (n = 1; n >= 0; n--) {
			CHECK(waitpid(waiters[n], &status, WNOHANG) == 0 && kill(waiters[n], SIGTERM) == 0);
			CHECK(waitpid(waiters[n], &status, 0) == waiters[n] && WIFSIGNALED(status));
		}
	}

	/* Who dies with it leaves it. */
	child = fork();
	CHECK(child >= 0);
	if (child == 0) {
		int own = at(argv[2], "file", O_RDWR);

		_exit(llapi_group_lock(own, 2) != 0);
	}
	CHECK(waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0);
	CHECK(llapi_group_unlock64(other, 2) == 0);
	CHECK(llapi_group_lock(first, 3) == 0 && close(first) == 0);
	CHECK(llapi_group_lock(other, 4) == 0 && close(other) == 0 && close(impatient) == 0);
	return 0;
}
