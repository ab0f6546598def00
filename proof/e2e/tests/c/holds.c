/* Takes a lease of a file, and says for each line that comes in what is left of it. holds FILE MODE */
#include <fcntl.h>
#include <unistd.h>
#include <lustre/lustreapi.h>
#include "check.h"

int main(int argc, char **argv)
{
	int fd, letter;

	CHECK(argc == 3);
	fd = open(argv[1], O_RDWR);
	CHECK(fd >= 0);
	printf("%d\n", llapi_lease_acquire(fd, atoi(argv[2])));
	fflush(stdout);
	while ((letter = getchar()) != EOF) {
		if (letter == '\n') {
			printf("%d\n", llapi_lease_check(fd));
			fflush(stdout);
		}
	}
	return 0;
}
